"""PyG 2.8 on pyg-lib and the plug-in: every call that searches points, on MPS as on the CPU."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = HERE.parent / "pyg_suite"
FILES = [
    *(SUITE / name for name in ("functions.py", "pooling.py", "layers.py", "transforms.py")),
    SUITE / "whole_models.py",
    HERE / "only_28.py",
    HERE / "dimenet.py",
]


@pytest.fixture
def run(run_suite):
    # the real pyg-lib where it is installed
    path = [SUITE] if find_spec("pyg_lib") else [SUITE, HERE / "fake"]
    return partial(run_suite, "pyg-lib-mps-plugin", "pyg28", path=path, plugins=["pyg_import"])


@pytest.mark.timeout(1200)
def test_pyg28(run):
    run(FILES, at_least=163)


@pytest.mark.timeout(600)
def test_pyg28_with_the_fallback_to_the_cpu(run):
    """The kernels win over it."""
    run([HERE / "only_28.py"], at_least=15, PYTORCH_ENABLE_MPS_FALLBACK="1")
