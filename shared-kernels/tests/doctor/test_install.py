"""Installations that are right and wrong, each with the cure it is given."""

import shutil

import pytest

from mps_pointops.doctor.installed import NAMES, Name, check_imports, check_name, check_requirements

NAME = next(name for name in NAMES if name.import_name == "knn_cuda")
OURS = {
    "knn_cuda/__init__.py": "mine = 1\n",
    "knn_cuda/py.typed": "",
    "knn_cuda/more.py": "a = 1\n",
}
THEIRS = {
    "knn_cuda/__init__.py": "mine = 0\n",
    "knn_cuda/more.py": "a = 2\n",
    "knn_cuda/csrc/knn.cu": "//\n",
}
BOTH_CURED = "pip uninstall -y knn-cuda knn-cuda-mps\npip install knn-cuda-mps"
AGAIN = "pip install --force-reinstall --no-deps knn-cuda-mps"


def ours(site):
    site.install("knn-cuda-mps", "0.1.0", OURS)


def theirs(site, version="0.2"):
    site.install("KNN_CUDA", version, THEIRS)


def state(*sites):
    return check_name(NAME, [folder for site in sites for folder in site.path])


def test_names_are_those_of_the_packages():
    assert [(name.import_name, name.ours) for name in NAMES] == [
        ("mps_pointops", "mps-pointops"),
        ("pointnet2_ops", "pointnet2-ops-mps"),
        ("knn_cuda", "knn-cuda-mps"),
        ("torch_cluster", "torch-cluster-mps"),
        ("pyg_lib_mps_plugin", "pyg-lib-mps-plugin"),
    ]


def test_nothing(site):
    finding, facts = state(site)
    assert finding.level == "ok"
    assert finding.what == "not installed (pip install knn-cuda-mps)"
    assert facts == {"import_name": "knn_cuda", "path": None, "distributions": []}


def test_ours_alone(site):
    ours(site)
    finding, facts = state(site)
    assert (finding.level, finding.cure) == ("ok", "")
    assert finding.what == "knn-cuda-mps 0.1.0, all 3 files as installed"
    assert facts["path"] == str(site.folder / "knn_cuda")
    (owner,) = facts["distributions"]
    assert owner["active"] is True
    assert sorted(owner["same"]) == sorted(OURS)
    assert owner["changed"] == owner["missing"] == ()


@pytest.mark.parametrize("file", ["more.py", "__init__.py"])
def test_a_file_is_another(site, file):
    ours(site)
    (site.folder / "knn_cuda" / file).write_text("something else\n")
    finding, _ = state(site)
    assert (finding.level, finding.cure) == ("problem", AGAIN)
    assert "2 of 3 files of knn-cuda-mps 0.1.0 are as installed" in finding.what
    assert f"missing or changed: knn_cuda/{file}" in finding.what


def test_a_file_is_gone(site):
    ours(site)
    (site.folder / "knn_cuda/more.py").unlink()
    finding, facts = state(site)
    assert (finding.level, finding.cure) == ("problem", AGAIN)
    assert facts["distributions"][0]["missing"] == ("knn_cuda/more.py",)


def test_all_files_are_gone(site):
    ours(site)
    shutil.rmtree(site.folder / "knn_cuda")
    finding, _ = state(site)
    assert (finding.level, finding.cure) == ("problem", AGAIN)
    assert "its files are gone" in finding.what


@pytest.mark.parametrize("order", [(ours, theirs), (theirs, ours)])
def test_both(site, order):
    for install in order:
        install(site)
    finding, facts = state(site)
    assert (finding.level, finding.cure) == ("problem", BOTH_CURED)
    last = "knn-cuda 0.2" if order[1] is theirs else "knn-cuda-mps 0.1.0"
    assert f"active is {last} (" in finding.what
    mine = "1 of 3" if order[1] is theirs else "3 of 3"
    their = "3 of 3" if order[1] is theirs else "1 of 3"
    assert f"{mine} files of knn-cuda-mps 0.1.0 are as installed" in finding.what
    assert f"{their} files of knn-cuda 0.2 are as installed" in finding.what
    assert [d["active"] for d in facts["distributions"]] == [order[1] is ours, order[1] is theirs]


@pytest.mark.parametrize("order", [(ours, theirs), (theirs, ours)])
@pytest.mark.parametrize("removed", ["KNN_CUDA", "knn-cuda-mps"])
def test_both_and_one_of_them_removed(site, order, removed):
    """Whatever was installed last: the one that stays has lost files."""
    for install in order:
        install(site)
    site.uninstall(removed)
    finding, _ = state(site)
    assert finding.level == "problem"
    if removed == "KNN_CUDA":
        assert finding.cure == AGAIN
        assert "missing or changed" in finding.what
    else:
        assert finding.cure == "pip uninstall -y knn-cuda\npip install knn-cuda-mps"
        assert "knn-cuda 0.2 is installed, but its files are gone" in finding.what


def test_the_cure_cures(site):
    theirs(site)
    ours(site)
    for name in ("KNN_CUDA", "knn-cuda-mps"):
        site.uninstall(name)
    ours(site)
    assert state(site)[0].level == "ok"


def test_the_original_alone(site):
    theirs(site)
    finding, _ = state(site)
    assert finding.level == "note"
    assert finding.what == "that of knn-cuda 0.2; knn-cuda-mps is not installed"
    assert "pip uninstall -y knn-cuda\npip install knn-cuda-mps" in finding.cure


