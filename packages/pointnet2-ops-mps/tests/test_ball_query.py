"""`ball_query`: order, padding, the strict limit."""

import numpy as np
import pytest
import torch

from pointnet2_ops import _ext
from pointnet2_ops.pointnet2_utils import ball_query
from pointops_testing import CLOUDS, assert_same_bits, cloud, oracles


def _query(radius, nsample, points, device, centre=(0.0, 0, 0)):
    xyz = torch.tensor([points], dtype=torch.float32, device=device)
    index = ball_query(radius, nsample, xyz, torch.tensor([[centre]], device=device))
    assert index.dtype == torch.int32
    return index[0, 0].tolist()


def test_input_order_and_padding(device):
    points = [[0.9, 0, 0], [3, 0, 0], [0.1, 0, 0], [0.5, 0, 0], [0.2, 0, 0]]
    assert _query(1.0, 3, points, device) == [0, 2, 3]
    assert _query(1.0, 6, points, device) == [0, 2, 3, 4, 0, 0]
    assert _query(1.0, 4, points[1:], device) == [1, 2, 3, 1]
    assert _query(0.05, 4, points, device) == [0, 0, 0, 0]


def test_the_limit_is_outside(device):
    assert _query(0.9, 2, [[0.5, 0, 0], [0.9, 0, 0]], device) == [0, 0]
    assert _query(3.0, 2, [[3, 0, 0], [0, 2, 0]], device) == [1, 1]
    assert _query(0.0, 2, [[1, 0, 0], [0, 0, 0]], device) == [0, 0]


def test_radius_is_squared_in_float32(device):
    """The square of float32(0.4), rounded, is one unit above 0.4 * 0.4, rounded."""
    low, high = np.float32(0.4 * 0.4), np.float32(np.float32(0.4) ** 2)
    x = np.float32(0.375)
    y = np.float32(np.sqrt(float(low) - float(x) ** 2))
    assert np.float32(float(x) ** 2 + float(y) ** 2) == low < high
    assert _query(0.4, 1, [[9, 9, 9], [x, y, 0]], device) == [1]


@pytest.mark.parametrize("name", CLOUDS)
def test_arithmetic(device, name):
    points, centres = cloud(name, 60), cloud(name, 6, seed=1)
    centres[:3] = points[:3]
    radius = {"near_origin": 0.03, "tiny": 2.0**-40, "huge": 2.0**62}.get(name, 1.0)
    squared = float(np.float32(radius) * np.float32(radius))
    wanted = oracles.ball(centres.numpy(), points.numpy(), squared, 7, "fma_yxz")
    wanted = [[j if j >= 0 else max(row[0], 0) for j in row] for row in wanted]
    got = ball_query(radius, 7, points[None].to(device), centres[None].to(device))
    assert got[0].tolist() == wanted


def test_integer_and_infinite_radius(device):
    points = [[0.9, 0, 0], [1e18, 0, 0], [np.nan, 0, 0], [5, 0, 0]]
    assert _query(1, 3, points, device) == [0, 0, 0]
    assert _query(float("inf"), 4, points, device) == [0, 1, 3, 0]
    for infinite in (np.float32("inf"), torch.tensor(float("inf")), 1e39):
        assert _query(infinite, 4, points, device) == [0, 1, 3, 0]
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="ball_query: radius must be at least 0"):
            _query(wrong, 3, points, device)
    for wrong in (torch.ones(2), np.ones(2), "1", True):
        with pytest.raises(TypeError, match="ball_query: radius must be a number"):
            _query(wrong, 3, points, device)
    with pytest.raises(TypeError, match="ball_query: nsample must be an integer"):
        _query(1.0, 3.0, points, device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_are_computed_in_float32(device, dtype):
    if device == "mps" and dtype is torch.float64:
        pytest.skip("no such tensors on MPS")
    points = cloud("random", 100).to(dtype)[None].to(device)
    wanted = ball_query(0.8, 9, points.float(), points.float())
    assert_same_bits(ball_query(0.8, 9, points, points), wanted)


def test_low_level_takes_the_centres_first(device):
    points, centres = cloud("random", 80)[None].to(device), cloud("random", 9, seed=1)[None]
    centres = centres.to(device)
    wanted = ball_query(0.9, 5, points, centres)
    assert wanted.shape == (1, 9, 5)
    assert_same_bits(_ext.ball_query(centres, points, 0.9, 5), wanted)


def test_errors_name_the_arguments_of_the_caller(device):
    points = torch.zeros(2, 5, 3, device=device)
    with pytest.raises(ValueError, match=r"ball_query: xyz must be of the batch size of new_xyz"):
        ball_query(1.0, 4, points[:1], points)
    with pytest.raises(ValueError, match=r"ball_query: new_xyz must be of shape \(B, N, 3\)"):
        ball_query(1.0, 4, points, torch.zeros(2, 5, 4, device=device))
    with pytest.raises(ValueError, match=r"ball_query: nsample must be at least 0, got -1"):
        ball_query(1.0, -1, points, points)


def test_empty(device):
    points = torch.zeros(2, 5, 3, device=device)
    assert ball_query(1.0, 4, points, points[:, :0]).shape == (2, 0, 4)
    assert ball_query(1.0, 0, points, points).shape == (2, 5, 0)
    assert ball_query(1.0, 4, points[:, :0], points).tolist() == [[[0] * 4] * 5] * 2
