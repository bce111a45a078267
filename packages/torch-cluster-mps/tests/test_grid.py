"""`grid_cluster`."""

import math

import pytest
import torch

from torch_cluster import grid_cluster


def _wanted(pos, size, start=None, end=None):
    """In Python's whole numbers; the quotient is cut towards zero."""
    start = pos.min(dim=0).values.tolist() if start is None else start
    end = pos.max(dim=0).values.tolist() if end is None else end
    found = []
    for point in pos.tolist():
        number, stride = 0, 1
        for p, s, low, high in zip(point, size, start, end, strict=True):
            number += stride * math.trunc((p - low) / s)
            stride *= math.trunc((high - low) / s) + 1
        found.append(number)
    return found


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_dtypes(device, dtype, exact, dim):
    pos = exact.points(40, dim, high=20)
    size = list(range(3, 3 + dim))
    points = pos.to(device, dtype)
    sizes = torch.tensor(size, dtype=dtype, device=device)
    got = grid_cluster(points, sizes)
    assert got.dtype == torch.int64
    assert got.device.type == device
    assert got.tolist() == _wanted(pos, size)
    start, end = [2] * dim, [17] * dim  # points below are cut towards zero, too
    bounds = [torch.tensor(b, dtype=dtype, device=device) for b in (start, end)]
    assert grid_cluster(points, sizes, *bounds).tolist() == _wanted(pos, size, start, end)
    assert grid_cluster(points, sizes, end=bounds[1]).tolist() == _wanted(pos, size, None, end)


def test_division_is_rounded_once(device):
    """0.3 / 0.1 is 3 in float32, with a reciprocal it may be 2."""
    pos = torch.arange(1000, dtype=torch.float32) * 0.1
    for size in (0.1, 0.3, 0.7):
        width = torch.tensor([size])
        quotient = (pos - pos[0]).double() / width.double()
        wanted = quotient.float().trunc().long()
        assert grid_cluster(pos.to(device), width.to(device)).tolist() == wanted.tolist()


def test_shapes(device, exact):
    pos = exact.points(12, 4, high=20)
    size = torch.tensor([3.0, 4.0, 5.0, 6.0], device=device)
    wanted = _wanted(pos, [3, 4, 5, 6])
    points = pos.float().to(device)
    assert grid_cluster(points.view(12, 2, 2), size).tolist() == wanted
    assert grid_cluster(torch.stack((points, points), 2)[..., 0], size).tolist() == wanted
    assert grid_cluster(points[:, 0], size[:1]).tolist() == _wanted(pos[:, :1], [3])
    assert grid_cluster(points[:0], size).tolist() == []
    with pytest.raises(ValueError, match="size must"):
        grid_cluster(points, size[:3])
    assert not grid_cluster(points.requires_grad_(), size).requires_grad