def test_a_placeholder_of_the_original_is_no_conflict(site):
    ours(site)
    site.install("KNN_CUDA", "0.2+mps", {})
    assert state(site)[0].level == "ok"


def test_metadata_of_the_original_without_its_files(site):
    """In some other folder of the path, say."""
    ours(site)
    site.install("KNN_CUDA", "0.2", {})
    finding, _ = state(site)
    assert (finding.level, finding.cure) == ("problem", BOTH_CURED)
    assert "active is knn-cuda-mps 0.1.0" in finding.what


def test_a_folder_that_an_uninstall_left(site):
    (site.folder / "knn_cuda/__pycache__").mkdir(parents=True)
    finding, _ = state(site)
    assert finding.level == "problem"
    assert "folder without __init__.py" in finding.what
    assert finding.cure == f"remove {site.folder / 'knn_cuda'}, or run: pip install knn-cuda-mps"


def test_a_folder_of_nobody(site):
    (site.folder / "knn_cuda").mkdir()
    (site.folder / "knn_cuda/__init__.py").write_text("")
    finding, _ = state(site)
    assert finding.level == "note"
    assert "belongs to no installed distribution" in finding.what
    assert finding.cure.endswith("pip install knn-cuda-mps")


def test_a_folder_that_hides_ours(site, other_site):
    ours(site)
    (other_site.folder / "knn_cuda").mkdir()
    (other_site.folder / "knn_cuda/__init__.py").write_text("")
    finding, facts = state(other_site, site)
    assert finding.level == "problem"
    assert f"an import takes {other_site.folder / 'knn_cuda'}" in finding.what
    assert "move that folder off the module path" in finding.cure
    assert facts["distributions"][0]["active"] is False
    assert state(site, other_site)[0].level == "ok"


def test_the_original_in_another_folder(site, other_site):
    ours(site)
    theirs(other_site)
    for sites, active in (((site, other_site), "knn-cuda-mps"), ((other_site, site), "knn-cuda 0")):
        finding, _ = state(*sites)
        assert (finding.level, finding.cure) == ("problem", BOTH_CURED)
        assert f"active is {active}" in finding.what


def test_from_source(site, tmp_path):
    source = tmp_path / "a source"
    (source / "src/knn_cuda").mkdir(parents=True)
    (source / "src/knn_cuda/__init__.py").write_text("")
    site.install("knn-cuda-mps", "0.1.0", {}, editable=source)
    path = [*site.path, str(source / "src")]
    finding, facts = check_name(NAME, path)
    assert finding.level == "ok"
    assert finding.what == f"knn-cuda-mps 0.1.0, from its source in {source}"
    assert facts["distributions"][0]["editable"] == str(source)
    (site.folder / "knn_cuda").mkdir()
    (site.folder / "knn_cuda/__init__.py").write_text("")
    assert check_name(NAME, path)[0].level == "problem"
    assert check_name(NAME, site.path[:0])[0].level == "ok"


# --- requirements and imports


def test_requirements(site):
    site.install("torch", "2.6.0", {})
    site.install(
        "mps-pointops", "1.0.0", {}, ["scipy>=1.10", "torch>=2.7", 'trimesh; extra == "demo"']
    )
    site.install("knn-cuda-mps", "0.1.0", OURS, ["mps-pointops<3,>=2.0", "torch>=2.5"])
    found = check_requirements(site.path)
    assert {finding.level for finding in found} == {"problem"}
    assert [(finding.subject, finding.what) for finding in found] == [
        ("mps_pointops", "mps-pointops needs scipy>=1.10, but no version is installed"),
        ("mps_pointops", "mps-pointops needs torch>=2.7, but 2.6.0 is installed"),
        ("knn_cuda", "knn-cuda-mps needs mps-pointops<3,>=2.0, but 1.0.0 is installed"),
    ]
    assert found[2].cure == "pip install 'mps-pointops<3,>=2.0'"


def test_requirements_that_are_met(site):
    site.install("torch", "2.14.1+cu130", {})
    site.install("mps-pointops", "2.0.0", {}, ["torch>=2.7"])
    assert check_requirements(site.path) == []


def test_imports(site):
    site.install("knn-cuda-mps", "0.1.0", {"knn_cuda/__init__.py": "1 / 0\n"})
    site.install("x-mps", "0.1.0", {"fine_x/__init__.py": "import warnings; warnings.warn('w')\n"})
    (finding,) = check_imports([NAME, Name("fine_x", "x-mps")], site.path_with_python)
    assert (finding.level, finding.subject) == ("problem", "knn_cuda")
    assert finding.what == "the import fails: ZeroDivisionError: division by zero"
    assert finding.cure == "pip install --force-reinstall --no-deps knn-cuda-mps mps-pointops"


def test_an_import_that_ends_the_process(site):
    text = "import os, sys\nprint('no', file=sys.stderr)\nsys.stderr.flush()\nos._exit(7)\n"
    site.install("knn-cuda-mps", "0.1.0", {"knn_cuda/__init__.py": text})
    (finding,) = check_imports([NAME], site.path_with_python)
    assert finding.level == "problem"
    assert finding.what == "the process that imports ends with exit code 7: no"


def test_an_import_that_takes_for_ever(site, monkeypatch):
    monkeypatch.setattr("mps_pointops.doctor.installed._IMPORT_SECONDS", 1)
    site.install("knn-cuda-mps", "0.1.0", {"knn_cuda/__init__.py": "while True: pass\n"})
    (finding,) = check_imports([NAME], site.path_with_python)
    assert finding.what == "importing takes more than 1 seconds"
