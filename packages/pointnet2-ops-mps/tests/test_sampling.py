"""`furthest_point_sample`: start, ties, the near-origin rule and its switch."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from pointnet2_ops import options
from pointnet2_ops.pointnet2_utils import furthest_point_sample
from pointops_testing import CLOUDS, assert_same_bits, cloud, oracles


def _sample(points, npoint, device):
    points = torch.as_tensor(points, dtype=torch.float32)
    index = furthest_point_sample(points[None].to(device), npoint)
    assert index.dtype == torch.int32
    assert index.device.type == device
    return index[0].tolist()


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100, 513, 700])
@pytest.mark.parametrize("name", ["random", "lattice", "duplicates", "all_equal"])
def test_order_of_the_cuda_block(device, name, size):
    points = cloud(name, size) + 3.0  # away from the origin
    npoint = min(size, 12)
    assert _sample(points, npoint, device) == oracles.thread_block_fps(points.numpy(), npoint)


def test_integer_grid(device):
    """The corners of an 8 x 8 grid, in the order that a CUDA card gives."""
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    grid = torch.stack((x, y, torch.full_like(x, 5.0)), dim=2).flatten(0, 1)
    assert _sample(grid, 8, device) == [0, 63, 56, 7, 36, 25, 4, 60]


def test_more_samples_than_points(device):
    points = cloud("random", 5) + 4.0
    index = _sample(points, 9, device)
    assert sorted(index[:5]) == [0, 1, 2, 3, 4]
    assert index[5:] == [0] * 4


def test_repeats_when_point_0_is_near_the_origin(device):
    """Then the first of the others in tie order: 2 before 1 in a block of four threads."""
    points = [[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]]
    assert _sample(points, 7, device) == [0, 3, 2, 1, 2, 2, 2]


def test_points_near_the_origin_are_skipped(device):
    points = [[1.0, 0, 0], [0.01, 0.02, 0.0], [1.2, 0, 0], [0, 0, 0.03], [0, 0.04, 0]]
    assert _sample(points, 3, device) == [0, 4, 2]
    assert _sample(points, 5, device)[3:] == [0, 0]


def test_limit_is_a_double(device):
    """The float32 next to 1e-3 is above the double 1e-3: that point is kept."""
    x = np.float32(0.03125)
    y = np.float32(math.sqrt(float(np.float32(1e-3)) - float(x) ** 2))
    assert np.float32(float(x) ** 2 + float(y) ** 2) == np.float32(1e-3)
    assert float(np.float32(1e-3)) > 1e-3
    assert _sample([[1, 0, 0], [x, y, 0], [0.01, 0, 0]], 2, device) == [0, 1]
    below = np.float32(y * (1 - 5e-6))
    last = np.nextafter(np.float32(1e-3), np.float32(0))
    assert np.float32(float(x) ** 2 + float(below) ** 2) in (last, np.nextafter(last, 0))
    assert _sample([[1, 0, 0], [x, below, 0], [0.01, 0, 0]], 2, device) == [0, 0]


@pytest.mark.parametrize("scale", [0.0, 0.01])
def test_all_near_the_origin(device, scale):
    points = cloud("random", 40).clamp(-1, 1) * scale
    assert _sample(points, 6, device) == [0] * 6


def test_zero_padding_is_never_sampled(device):
    points = torch.cat((cloud("random", 20) + 3.0, torch.zeros(30, 3)))
    index = _sample(points, 20, device)
    assert sorted(index) == list(range(20))


def test_switch(device, monkeypatch):
    points = [[1.0, 0, 0], [0, 0, 0], [1.2, 0, 0]]
    assert _sample(points, 3, device) == [0, 2, 0]
    monkeypatch.setattr(options, "skip_near_origin", False)
    assert _sample(points, 3, device) == [0, 1, 2]


def test_switch_of_the_environment():
    done = subprocess.run(
        [sys.executable, "-c", "from pointnet2_ops import options as o; print(vars(o))"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "POINTNET2_OPS_SKIP_NEAR_ORIGIN": "0"},
    )
    assert "'skip_near_origin': False" in done.stdout
    assert "'weight_gradient': False" in done.stdout


@pytest.mark.parametrize("default", [False, True])
def test_values_in_the_environment(monkeypatch, default):
    assert options._switch("POINTNET2_OPS_TEST", default) is default
    for text, wanted in (("0", False), ("1", True)):
        monkeypatch.setenv("POINTNET2_OPS_TEST", text)
        assert options._switch("POINTNET2_OPS_TEST", default) is wanted


def test_wrong_value_in_the_environment(monkeypatch):
    monkeypatch.setenv("POINTNET2_OPS_WEIGHT_GRADIENT", "yes")
    with pytest.raises(ValueError, match=r"WEIGHT_GRADIENT must be 0 or 1, got 'yes'"):
        options._switch("POINTNET2_OPS_WEIGHT_GRADIENT", False)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite(device, value):
    points = cloud("random", 64)[None].repeat(2, 1, 1) + 3.0
    points[0, 5, 1] = value
    index = furthest_point_sample(points.to(device), 64)
    assert sorted(set(index[0].tolist())) == [n for n in range(64) if n != 5]
    assert index[1, :16].tolist() == oracles.thread_block_fps(points[1].numpy(), 16)


@pytest.mark.parametrize("name", CLOUDS)
def test_both_devices_agree(name):
    points = torch.stack([cloud(name, 300, seed=n) for n in range(3)])
    wanted = furthest_point_sample(points, 40)
    assert_same_bits(furthest_point_sample(points.to("mps"), 40), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_are_computed_in_float32(device, dtype):
    if device == "mps" and dtype is torch.float64:
        pytest.skip("no such tensors on MPS")
    points = (cloud("random", 100) + 3.0).to(dtype)[None].to(device)
    assert_same_bits(furthest_point_sample(points, 20), furthest_point_sample(points.float(), 20))


def test_counts_and_empty_results(device):
    points = (cloud("random", 10) + 3.0)[None].to(device)
    assert furthest_point_sample(points, torch.tensor(4)).shape == (1, 4)
    assert furthest_point_sample(points, np.int64(4)).shape == (1, 4)
    assert furthest_point_sample(points, 0).shape == (1, 0)
    assert furthest_point_sample(points[:0], 4).shape == (0, 4)
    with pytest.raises(TypeError, match="npoint must be an integer"):
        furthest_point_sample(points, 4.0)
    with pytest.raises(ValueError, match="at least one point"):
        furthest_point_sample(points[:, :0], 4)
    with pytest.raises(ValueError, match=r"\(B, N, 3\)"):
        furthest_point_sample(points[..., :2].contiguous(), 4)
