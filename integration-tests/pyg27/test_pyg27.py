"""PyG 2.7.0 on torch_cluster: every call that searches points, on the device as on the CPU."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SUITE = HERE.parent / "pyg_suite"
FILES = [
    *(SUITE / name for name in ("functions.py", "pooling.py", "layers.py", "transforms.py")),
    SUITE / "whole_models.py",
    HERE / "only_27.py",
]


@pytest.mark.timeout(1200)
def test_pyg27(run_suite):
    # without the plug-in for pyg-lib, which an environment of PyG 2.7 need not have
    settings = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    run_suite(
        "torch-cluster-mps",
        "pyg27",
        FILES,
        at_least=158,
        path=[SUITE],
        plugins=["pyg_import"],
        **settings,
    )
