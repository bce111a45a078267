"""A layer of PyG on the plug-in in fresh processes, whatever is imported first."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FAKE = Path(__file__).parent / "fake"

LAYER = """
import mps_emulator, torch
from torch_geometric.nn import DynamicEdgeConv
mps_emulator.install(strict=True)
conv = DynamicEdgeConv(torch.nn.Linear(6, 5), k=4)
x, batch = torch.rand(30, 3), torch.tensor([0] * 12 + [2] * 18)
wanted = conv(x, batch)
got = conv.to("mps")(x.to("mps"), batch.to("mps"))
got.sum().backward()
assert got.device.type == "mps" and torch.allclose(got.cpu(), wanted, atol=1e-5)
print("right")
"""


def run(code, throwaway, **settings):
    folder = throwaway("pyg-lib-mps-plugin", "pyg28")
    path = [folder] if find_spec("pyg_lib") else [FAKE, folder]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **settings}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "first",
    [
        "torch_geometric.nn",
        "pyg_lib",
        pytest.param("torch", marks=pytest.mark.slow),
        pytest.param("pyg_lib_mps_plugin", marks=pytest.mark.slow),
        pytest.param("mps_pointops", marks=pytest.mark.slow),
    ],
)
def test_order(first, throwaway):
    done = run(f"import {first}\n{LAYER}", throwaway)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_without_the_plug_in(throwaway):
    """What the others would show if they did not depend on it."""
    done = run(LAYER, throwaway, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 1
    assert re.search(
        r"NotImplementedError.*(aten::_convert_indices_from_coo_to_csr|pyg::knn)", done.stderr
    )
