"""What is checked before a release finds what is wrong, and this workspace passes."""

import importlib
import io
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"


@pytest.fixture(scope="module")
def check():
    """The script as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(GITHUB / "scripts"))
        yield importlib.import_module("check_release")


@pytest.fixture
def workspace(tmp_path):
    """A small workspace in git: a core, a drop-in, a private tool."""
    write(tmp_path, "pyproject.toml", '[tool.uv.workspace]\nmembers = ["core", "packages/*"]\n')
    write(tmp_path, "LICENSE", "licence\n")
    for folder, name, version, more in (
        ("core", "core", "2.1.0", 'dependencies = ["torch>=2.7"]'),
        ("packages/drop-in", "drop-in", "0.1.0", 'dependencies = ["core>=2,<3"]'),
        ("packages/tool", "tool", "0.3", 'classifiers = ["Private :: Do Not Upload"]'),
    ):
        package = f"{folder}/src/{name.replace('-', '_')}"
        head = f'[project]\nname = "{name}"\nversion = "{version}"\n'
        write(tmp_path, f"{folder}/pyproject.toml", f"{head}{more}\n")
        write(tmp_path, f"{folder}/LICENSE", "licence\n")
        write(tmp_path, f"{package}/py.typed", "")
        if name != "tool":
            variable = "__mps_version__" if name == "drop-in" else "__version__"
            text = f'"""Code."""\n\n{variable} = "{version}"\n'
            write(tmp_path, f"{package}/__init__.py", text)
            write(tmp_path, f"{folder}/CHANGELOG.md", f"# C\n\n## {version} - 2026-01-02\n\n- a\n")
    write(tmp_path, "core/src/core/kernel.metal", "kernel\n")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def replace(root, name, old, new):
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def problems(check, root, capsys, *arguments):
    code = check.main(list(arguments), root)
    lines = capsys.readouterr().err.splitlines()
    assert code == (1 if lines else 0)
    return [line.removeprefix("check_release: ") for line in lines]


# --- this workspace


def test_this_workspace_passes(check, capsys):
    assert problems(check, ROOT, capsys) == []


def test_members(check):
    members = check.read_members(ROOT)
    assert {name for name, member in members.items() if member.is_private} == {"mps-emulator"}
    assert len(members) >= 6


def test_package_data_is_in_git(check):
    """Wheels hold what git has under src/: kernels, their shared text, the mark of types."""
    for name, member in check.read_members(ROOT).items():
        files = check.source_files(member)
        (package,) = {file.partition("/")[0] for file in files}
        assert f"{package}/py.typed" in files, name
        if name == "mps-pointops":
            assert sum(file.endswith(".metal") for file in files) > 5
        # tests, data and pictures have no place there
        kinds = {Path(file).suffix for file in files}
        allowed = {".py", ".md", ".metal", ".typed", ""}
        if not member.is_private:
            assert kinds <= allowed, name


def test_tools_see_only_what_is_listed(check):
    """What an sdist includes is a list of its own, in every member that is uploaded."""
    for name, member in check.read_members(ROOT).items():
        if member.is_private:
            continue
        text = (member.path / "pyproject.toml").read_text()
        assert '[tool.hatch.build.targets.sdist]\ninclude = ["/src", "/tests", ' in text, name
        assert re.search(r'\[tool.hatch.build.targets.wheel\]\npackages = \["src/\w+"\]', text), (
            name
        )


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on the path")
@pytest.mark.slow  # fetches the build back end
def test_built_files(check, tmp_path, capsys):
    for name, member in check.read_members(ROOT).items():
        if not member.is_private:
            command = ["uv", "build", "-q", "--package", name, "--out-dir", str(tmp_path)]
            subprocess.run(command, cwd=ROOT, check=True)
    assert len(list(tmp_path.glob("*.whl"))) == len(list(tmp_path.glob("*.tar.gz"))) >= 5
    assert problems(check, ROOT, capsys, "--files", str(tmp_path)) == []


# --- each check finds what it is for


def test_a_good_workspace(check, workspace, capsys):
    assert problems(check, workspace, capsys) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("core/LICENSE", "licence", "Licence", "core/LICENSE is not the LICENSE of the root"),
        (
            "core/src/core/__init__.py",
            "2.1.0",
            "2.0.9",
            "core: its code says 2.0.9, its pyproject.toml 2.1.0",
        ),
        (
            "packages/drop-in/src/drop_in/__init__.py",
            "__mps_version__",
            "other",
            "packages/drop-in: its code says None, its pyproject.toml 0.1.0",
        ),
        (
            "packages/drop-in/pyproject.toml",
            "core>=2,<3",
            "core>=2.2,<3",
            "drop-in requires core<3,>=2.2, the workspace has 2.1.0",
        ),
        (
            "packages/drop-in/pyproject.toml",
            "core>=2,<3",
            "tool",
            "drop-in requires tool, which is never uploaded",
        ),
        (
            "core/CHANGELOG.md",
            "2.1.0 - 2026-01-02",
            "2.1.0",
            "core/CHANGELOG.md: heading '2.1.0' is not 'VERSION - YYYY-MM-DD'",
        ),
        ("core/CHANGELOG.md", "- a\n", "", "core/CHANGELOG.md: 2.1.0 - 2026-01-02 says nothing"),
        ("core/CHANGELOG.md", "## ", "", "core/CHANGELOG.md has no section"),
    ],
)
def test_what_must_always_hold(check, workspace, capsys, name, old, new, found):
    replace(workspace, name, old, new)
    assert problems(check, workspace, capsys) == [found]


def test_good_tags(check, workspace, capsys):
    assert check.main(["--tag", "core-v2.1.0"], workspace) == 0
    assert capsys.readouterr().out == "name=core\nversion=2.1.0\nfolder=core\n"
    replace(workspace, "core/CHANGELOG.md", "## 2.1.0", "## Unreleased\n\n## 2.1.0")
    assert check.main(["--tag", "core-v2.1.0"], workspace) == 0
    assert check.main(["--tag", "drop-in-v0.1.0"], workspace) == 0
    assert capsys.readouterr().out.endswith("folder=packages/drop-in\n")


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("v2.1.0", "tag 'v2.1.0' is not '<distribution>-v<version>'"),
        ("core-2.1.0", "tag 'core-2.1.0' is not '<distribution>-v<version>'"),
        ("core-v2.1.0;x", "tag 'core-v2.1.0;x' is not '<distribution>-v<version>'"),
        ("cor-v2.1.0", "tag 'cor-v2.1.0': no member is called cor; there are core, drop-in, tool"),
        ("core-v2.1.1", "tag 'core-v2.1.1', but pyproject.toml of core says 2.1.0"),
        ("tool-v0.3.0", "tool is never uploaded"),
    ],
)
def test_bad_tags(check, workspace, capsys, tag, found):
    lines = problems(check, workspace, capsys, "--tag", tag)
    assert lines[0] == found
    assert capsys.readouterr().out == ""


def test_a_changelog_that_is_behind(check, workspace, capsys):
    for old, new in (("## 2.1.0", "## 2.0.0"), ("## 2.0.0", "## Unreleased\n\n- b\n\n## 2.1.0")):
        replace(workspace, "core/CHANGELOG.md", old, new)
        (line,) = problems(check, workspace, capsys, "--tag", "core-v2.1.0")
        assert re.fullmatch(r"core/CHANGELOG.md begins with '.*', not with '2.1.0 - .*'", line)


WHEEL = {
    "core/__init__.py": b"",
    "core/kernel.metal": b"",
    "core/py.typed": b"",
    "core-2.1.0.dist-info/METADATA": b"Name: core\nVersion: 2.1.0\nRequires-Dist: torch>=2.7\n\n",
    "core-2.1.0.dist-info/WHEEL": b"",
    "core-2.1.0.dist-info/RECORD": b"",
    "core-2.1.0.dist-info/licenses/LICENSE": b"licence\n",
}
SDIST = {
    **dict.fromkeys(("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "PKG-INFO"), b""),
    **{f"src/{name}": b"" for name in WHEEL if "dist-info" not in name},
    "tests/test_a.py": b"",
}


def built(folder, wheel=None, sdist=None, name="core-2.1.0-py3-none-any.whl"):
    folder.mkdir()
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file, data in {**WHEEL, **(wheel or {})}.items():
            if data is not None:
                archive.writestr(file, data)
    with tarfile.open(folder / "core-2.1.0.tar.gz", "w:gz") as archive:
        for file, data in {**SDIST, **(sdist or {})}.items():
            if data is not None:
                item = tarfile.TarInfo(f"core-2.1.0/{file}")
                item.size = len(data)
                archive.addfile(item, io.BytesIO(data))
    return folder


def test_good_files(check, workspace, tmp_path, capsys):
    folder = built(tmp_path / "dist")
    (folder / ".gitignore").write_text("*")
    assert problems(check, workspace, capsys, "--files", str(folder)) == []


INFO = "core-2.1.0.dist-info"


@pytest.mark.parametrize(
    ("wheel", "found"),
    [
        ({"core/kernel.metal": None}, "lacks core/kernel.metal"),
        ({"core/py.typed": None}, "lacks core/py.typed"),
        ({"core/left.pyc": b""}, "has core/left.pyc, which is no file of src/ in git"),
        ({"tests/test_a.py": b""}, "has tests/test_a.py, which is no file of src/ in git"),
        ({f"{INFO}/licenses/LICENSE": b"another"}, "has not the LICENSE of the root"),
        ({f"{INFO}/licenses/AUTHORS": b""}, "has .dist-info/licenses/AUTHORS"),
        (
            {f"{INFO}/METADATA": b"Name: core\nVersion: 2.0.0\nRequires-Dist: torch>=2.7\n\n"},
            "says core 2.0.0",
        ),
        ({f"{INFO}/METADATA": b"Name: core\nVersion: 2.1.0\n\n"}, "does not require torch>=2.7"),
    ],
)
def test_bad_wheels(check, workspace, tmp_path, capsys, wheel, found):
    folder = built(tmp_path / "dist", wheel)
    lines = problems(check, workspace, capsys, "--files", str(folder))
    assert f"core-2.1.0-py3-none-any.whl {found}" in lines


def test_a_wheel_for_one_system(check, workspace, tmp_path, capsys):
    name = "core-2.1.0-cp311-cp311-linux_x86_64.whl"
    folder = built(tmp_path / "dist", name=name)
    lines = problems(check, workspace, capsys, "--files", str(folder))
    assert lines == [f"{name} is not for every Python and system"]


@pytest.mark.parametrize(
    ("sdist", "found"),
    [
        ({"src/core/kernel.metal": None}, "lacks core/kernel.metal"),
        ({"emulator/x.py": b""}, "has emulator/x.py"),
        ({"out.png": b""}, "has out.png"),
        ({"LICENSE": None}, "lacks LICENSE"),
    ],
)
def test_bad_sdists(check, workspace, tmp_path, capsys, sdist, found):
    folder = built(tmp_path / "dist", sdist=sdist)
    assert problems(check, workspace, capsys, "--files", str(folder)) == [
        f"core-2.1.0.tar.gz {found}"
    ]


def test_files_that_are_missing_or_strange(check, workspace, tmp_path, capsys):
    folder = tmp_path / "dist"
    folder.mkdir()
    arguments = ("--files", str(folder))
    assert problems(check, workspace, capsys, *arguments) == [f"{folder} has no built files"]
    (built(tmp_path / "more") / "core-2.1.0-py3-none-any.whl").rename(
        folder / "core-2.1.0-py3-none-any.whl"
    )
    assert problems(check, workspace, capsys, *arguments) == [
        f"{folder} has no source distribution of core"
    ]
    (folder / "notes.txt").write_text("")
    assert problems(check, workspace, capsys, *arguments)[0] == (
        "notes.txt is not a wheel or source distribution of a member"
    )


# --- the workflow and the page


def test_workflow():
    """Only the last job may publish, after the others, without a stored token."""
    text = (GITHUB / "workflows/release.yml").read_text()
    assert 'tags: ["*-v[0-9]+.[0-9]+.[0-9]+*"]' in text
    assert text.count("permissions:") == 2
    before, publish = text.split("  publish:\n")
    assert "permissions:\n  contents: read\n" in before
    assert "id-token" not in before
    assert "needs: [build, test]" in publish
    assert "environment: release-${{ needs.build.outputs.name }}" in publish
    assert "--trusted-publishing always" in publish
    assert "secrets." not in text
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    used = re.findall(r"uses: (\S+)", text)
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", name) for name in used)
    assert text.count("timeout-minutes:") == 3
    for step in re.findall(r"run: (?:\|\n)?(.*?)(?=\n      - |\n\n|\Z)", text, re.DOTALL):
        assert "${{" not in step  # no text of a tag becomes shell code
        assert " | " not in step  # the default shell takes the exit code of the last command


def test_every_distribution_fits_the_tags(check):
    for member in check.read_members(ROOT).values():
        if not member.is_private:
            tag = check.TAG.fullmatch(f"{member.name}-v{member.version}")
            assert (tag["name"], tag["version"]) == (member.name, member.version)


def test_page():
    page = (GITHUB / "RELEASING.md").read_text()
    for needed in ("release.yml", "check_release.py --tag", "check_release.py --files", "yank"):
        assert needed.lower() in page.lower()
    assert "release-<distribution>" in page
