"""`nearest`."""

import pytest
import torch

from pointops_testing import assert_same_bits
from torch_cluster import nearest


def _wanted(exact, x, y, batch_x=None, batch_y=None):
    return [j for _, j in exact.knn(y, x, 1, batch_y, batch_x)]


@pytest.mark.parametrize("dim", [1, 3, 17])
def test_dtypes(device, dtype, exact, dim):
    x, y = exact.points(33, dim), exact.points(40, dim, seed=1)
    got = nearest(x.to(device, dtype), y.to(device, dtype))
    assert got.dtype == torch.int64
    assert got.device.type == device
    assert got.tolist() == _wanted(exact, x, y)


@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_batches(device, exact, index):
    x, y = exact.points(33, 3), exact.points(40, 3, seed=1)
    for numbers in ((0, 1, 2), (1, 4, 9)):
        batch_x = [n for n, count in zip(numbers, (10, 3, 20), strict=True) for _ in range(count)]
        batch_y = [n for n, count in zip(numbers, (1, 30, 9), strict=True) for _ in range(count)]
        vectors = [torch.tensor(b, dtype=index, device=device) for b in (batch_x, batch_y)]
        got = nearest(x.float().to(device), y.float().to(device), *vectors)
        assert got.tolist() == _wanted(exact, x, y, batch_x, batch_y)


def test_against_float64(device):
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(50, 7, generator=rng), torch.randn(300, 7, generator=rng)
    wanted = (x.double()[:, None] - y.double()[None]).square().sum(2).argmin(dim=1)
    assert_same_bits(nearest(x.to(device), y.to(device)), wanted)


def test_equal_points_by_index(device):
    x = torch.ones(5, 3, device=device)
    assert nearest(x, x).tolist() == [0] * 5
    batch = torch.tensor([0, 0, 1, 1, 1], device=device)
    assert nearest(x, x, batch, batch).tolist() == [0, 0, 2, 2, 2]


def test_columns_and_empty(device):
    x, y = torch.tensor([3.0, 0.0], device=device), torch.tensor([0.0, 1.0, 4.0], device=device)
    assert nearest(x, y).tolist() == [2, 0]
    assert nearest(x[:0], y).tolist() == []
    with pytest.raises(ValueError, match="y must"):
        nearest(x, y[:0])


@pytest.mark.parametrize(
    ("batch_x", "batch_y"),
    [
        ([0, 0, 1, 1], [0, 0, 0, 0]),
        ([0, 0, 0, 0], [0, 0, 1, 1]),
        ([0, 0, 1, 1], None),
        (None, [0, 0, 1, 1]),
        ([0, 1, 2, 2], [0, 2, 2, 2]),
        ([0, 1, 0, 1], [0, 0, 1, 1]),
        ([0, 0, 1, 1], [0, 1, 0, 1]),
        ([0, 0, 1], [0, 0, 1, 1]),
    ],
)
def test_batches_that_do_not_fit(device, batch_x, batch_y):
    x = torch.rand(4, 3, device=device)
    vectors = [None if b is None else torch.tensor(b, device=device) for b in (batch_x, batch_y)]
    with pytest.raises(ValueError, match="batch"):
        nearest(x, x, *vectors)


def test_errors(device):
    x = torch.rand(4, 3, device=device)
    with pytest.raises(AssertionError, match="same dimension"):
        nearest(x, x[:, :2])
    assert not nearest(x.requires_grad_(), x).requires_grad
