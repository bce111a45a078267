"""Two distributions that own one import name, with metadata folders on the module path."""

import os
import subprocess
import sys
import time
import warnings

import pytest

from mps_pointops import _owners
from mps_pointops._owners import check_owner

FILE = "/somewhere/site-packages/pointnet2_ops/__init__.py"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("MPS_POINTOPS_STRICT", raising=False)
    monkeypatch.setattr(_owners, "_warned", set())


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a distribution that consists of metadata."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def metadata(name, version, kind="dist-info"):
        folder = tmp_path / f"{name}-{version}.{kind}"
        folder.mkdir()
        if version:
            text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            (folder / {"dist-info": "METADATA", "egg-info": "PKG-INFO"}[kind]).write_text(text)

    return metadata


def _check(*originals):
    check_owner("pointnet2_ops", "pointnet2-ops-mps", originals or ["pointnet2-ops"], FILE)


def test_alone(install):
    install("pointnet2_ops_lib_tools", "1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check()


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_both_warn_once(install, kind):
    install("pointnet2_ops", "3.0.0", kind)
    with pytest.warns(RuntimeWarning) as caught:
        _check()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check()
    (warning,) = caught
    text = str(warning.message)
    assert "pointnet2-ops-mps and pointnet2-ops 3.0.0" in text
    assert "/somewhere/site-packages/pointnet2_ops" in text
    assert "    pip uninstall -y pointnet2-ops pointnet2-ops-mps\n" in text
    assert text.endswith("    pip install pointnet2-ops-mps")


def test_every_import_name_has_its_warning(install):
    install("pointnet2_ops", "3.0.0")
    install("KNN_CUDA", "0.2")
    with pytest.warns(RuntimeWarning, match="pointnet2-ops 3"):
        _check()
    with pytest.warns(RuntimeWarning, match=r"knn-cuda 0\.2"):
        check_owner("knn_cuda", "knn-cuda-mps", ["knn-cuda"], FILE)


def test_several_originals(install):
    install("torch_cluster", "1.6.3+pt28cpu")
    install("torch_cluster_rocm", "1.6.3")
    names = ["torch-cluster", "torch-cluster-rocm", "torch-cluster-other"]
    with pytest.warns(RuntimeWarning) as caught:
        check_owner("torch_cluster", "torch-cluster-mps", names, FILE)
    text = str(caught[0].message)
    assert "torch-cluster 1.6.3+pt28cpu, torch-cluster-rocm 1.6.3." in text
    assert "pip uninstall -y torch-cluster torch-cluster-rocm torch-cluster-mps\n" in text


def test_strict_raises_every_time(install, monkeypatch):
    monkeypatch.setenv("MPS_POINTOPS_STRICT", "1")
    install("pointnet2_ops", "3.0.0")
    for _ in range(2):
        with pytest.raises(ImportError, match=r"pip uninstall -y pointnet2-ops pointnet2-ops-mps"):
            _check()


def test_strict_alone(monkeypatch):
    monkeypatch.setenv("MPS_POINTOPS_STRICT", "1")
    _check()


@pytest.mark.parametrize("version", ["3.0.0+mps", "3.0.0+mps.2"])
def test_placeholder_is_no_conflict(install, version):
    install("pointnet2_ops", version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check()


@pytest.mark.parametrize("version", ["3.0.0+mpsx", "3.0.0+cu121.mps"])
def test_other_local_versions_are(install, version):
    install("pointnet2_ops", version)
    with pytest.warns(RuntimeWarning):
        _check()


def test_folder_without_metadata(install):
    install("pointnet2_ops", "")
    with pytest.warns(RuntimeWarning, match="pointnet2-ops of unknown version"):
        _check()


def test_time_of_a_check():
    """Milliseconds, on top of what the process has imported anyway."""
    code = (
        "import time, mps_pointops._owners as o\n"
        "times = []\n"
        "for n in range(5):\n"
        "    t = time.perf_counter()\n"
        "    o.check_owner('x', 'x-mps', [f'x-{n}', f'y-{n}'], '/x/__init__.py')\n"
        "    times.append(time.perf_counter() - t)\n"
        "print(times[0], sorted(times)[2])\n"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    whole = time.perf_counter() - began
    first, usual = map(float, done.stdout.split())
    assert usual <= first < whole
    assert usual < 0.05  # a scan of what every distribution provides takes ten times that


@pytest.mark.parametrize(
    ("package", "original"), [("knn_cuda", "KNN_CUDA"), ("pointnet2_ops", "pointnet2_ops")]
)
def test_drop_ins_ask_when_they_are_imported(tmp_path, package, original):
    folder = tmp_path / f"{original}-9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {original}\nVersion: 9.9\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport {package}\n"
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True
    )
    name = package.replace("_", "-")
    assert f"<string>:2: RuntimeWarning: {package} is shipped by two" in done.stderr
    assert f"{name}-mps and {name} 9.9" in done.stderr
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MPS_POINTOPS_STRICT": "1"},
    )
    assert done.returncode == 1
    assert "ImportError: " in done.stderr
