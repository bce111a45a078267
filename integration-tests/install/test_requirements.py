"""The recipes of the READMEs for projects that require an original, run by uv."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
ORIGINALS = {
    "pointnet2-ops-mps": ("pointnet2-ops", "3.0.0"),
    "knn-cuda-mps": ("knn-cuda", "0.2"),
    "torch-cluster-mps": ("torch-cluster", "1.6.3"),
}
needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not on the path")


def blocks(kind):
    """Blocks of a kind in the pages: distribution and text."""
    for name in ORIGINALS:
        page = (ROOT / "packages" / name / "README.md").read_text()
        for number, text in enumerate(re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL)):
            yield pytest.param(name, text, id=f"{name}-{number}")


@pytest.fixture
def index(tmp_path, make_wheel):
    """Wheels that hold nothing but names, versions and requirements."""
    folder = tmp_path / "index"
    for name in ORIGINALS:
        make_wheel(folder, name, "0.1.0", requires=["mps-pointops>=2.0,<3"])
        make_wheel(folder, f"uses-{name}", "1.0", requires=["==".join(ORIGINALS[name])])
    make_wheel(folder, "mps-pointops", "2.0.0")
    return folder


def sync(folder, index, name, settings, *, with_original=False, make_wheel):
    """Names that `uv sync` installs for a project that needs ours and a package on the original."""
    original, version = ORIGINALS[name]
    if with_original:
        make_wheel(index, original, version)
    project = folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        f'[project]\nname = "it"\nversion = "0"\nrequires-python = ">=3.10"\n'
        f'dependencies = ["{name}", "uses-{name}"]\n\n{settings}'
    )
    command = ["uv", "sync", "--offline", "--no-index", "--find-links", str(index)]
    done = subprocess.run(
        [*command, "--python", sys.executable],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    found = project.glob(".venv/lib/python*/site-packages/*.dist-info")
    names = {path.name.partition("-")[0].lower().replace("_", "-") for path in found}
    return done, names


def test_every_page_has_its_recipes():
    assert {block.values[0] for block in blocks("toml")} == set(ORIGINALS)
    assert {block.values[0] for block in blocks("text")} == set(ORIGINALS)


@needs_uv
@pytest.mark.parametrize(("name", "settings"), list(blocks("toml")))
@pytest.mark.parametrize("with_original", [False, True])
def test_recipes_of_uv(tmp_path, index, make_wheel, name, settings, with_original):
    """Whether the original can be had or not, it is not installed."""
    if "override-dependencies" in settings:  # an override still has to be found on the index
        assert name == "torch-cluster-mps"  # which has its original
        with_original = True
    done, names = sync(
        tmp_path, index, name, settings, with_original=with_original, make_wheel=make_wheel
    )
    assert done.returncode == 0, done.stderr
    assert names == {name, f"uses-{name}", "mps-pointops"}


@needs_uv
@pytest.mark.parametrize("name", ORIGINALS)
def test_without_a_recipe(tmp_path, index, make_wheel, name):
    """What the recipes are for: no such package, or both side by side."""
    done, _ = sync(tmp_path, index, name, "", make_wheel=make_wheel)
    assert done.returncode == 1
    assert ORIGINALS[name][0] in done.stderr
    shutil.rmtree(tmp_path / "project")
    done, names = sync(tmp_path, index, name, "", with_original=True, make_wheel=make_wheel)
    assert done.returncode == 0, done.stderr
    assert names >= {name, ORIGINALS[name][0]}


@pytest.mark.parametrize(("name", "text"), list(blocks("text")))
def test_one_file_for_both_kinds_of_machine(name, text):
    """On a Mac ours, elsewhere the original."""
    chosen = {"darwin": [], "linux": []}
    for line in text.strip().splitlines():
        requirement = Requirement(line)
        for system, names in chosen.items():
            if requirement.marker.evaluate({"sys_platform": system}):
                names.append(re.sub("[_-]+", "-", requirement.name).lower())
    assert chosen == {"darwin": [name], "linux": [ORIGINALS[name][0]]}
