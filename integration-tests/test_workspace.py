"""The workspace as a whole: licences, layout, versions, shaders, lock, wheel, CI files."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from mps_emulator.check import check_source
from mps_pointops._metal import variants

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = {
    *("packages", "shared-kernels", "integration-tests", "bench"),
    *("uv.lock", "pyproject.toml", "README.md", "LICENSE"),
}
PROBE = ROOT / ".github" / "scripts" / "probe_mps.py"
needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on the path")


def tracked(*folders: str) -> list[str]:
    """Files that git knows, from the root."""
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--", *folders]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"these tests need the git checkout: {run.stderr}"
    return [name for name in run.stdout.split("\0") if name]


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def members() -> dict[str, Path]:
    """Name and folder of every member of the workspace."""
    patterns = read_toml(ROOT / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]
    folders = [folder for pattern in patterns for folder in sorted(ROOT.glob(pattern))]
    files = [folder / "pyproject.toml" for folder in folders if folder.is_dir()]
    return {read_toml(f)["project"]["name"]: f.parent for f in files if f.exists()}


def source_trees() -> list[Path]:
    return [folder / "src" for folder in members().values()]


def refused_ranges(projects: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Requirements between members that the version in the workspace does not meet."""
    refused = []
    for name, project in projects.items():
        groups = [
            project.get("dependencies", []),
            *project.get("optional-dependencies", {}).values(),
        ]
        for requirement in (Requirement(text) for group in groups for text in group):
            wanted = projects.get(requirement.name)
            if wanted and not requirement.specifier.contains(wanted["version"], prereleases=True):
                refused.append(f"{name}: {requirement} but the workspace has {wanted['version']}")
    return refused


def test_members_are_found() -> None:
    assert {"mps-pointops", "mps-emulator"} <= set(members())


