"""The names, the import and the distribution around it."""

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_cluster

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MEMBER = Path(__file__).parents[1]
SIGNATURES = {
    "fps": "src, batch=None, ratio=None, random_start=True, batch_size=None, ptr=None",
    "knn": "x, y, k, batch_x=None, batch_y=None, cosine=False, num_workers=1, batch_size=None",
    "knn_graph": "x, k, batch=None, loop=False, flow='source_to_target', cosine=False, "
    "num_workers=1, batch_size=None",
    "radius": "x, y, r, batch_x=None, batch_y=None, max_num_neighbors=32, num_workers=1, "
    "batch_size=None, ignore_same_index=False",
    "radius_graph": "x, r, batch=None, loop=False, max_num_neighbors=32, "
    "flow='source_to_target', num_workers=1, batch_size=None",
    "nearest": "x, y, batch_x=None, batch_y=None",
    "grid_cluster": "pos, size, start=None, end=None",
    "graclus_cluster": "row, col, weight=None, num_nodes=None",
    "random_walk": "row, col, start, walk_length, p=1.0, q=1.0, coalesced=True, num_nodes=None, "
    "return_edge_indices=False",
    "neighbor_sampler": "start, rowptr, size",
}
MODULES = [
    *("fps", "knn", "radius", "nearest", "graclus"),
    *("grid", "rw", "sampler", "typing", "testing"),
]


def test_names():
    assert sorted(torch_cluster.__all__) == sorted([*SIGNATURES, "__version__"])
    assert torch_cluster.__version__ == "1.6.3"
    assert torch_cluster.cuda_version == -1


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    parameters = inspect.signature(getattr(torch_cluster, name)).parameters.values()
    plain = ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)
    assert plain == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_docstrings(name):
    """PyG up to 2.7 looks for `batch_size` in that of `knn`."""
    function = getattr(torch_cluster, name)
    for parameter in inspect.signature(function).parameters:
        assert parameter in function.__doc__
    assert "Returns:" in function.__doc__


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    module = importlib.import_module(f"torch_cluster.{name}")
    assert module.__name__ == f"torch_cluster.{name}"
    for function in SIGNATURES:
        assert callable(getattr(torch_cluster, function))  # not hidden by a module


def test_typing():
    from torch_cluster.typing import WITH_PTR_LIST

    assert WITH_PTR_LIST is False
    assert not hasattr(torch.ops.torch_cluster, "fps_ptr_list")


def test_testing():
    from torch_cluster import testing

    assert [device.type for device in testing.devices] == ["cpu", "mps"]
    assert testing.tensor(None, torch.float, "cpu") is None
    assert set(testing.grad_dtypes) < set(testing.floating_dtypes) < set(testing.dtypes)
    for dtype in testing.dtypes:
        for device in testing.devices:
            if dtype == torch.double and device.type == "mps":
                with pytest.raises(pytest.skip.Exception):
                    testing.tensor([1, 2], dtype, device)
            else:
                made = testing.tensor([1, 2], dtype, device)
                assert (made.dtype, made.device.type) == (dtype, device.type)


def test_import_compiles_nothing_and_touches_no_device():
    code = (
        "import torch\n"
        "import torch.utils.cpp_extension as extension\n"
        "def refuse(*args, **kwargs): raise SystemExit('asked for a compiler or a device')\n"
        "extension.load = torch.mps.compile_shader = torch.mps.synchronize = refuse\n"
        "torch.cuda.init = torch.cuda.is_available = refuse\n"
        "torch.backends.mps.is_available = refuse\n"
        "import torch_cluster\n"
        "from torch_cluster import *\n"
        "print(torch_cluster.__version__, knn(torch.zeros(1, 3), torch.zeros(1, 3), 1).tolist())\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    env = {**os.environ, "PATH": "/nonexistent", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1.6.3 [[0], [0]]\n"


@pytest.mark.parametrize("strict", ["0", "1"])
def test_conflict(tmp_path, strict):
    """Metadata of the original beside this distribution."""
    info = tmp_path / "torch_cluster-1.6.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-cluster\nVersion: 1.6.3\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "MPS_POINTOPS_STRICT": strict}
    command = [sys.executable, "-c", "import torch_cluster; print(torch_cluster.__mps_version__)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == int(strict)
    kind = "ImportError" if strict == "1" else "RuntimeWarning"
    assert f"{kind}: torch_cluster is shipped by two installed distributions" in done.stderr
    assert "pip uninstall -y torch-cluster torch-cluster-mps" in done.stderr


def test_operators_of_another_build():
    code = (
        "import torch\n"
        "other = torch.library.Library('torch_cluster', 'DEF')\n"
        "other.define('knn(Tensor x) -> Tensor')\n"
        "import torch_cluster\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: torch_cluster: its operators are already registered" in done.stderr


def test_versions():
    project = tomllib.loads((MEMBER / "pyproject.toml").read_text())["project"]
    assert torch_cluster.__mps_version__ == project["version"]
    assert project["import-names"] == ["torch_cluster"]
    assert "mps-pointops>=2.0,<3" in project["dependencies"]


def test_nothing_is_compiled():
    files = [path for path in (MEMBER / "src").rglob("*") if path.is_file()]
    kinds = {path.suffix for path in files if "__pycache__" not in path.parts}
    assert kinds == {".py", ".typed"}
