"""Float64 points on the CPU: the core operator samples in float64, every step rounded."""

import numpy as np
import pytest
import torch

import mps_pointops
from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.reference import furthest_point_sample_reference as reference
from pointops_testing import CLOUDS, assert_same_bits, cloud


def _sample(points, picks, start=0, skip=False, rule=0, ties=0):
    size = len(points)
    arguments = (None, None, None, 1, picks, size, picks, start, skip, int(rule), int(ties))
    return torch.ops.mps_pointops.fps(points, *arguments)


def _points(name, size, dim=3, seed=0):
    return cloud(name, size, dim, seed).double() * (1 + 2.0**-30)


def _oracle(points, picks, start):
    """NumPy rounds every operation on float64."""
    points = points.numpy()
    eligible = np.isfinite(points).all(axis=1)
    nearest = np.where(eligible, np.inf, -1.0)
    chosen = [start]
    with np.errstate(over="ignore", invalid="ignore"):
        while len(chosen) < picks:
            centre = points[chosen[-1]]
            if np.isfinite(centre).all():
                total = np.zeros(len(points))
                for d in range(points.shape[1]):
                    t = points[:, d] - centre[d]
                    total = total + t * t
                nearest = np.where(eligible, np.minimum(nearest, total), -1.0)
            chosen.append(int(nearest.argmax()))
    return chosen


@pytest.mark.parametrize("dim", [1, 3, 7])
@pytest.mark.parametrize("name", CLOUDS)
def test_picks_are_those_of_numpy(name, dim):
    points = _points(name, 150, dim)
    assert reference(points, 60, 5).tolist() == _oracle(points, 60, 5)
    assert _sample(points, 60, 5).tolist() == _oracle(points, 60, 5)


@pytest.mark.parametrize("ties", list(Ties))
@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ])
@pytest.mark.parametrize("name", CLOUDS)
def test_rules_are_one(name, rule, ties):
    points = _points(name, 700)
    wanted = reference(points, 30, 3, True, rule, ties)
    assert_same_bits(_sample(points, 30, 3, True, rule, ties), wanted)
    assert_same_bits(wanted, reference(points, 30, 3, True, Rule.SEPARATE, ties))


def test_what_float32_cannot_tell_apart():
    points = torch.tensor([[0.0], [1.0], [1 + 1e-9]], dtype=torch.float64)
    assert _sample(points, 3).tolist() == [0, 2, 1]
    assert _sample(points.float(), 3).tolist() == [0, 1, 0]
    far = torch.tensor([[0.0], [1e150], [2e150]], dtype=torch.float64)
    assert _sample(far, 3).tolist() == [0, 2, 1]


def test_clouds_of_different_sizes():
    sizes = [40, 1, 130]
    clouds = [_points("lattice", n, seed=n) for n in sizes]
    ptr, out_ptr = torch.tensor([0, 40, 41, 171]), torch.tensor([0, 10, 12, 50])
    start = torch.tensor([3, 0, 7])
    got = torch.ops.mps_pointops.fps(
        torch.cat(clouds), ptr, out_ptr, start, 3, 50, 130, 38, 0, False, 1, 0
    )
    wanted = [
        reference(points, int(out_ptr[b + 1] - out_ptr[b]), int(start[b])) + ptr[b]
        for b, points in enumerate(clouds)
    ]
    assert_same_bits(got, torch.cat(wanted))


def test_as_torch_sees_it():
    x = _points("random", 15)
    arguments = (x, None, None, None, 3, 6, 5, 2, 1, False, 0, 0)
    torch.library.opcheck(torch.ops.mps_pointops.fps.default, arguments)


def test_dense_calls_take_no_float64():
    xyz = torch.rand(1, 9, 3, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"xyz must be float32, float16 or bfloat16, got torch"):
        mps_pointops.furthest_point_sample(xyz, 2)
