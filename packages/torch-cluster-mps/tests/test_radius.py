"""`radius` and `radius_graph`."""

import math

import pytest
import torch

from pointops_testing import assert_same_bits
from torch_cluster import radius, radius_graph


def _ints(batch):
    return None if batch is None else batch.tolist()


@pytest.mark.parametrize("dim", [1, 3, 17])
def test_dtypes_and_batches(device, dtype, batches, exact, pairs, dim):
    x, y = exact.points(33, dim), exact.points(40, dim, seed=1)
    r = {1: 2, 3: 4.5, 17: 12}[dim]
    got = radius(x.to(device, dtype), y.to(device, dtype), r, *batches, max_num_neighbors=6)
    assert got.device.type == device
    wanted = exact.radius(x, y, r * r, *map(_ints, batches), limit=6)
    if batches[0] is None or len(set(batches[0].tolist())) == 1:
        wanted = exact.radius(x, y, r * r, limit=6)
    assert pairs(got) == wanted
    assert len(wanted) > 0


@pytest.mark.parametrize("dim", [2, 4, 5, 64])
def test_dimensions(device, dim):
    rng = torch.Generator().manual_seed(dim)
    x, y = torch.randn(150, dim, generator=rng), torch.randn(9, dim, generator=rng)
    r = 1.3 * math.sqrt(dim)
    edges = radius(x.to(device), y.to(device), r, max_num_neighbors=150)
    square = (y.double()[:, None] - x.double()[None]).square().sum(2)
    assert bool(((square / r**2 - 1).abs() > 1e-5).all())  # nothing near the boundary
    assert_same_bits(edges, (square < r * r).nonzero().t())


def test_integers_are_not_cut(device, exact, pairs):
    """The CPU build of the original cuts the squared radius 2.25 down to 2."""
    x = torch.tensor([[0, 0], [1, 1], [2, 0], [5, 5]], device=device)
    assert pairs(radius(x, x, 1.5)) == exact.radius(x.cpu(), x.cpu(), 2.25)


@pytest.mark.parametrize(
    ("r", "count"),
    [(0, 0), (1, 0), (2, 3), (-2, 3), (math.inf, 9), (-math.inf, 9), (math.nan, 0)],
)
def test_any_radius(device, pairs, r, count):
    """Strictly inside, a negative radius counts as its size, nothing is closer than NaN."""
    x = torch.tensor([[0.0], [1.0], [3.0]], device=device)
    y = torch.tensor([[-1.0], [2.0], [10.0]], device=device)
    assert len(pairs(radius(x, y, r))) == count


def test_boundary_is_the_square_rounded_once(device, pairs):
    """fl32(0.4 * 0.4) is below the square of fl32(0.4): a point between them is outside."""
    limit = torch.tensor(0.4 * 0.4, dtype=torch.float64).float()
    x = torch.tensor([[0.375, math.sqrt(float(limit) - 0.375**2), 0.0]], device=device)
    square = torch.tensor(0.0)
    for value in x[0].cpu():
        square = (square.double() + value.double() ** 2).float()
    y = torch.zeros(1, 3, device=device)
    assert (len(pairs(radius(x, y, 0.4))) == 1) == bool(square < limit)


def test_scales(device):
    base = torch.randn(60, 3, generator=torch.Generator().manual_seed(0)).to(device)
    wanted = radius_graph(base, 0.5, max_num_neighbors=300)
    for power in (-40, -10, 10, 40):
        scale = 2.0**power
        assert_same_bits(radius_graph(base * scale, 0.5 * scale, max_num_neighbors=300), wanted)


@pytest.mark.parametrize("limit", [0, 1, 32, 39, 40, 1000, 2**63 - 1, None])
def test_limits(device, exact, pairs, limit):
    x = exact.points(40, 2)
    wanted = exact.radius(x, x, 26, limit=limit)
    points = x.float().to(device)
    assert pairs(radius(points, points, math.sqrt(26), max_num_neighbors=limit)) == wanted


