"""Two distributions of one import name: the warning, the doctor, and the cures that they print.

The originals are wheels made here, with their names and a few files of the same names as ours.
"""

import json
import re
import shlex

import pytest

from mps_pointops.doctor import installed
from mps_pointops.doctor.finding import Finding

pytestmark = pytest.mark.slow  # builds wheels and environments

# import name -> ours, the original, its version, a file that both have
NAMES = {
    "pointnet2_ops": ("pointnet2-ops-mps", "pointnet2_ops", "3.0.0", "pointnet2_utils.py"),
    "knn_cuda": ("knn-cuda-mps", "KNN_CUDA", "0.2", "__init__.py"),
    "torch_cluster": ("torch-cluster-mps", "torch_cluster", "1.6.3", "knn.py"),
}
CASES = [(name, "uv") for name in NAMES] + [("knn_cuda", "pip")]


@pytest.fixture
def place(environment, tmp_path, make_wheel):
    """An environment with mps-pointops, and a wheel of the original."""

    def make(import_name, installer):
        there = environment(installer)
        there.pip("install", "mps-pointops")
        _, original, version, shared = NAMES[import_name]
        files = {f"{import_name}/{name}": "ORIGINAL = True\n" for name in ("__init__.py", shared)}
        there.original = make_wheel(tmp_path / "originals", original, version, files)
        return there

    return make


def state(there, import_name):
    """What the doctor finds about a name there, without the process that it takes."""
    (name,) = (name for name in installed.NAMES if name.import_name == import_name)
    return installed.check_name(name, [str(there.site)])[0]


def doctor(there, import_name):
    """Exit code of the command itself, and what it finds about a name."""
    words = ["doctor", "--json", "--install-only"]
    code = f"from mps_pointops.__main__ import main; raise SystemExit(main({words}))"
    done = there.run(code, check=False)
    told = json.loads(done.stdout)
    (found, *_) = [Finding(**f) for f in told["findings"] if f["subject"] == import_name]
    assert told["ok"] is (done.returncode == 0)
    return done.returncode, found


def is_whole(there, import_name):
    found = state(there, import_name)
    return found.level == "ok" and "files as installed" in found.what


@pytest.mark.parametrize("last", ["ours", "theirs"])
@pytest.mark.parametrize(("import_name", "installer"), CASES)
def test_both(place, import_name, installer, last):
    ours, original, version, _ = NAMES[import_name]
    there = place(import_name, installer)
    order = (there.original, ours) if last == "ours" else (ours, there.original)
    for name in order:
        there.pip("install", name)
    theirs = original.lower().replace("_", "-")
    if last == "ours":
        done = there.run(f"import {import_name}")
        assert f"{import_name} is shipped by two installed distributions: {ours} and" in done.stderr
        assert f"{theirs} {version}" in done.stderr
        warned = re.findall(r"^    (pip .*)$", done.stderr, re.MULTILINE)
    found = state(there, import_name)
    assert found.level == "problem"
    assert f"active is {ours if last == 'ours' else theirs} " in found.what
    if last == "ours":  # the warning says what the doctor says
        assert found.cure.splitlines() == warned
    assert shlex.split(found.cure.splitlines()[0])[:3] == ["pip", "uninstall", "-y"]
    there.cure(found.cure)
    assert is_whole(there, import_name)


@pytest.mark.parametrize("last", ["ours", "theirs"])
@pytest.mark.parametrize("removed", ["ours", "theirs"])
@pytest.mark.parametrize(
    ("import_name", "installer"), [("knn_cuda", "uv"), ("torch_cluster", "pip")]
)
def test_one_of_them_is_removed(place, import_name, installer, removed, last):
    """Files that both had are gone with it: the doctor sees it and cures it."""
    ours, original, _, _ = NAMES[import_name]
    there = place(import_name, installer)
    order = (there.original, ours) if last == "ours" else (ours, there.original)
    for name in order:
        there.pip("install", name)
    there.pip("uninstall", "-y", ours if removed == "ours" else original)
    found = state(there, import_name)
    assert found.level == "problem"
    expected = "missing or changed" if removed == "theirs" else "its files are gone"
    assert expected in found.what
    there.cure(found.cure)
    assert is_whole(there, import_name)


def test_the_command(place):
    """Its exit code, before and after its cure."""
    there = place("torch_cluster", "uv")
    there.pip("install", "torch-cluster-mps")
    there.pip("install", there.original)
    code, found = doctor(there, "torch_cluster")
    assert (code, found.level) == (1, "problem")
    assert found == state(there, "torch_cluster")
    there.cure(found.cure)
    code, found = doctor(there, "torch_cluster")
    assert (code, found.level) == (0, "ok")


def test_strict(place):
    there = place("knn_cuda", "uv")
    there.pip("install", there.original, "knn-cuda-mps")
    done = there.run("import knn_cuda", check=False, MPS_POINTOPS_STRICT="1")
    assert done.returncode == 1
    assert "ImportError: knn_cuda is shipped by two installed distributions" in done.stderr


def test_the_original_alone(place):
    there = place("knn_cuda", "uv")
    there.pip("install", there.original)
    found = state(there, "knn_cuda")
    assert found.level == "note"
    assert "knn-cuda 0.2; knn-cuda-mps is not installed" in found.what
    first, rest = found.cure.split("\n", 1)
    assert first == "for the Apple GPU:"
    there.cure(rest)
    assert is_whole(there, "knn_cuda")


def test_a_placeholder_satisfies_a_requirement(place, tmp_path, make_wheel):
    """An empty wheel of the original's name with the local version `mps` is no conflict."""
    there = place("knn_cuda", "uv")
    stub = make_wheel(tmp_path / "stubs", "KNN_CUDA", "0.2+mps")
    there.pip("install", stub, "knn-cuda-mps")
    assert is_whole(there, "knn_cuda")
