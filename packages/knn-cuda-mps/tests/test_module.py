"""`KNN` as an object, `knn_cuda` as an import, and the distribution around them."""

import copy
import io
import os
import pickle
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import knn_cuda
from knn_cuda import KNN

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MEMBER = Path(__file__).parents[1]


def _points():
    return torch.randn(1, 30, 3, generator=torch.Generator().manual_seed(0))


def test_copies():
    module = KNN(k=4, transpose_mode=True)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    points = _points()
    wanted = module(points, points)[1]
    for other in (
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(file, weights_only=False),
        module.half(),
        module.eval(),
    ):
        assert torch.equal(other(points, points)[1], wanted)
        assert other.k == 4
    assert module.state_dict() == {}
    assert list(module.parameters()) == []


def test_pickles_name_what_the_original_has():
    assert (KNN.__module__, KNN.__qualname__) == ("knn_cuda", "KNN")
    state = vars(KNN(k=4, transpose_mode=True))
    assert {"k": 4, "_t": True}.items() <= state.items()


def test_inside_a_network():
    class Group(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.knn = KNN(k=4, transpose_mode=True)

    group = Group()
    group.load_state_dict({}, strict=True)
    assert "KNN(k=4, transpose_mode=True)" in repr(group)


def _run(code):
    command = [sys.executable, "-W", "error", "-c", code]
    env = {**os.environ, "PATH": "/nonexistent", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_compiles_nothing_and_touches_no_device():
    out = _run(
        "import torch\n"
        "import torch.utils.cpp_extension as extension\n"
        "def refuse(*args, **kwargs): raise SystemExit('asked for a compiler or a device')\n"
        "extension.load = torch.mps.compile_shader = torch.mps.synchronize = refuse\n"
        "torch.cuda.init = torch.cuda.is_available = refuse\n"
        "torch.backends.mps.is_available = refuse\n"
        "import knn_cuda\n"
        "from knn_cuda import KNN, knn\n"
        "KNN(k=4, transpose_mode=False)\n"
        "print(knn_cuda.__version__)\n"
    )
    assert out == "0.2\n"


def test_versions():
    project = tomllib.loads((MEMBER / "pyproject.toml").read_text())["project"]
    assert knn_cuda.__mps_version__ == project["version"]
    assert project["import-names"] == ["knn_cuda"]
    assert "mps-pointops>=2.0,<3" in project["dependencies"]


def test_the_import_is_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        knn_cuda.check_owner("knn_cuda", "knn-cuda-mps", ["knn-cuda"], knn_cuda.__file__)


@pytest.mark.slow
def test_memory_of_a_large_search():
    """20,000 x 40,000 distances alone would take 3.2 GB."""
    rss = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    before = int(_run(f"import torch, knn_cuda; {rss}"))
    after = int(
        _run(
            "import torch, knn_cuda; x = torch.rand(1, 40000, 3); torch.set_num_threads(2)\n"
            "d, i = knn_cuda.KNN(1, True)(x, x[:, :20000])\n"
            "assert bool((i[0, :, 0] == torch.arange(20000)).all())\n"
            f"{rss}"
        )
    )
    unit = 1 if sys.platform == "darwin" else 1024
    assert resource.RUSAGE_SELF == 0
    assert (after - before) * unit < 0.5e9