def test_default_is_32(device):
    x = torch.linspace(0, 1, 40, device=device).view(-1, 1)
    assert radius_graph(x, 5.0)[1].bincount().tolist() == [32] * 40
    assert radius_graph(x, 5.0, max_num_neighbors=None)[1].bincount().tolist() == [39] * 40


def test_columns(device, exact, pairs):
    x, y = exact.points(20, 1, high=99), exact.points(7, 1, seed=1, high=99)
    got = radius(x.flatten().float().to(device), y.flatten().float().to(device), 9.5)
    assert pairs(got) == exact.radius(x, y, 9.5**2)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)])
def test_empty(device, pairs, sizes):
    x, y = (torch.zeros(size, 3, device=device) for size in sizes)
    assert pairs(radius(x, y, 1.0)) == []
    vectors = [torch.zeros(size, dtype=torch.int64, device=device) for size in sizes]
    assert pairs(radius(x, y, 1.0, *vectors)) == []


@pytest.mark.parametrize("dtype", [torch.float, torch.long])
@pytest.mark.parametrize("shape", [(0,), (0, 2), (0, 3)])
def test_a_set_without_points_fits_any(device, pairs, shape, dtype):
    """As in the original, `torch.empty(0)` and `torch.tensor([])` are such a set."""
    x = torch.rand(5, 3, device=device)
    none = torch.empty(shape, dtype=dtype, device=device)
    for points in (x, x.long(), x[:, 0]):
        assert pairs(radius(none, points, 1.0)) == []
        assert pairs(radius(points, none, 1.0)) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite_points_have_no_edges(device, pairs, bad):
    x = torch.tensor([[0.0, 0.0], [1.0, bad], [2.0, 0.0]], device=device)
    assert pairs(radius(x, x, math.inf)) == [(0, 0), (0, 2), (2, 0), (2, 2)]


def test_ignore_same_index_compares_rows(device, exact, pairs):
    x, y = exact.points(20, 2), exact.points(20, 2, seed=1)
    got = radius(x.float().to(device), y.float().to(device), 5.0, ignore_same_index=True)
    assert pairs(got) == exact.radius(x, y, 25, limit=32, skip_same=True)


def test_numbers_as_tensors(device, pairs):
    x = torch.tensor([[0.0], [1.0], [3.0]], device=device)
    assert pairs(radius(x, x, torch.tensor(1.5))) == pairs(radius(x, x, 1.5))


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("limit", [1, 4, 32])
def test_graph(device, exact, pairs, flow, loop, limit):
    """The loop is left out before the limit counts."""
    x = exact.points(40, 2)
    batch = [0] * 15 + [1] * 2 + [4] * 23
    vector = torch.tensor(batch, device=device)
    wanted = exact.radius(x, x, 9.5, batch, batch, limit=limit, skip_same=not loop)
    if flow == "source_to_target":
        wanted = [(j, i) for i, j in wanted]
    points = x.float().to(device)
    assert pairs(radius_graph(points, math.sqrt(9.5), vector, loop, limit, flow)) == wanted


def test_errors(device):
    x = torch.rand(3, 3, device=device)
    with pytest.raises(AssertionError, match="flow must be"):
        radius_graph(x, 1.0, flow="both")
    with pytest.raises(ValueError, match="max_num_neighbors must be at least 0"):
        radius(x, x, 1.0, max_num_neighbors=-1)
    with pytest.raises(ValueError, match="sorted"):
        radius_graph(x, 1.0, torch.tensor([0, 1, 0], device=device))
    with pytest.raises(ValueError, match="batch_y must be given"):
        radius(x, x, 1.0, torch.tensor([0, 1, 1], device=device))
    with pytest.raises(ValueError, match="number of clouds"):
        radius_graph(x, 1.0, torch.tensor([0, 1, 1], device=device), batch_size=1)


def test_needs_no_gradient(device, pairs):
    x = torch.rand(5, 3, device=device, requires_grad=True)
    assert len(pairs(radius(x, x * 1, 9.0))) == 25
    assert len(pairs(radius_graph(x, 9.0))) == 20