@pytest.mark.parametrize("name", sorted(members()))
def test_licence_is_the_one_of_the_root(name: str) -> None:
    assert (members()[name] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_top_level_holds_what_the_design_lists() -> None:
    found = {name.split("/")[0] for name in tracked()}
    assert {name for name in found if not name.startswith(".")} == TOP_LEVEL


def test_member_ranges_admit_the_workspace() -> None:
    projects = {n: read_toml(p / "pyproject.toml")["project"] for n, p in members().items()}
    assert refused_ranges(projects) == []


def test_a_range_that_excludes_the_workspace_is_noticed() -> None:
    core = {"version": "2.1.0"}
    dependent = {"version": "0.1", "dependencies": ["torch>=2.7", "mps-pointops>=1,<2"]}
    optional = {"version": "0.1", "optional-dependencies": {"x": ["mps-pointops==2.0.*"]}}
    fitting = {"version": "0.1", "dependencies": ["mps-pointops>=2,<3"]}
    projects = {"mps-pointops": core, "a": dependent, "b": optional, "c": fitting}
    assert [line.split(":")[0] for line in refused_ranges(projects)] == ["a", "b"]


def test_no_source_touches_the_module_table() -> None:
    banned = re.compile(r"sys\.modules\[")
    files = [path for tree in source_trees() for path in tree.rglob("*.py")]
    assert len(files) > 20
    assert [str(path) for path in files if banned.search(path.read_text("utf-8"))] == []


def test_no_source_asks_isinstance_with_a_union() -> None:
    """torch 2.7 does not compile `isinstance(x, list | tuple)`."""
    for path in (path for tree in source_trees() for path in tree.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name("isinstance"), args=[_, ast.BinOp()]):
                    pytest.fail(f"{path}:{node.lineno}: name the types in a tuple")


def shader_files() -> list[Path]:
    return [ROOT / name for name in tracked("*.metal") if "/src/" in name]


def test_what_drop_ins_take_from_the_core_is_listed() -> None:
    table = (ROOT / "packages" / "README.md").read_text().split("| from the core |")[1]
    listed = {f"mps_pointops.{name}" for name in re.findall(r"^\| `(.*?)` \|", table, re.M)}
    taken = set()
    for name in tracked("packages"):
        if "/src/" not in name or not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mps_pointops"):
                for part in (f"{node.module}.{alias.name}" for alias in node.names):
                    path = ROOT / "shared-kernels" / "src" / Path(*part.split("."))
                    taken.add(part if path.with_suffix(".py").exists() else node.module)
    assert {"mps_pointops._checks", "mps_pointops._metal"} <= taken
    assert taken == listed


def test_shaders_are_ascii() -> None:
    assert {"ops", "_metal", "_flat_mps", "spatial"} <= {
        part for path in shader_files() for part in path.parts
    }
    assert [str(path) for path in shader_files() if not path.read_bytes().isascii()] == []


def test_every_room_with_a_shader_has_variants() -> None:
    names = {name.split(" ")[0] for name, _ in variants()}
    # the plug-in's own is checked by its tests
    ours = [path for path in shader_files() if "mps_pointops" in path.parts]
    assert {path.name for path in ours if path.parent.name != "_metal"} <= names


@pytest.mark.skipif(
    sys.platform != "linux", reason="the checker's clang (ziglang) is locked for Linux only"
)
def test_shaders_pass_the_static_check() -> None:
    def check(variant: tuple[str, str]) -> list[str]:
        name, text = variant
        return [str(p) for p in check_source(text, name, require_contract_off=True)]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [line for found in pool.map(check, variants()) for line in found]
    assert problems == []


@needs_uv
def test_lock_is_current() -> None:
    command = ["uv", "lock", "--check", "--offline"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_probe_passes_where_kernels_run() -> None:
    emulated = [] if sys.platform == "darwin" else ["-m", "mps_emulator"]
    command = [sys.executable, *emulated, str(PROBE)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "kernel compiled and right, simdgroups of 32" in run.stdout


@pytest.mark.skipif(sys.platform == "darwin", reason="shows the failure on a machine without MPS")
def test_probe_fails_loudly_without_a_device() -> None:
    run = subprocess.run(
        [sys.executable, str(PROBE)],
        env={**os.environ, "GITHUB_ACTIONS": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("::error title=MPS probe::MPS probe failed in check_available")
    assert "finds no MPS device" in run.stderr


@needs_uv
@pytest.mark.slow  # fetches the build back end
def test_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    command = ["uv", "build", "--package", "mps-pointops", "--wheel", "--out-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    source = "shared-kernels/src/"
    assert inside == {name.removeprefix(source) for name in tracked(source)}
    assert "mps_pointops/py.typed" in inside
    rooms = {name.rsplit("/", 1)[0] for name in inside if re.match(r".*/ops/\w+/\w+\.metal$", name)}
    assert len(rooms) >= 3
    assert rooms <= {name.rsplit("/", 1)[0] for name in inside if name.endswith("/README.md")}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@needs_uv
@pytest.mark.slow  # fetches a YAML parser
def test_workflows_parse_and_ask_for_little() -> None:
    files = [
        n for n in tracked(".github", ".pre-commit-config.yaml") if n.endswith((".yml", ".yaml"))
    ]
    assert len(files) >= 6
    convert = (
        "import json, sys, yaml; "
        "print(json.dumps([yaml.safe_load(open(f, encoding='utf-8')) for f in sys.argv[1:]]))"
    )
    command = ["uv", "run", "--no-project", "--with", "pyyaml", "python", "-c", convert, *files]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    documents = dict(zip(files, json.loads(run.stdout), strict=True))
    workflow = documents[".github/workflows/ci.yml"]
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        assert "permissions" not in job, name
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"] == {"persist-credentials": False}, name
    forms = [d for n, d in documents.items() if "ISSUE_TEMPLATE" in n and "config" not in n]
    assert all({"name", "description", "body"} <= set(form) for form in forms)
