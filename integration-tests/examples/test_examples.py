"""The examples of the packages learn, and check what they find; on both devices.

They lie beside their packages; DGCNN runs with PyG in a folder of its own.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import mps_emulator

ROOT = Path(__file__).parents[2]
SHAPES = ROOT / "packages/pointnet2-ops-mps/examples/classify_shapes.py"
SCAN = ROOT / "packages/torch-cluster-mps/examples/group_scan.py"
DGCNN = ROOT / "packages/torch-cluster-mps/examples/dgcnn_shapes.py"
DRAGON = ROOT / "integration-tests/data/dragon.npz"


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param


def load(script):
    """The functions of a script; on the import it runs nothing."""
    return runpy.run_path(str(script), run_name="example")


def accuracy(text):
    return float(text.split("accuracy on new clouds ")[1].split(",")[0])


def test_shapes_are_learned(capsys):
    assert load(SHAPES)["main"](["--device", "cpu", "--steps", "20", "--points", "128"]) == 0
    assert accuracy(capsys.readouterr().out) >= 0.5


def test_shapes_on_the_device(capsys):
    """Few steps: the loss falls, and is that of the CPU but for rounding."""
    words = ["--steps", "4", "--points", "96", "--batch", "4"]
    for device in ("cpu", "mps"):
        load(SHAPES)["main"]([*words, "--device", device])
    lines = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "loss" in line]
    first, last, device_first, device_last = map(float, lines)
    assert last < first
    assert device_first == pytest.approx(first, abs=2e-3)
    assert device_last == pytest.approx(last, abs=2e-2)


@pytest.mark.slow
def test_shapes_are_learned_on_the_device(capsys):
    assert load(SHAPES)["main"](["--device", "mps"]) == 0
    assert accuracy(capsys.readouterr().out) >= 0.5


def test_a_scan_is_grouped(device, capsys):
    words = [str(DRAGON), "--every", "8", "--ratio", "0.03", "--device", device]
    assert load(SCAN)["main"](words) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{device}: 651 points, 20 patches")
    assert "checked: every point is in reach" in out


def test_the_check_of_a_grouping_can_fail():
    example = load(SCAN)
    points = example["load"](DRAGON, None, 20)
    found = example["group"](points, 0.05, 16)
    assert example["check"](points, found, 16) == []
    wrong = {**found, "owner": found["owner"].roll(1)}
    assert example["check"](points, wrong, 16) == [
        "a point has an owner that is not the nearest centre"
    ]
    assert example["check"](points, {**found, "member": found["member"].flip(0)}, 16)


def run_dgcnn(throwaway, *words):
    """In a process of its own: PyG 2.7 is not in this environment."""
    folder = throwaway("torch-cluster-mps", "pyg27")
    environment = {**os.environ, "PYTHONPATH": str(folder), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    run = subprocess.run(
        [sys.executable, str(DGCNN), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout, run.stderr


@pytest.mark.slow  # starts PyG
def test_dgcnn_learns(throwaway):
    status, out, err = run_dgcnn(throwaway, "--device", "cpu")
    assert status == 0, err
    assert accuracy(out) >= 0.6


@pytest.mark.slow  # starts PyG
def test_dgcnn_on_the_device(throwaway):
    emulated = ["--emulated"] if mps_emulator.is_installed() else []
    status, out, err = run_dgcnn(throwaway, "--steps", "12", "--batch", "6", *emulated)
    assert status == 0, out + err
    assert "mps: accuracy" in out
