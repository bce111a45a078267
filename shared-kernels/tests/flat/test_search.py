"""Ragged kNN and radius search: clouds, gaps, order, padding."""

import numpy as np
import pytest
import torch

import mps_pointops
from mps_pointops import _flat_search, flat
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud

# cloud 1 has no points, cloud 3 no queries, cloud 4 neither
POINTS = (33, 0, 5, 7, 0, 120, 1)
QUERIES = (9, 4, 6, 0, 0, 40, 3)


def _batch(sizes):
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def _ragged(name, sizes, dim=3, seed=0):
    parts = [cloud(name, size, dim, seed + b) for b, size in enumerate(sizes) if size]
    return torch.cat(parts)


def _pair(name="random", dim=3):
    x, y = _ragged(name, POINTS, dim), _ragged(name, QUERIES, dim, seed=50)
    y[:5] = x[:5]
    return x, y, _batch(POINTS), _batch(QUERIES)


def _expected(x, y, search):
    """Edges of one search a cloud; `search(query, ref)` gives padded indices."""
    edges = []
    points, queries = np.cumsum((0, *POINTS)), np.cumsum((0, *QUERIES))
    for b in range(len(POINTS)):
        ref, query = x[points[b] : points[b + 1]], y[queries[b] : queries[b + 1]]
        if len(ref) and len(query):
            index = search(query, ref)
            row, slot = (index >= 0).nonzero(as_tuple=True)
            edges.append(torch.stack((row + int(queries[b]), index[row, slot] + int(points[b]))))
    return torch.cat(edges, dim=1)


@pytest.mark.parametrize("rule", ["separate", "fma_xyz"])
@pytest.mark.parametrize("k", [1, 6, 40])
@pytest.mark.parametrize("name", CLOUDS)
def test_knn(device, name, k, rule):
    x, y, bx, by = _pair(name)
    got = flat.knn(x.to(device), y.to(device), k, bx.to(device), by.to(device), rule=rule)
    assert got.device.type == device
    search = lambda q, r: knn_reference(q, r, min(k, len(r)), Rule[rule.upper()])[1]  # noqa: E731
    assert_same_bits(got, _expected(x, y, search))


@pytest.mark.parametrize("cap", [1, 6, 200])
@pytest.mark.parametrize("name", CLOUDS)
def test_radius(device, name, cap):
    x, y, bx, by = _pair(name)
    r = {"near_origin": 0.03, "tiny": 2.0**-63, "huge": 2.0**63}.get(name, 1.2)
    got = flat.radius(x.to(device), y.to(device), r, bx.to(device), by.to(device), cap)
    search = lambda q, p: ball_query_reference(q, p, r, cap, round_radius=False)[1]  # noqa: E731
    assert_same_bits(got, _expected(x, y, search))


@pytest.mark.parametrize("dim", [1, 2, 5, 64])
def test_dimensions(device, dim):
    x, y, bx, by = (t.to(device) for t in _pair(dim=dim))
    got = flat.knn(x, y, 4, bx, by)
    assert_same_bits(got, _expected(x.cpu(), y.cpu(), lambda q, r: knn_reference(q, r, 4)[1]))
    got = flat.radius(x, y, dim**0.5, bx, by, 5)
    search = lambda q, r: ball_query_reference(q, r, dim**0.5, 5, round_radius=False)[1]  # noqa: E731
    assert_same_bits(got, _expected(x.cpu(), y.cpu(), search))


def test_seed_example(device):
    x = torch.tensor([[0.0, 0, 0], [2.0, 0, 0], [10.0, 0, 0]], device=device)
    batch_x = torch.tensor([0, 0, 1], device=device)
    y = torch.tensor([[1.0, 0, 0], [11.0, 0, 0]], device=device)
    batch_y = torch.tensor([0, 1], device=device)
    assert flat.fps(x, batch_x, ratio=0.5, random_start=False).tolist() == [0, 2]
    edges = [[0, 0, 1], [0, 1, 2]]
    assert flat.knn(x, y, 2, batch_x, batch_y).tolist() == edges
    assert flat.radius(x, y, 1.1, batch_x, batch_y, max_num_neighbors=32).tolist() == edges


def test_one_missing_batch_means_cloud_zero(device):
    x, y, bx, by = (t.to(device) for t in _pair())
    inside = POINTS[0]
    assert torch.equal(flat.knn(x, y, 3, batch_x=bx), flat.knn(x[:inside], y, 3))
    got = flat.knn(x, y, 3, batch_y=by)
    assert got[0].max() < QUERIES[0]


def test_one_cloud_equals_the_dense_call(device):
    x, y = cloud("lattice", 200).to(device), cloud("lattice", 40).to(device)
    _, dense = mps_pointops.knn(y[None], x[None], 7)
    got = flat.knn(x, y, 7)
    assert torch.equal(got[1].view(40, 7), dense[0])
    assert torch.equal(got[0], torch.arange(40, device=device).repeat_interleave(7))


def test_same_index_is_left_out_before_counting(device):
    x = torch.tensor([[-1.0, -1], [-1, 1], [1, -1], [1, 1]], device=device)
    got = flat.radius(x, x, 100.0, max_num_neighbors=1, ignore_same_index=True)
    assert got.tolist() == [[0, 1, 2, 3], [1, 0, 0, 0]]


def test_two_packages_round_the_squared_radius_differently(device):
    """A point between `fl32(fl32(.4)**2)` and `fl32(.4 * .4)`: inside for neither or one only."""
    smaller = torch.tensor(0.4 * 0.4)
    y = torch.tensor(0.375)
    z = (smaller.double() - 0.375**2).sqrt().float() + torch.arange(-8, 9) * 2.0**-27
    d2 = (y.double() ** 2 + z.double() ** 2).float()
    point = torch.stack((y, z[(d2 == smaller).nonzero()[0, 0]], torch.tensor(0.0)))[None].to(device)
    origin = torch.zeros(1, 3, device=device)
    assert flat.radius(point, origin, 0.4).shape == (2, 0)
    assert mps_pointops.ball_query(origin[None], point[None], 0.4, 1)[1].tolist() == [[[0]]]


def test_batch_numbers_beyond_32_bits_and_int32(device):
    x, y, bx, by = (t.to(device) for t in _pair())
    wanted = flat.knn(x, y, 3, bx, by)
    assert torch.equal(flat.knn(x, y, 3, bx.int(), by), wanted)
    far = 2**40
    assert torch.equal(flat.knn(x, y, 3, bx * far, by * far), wanted)


def test_empty_sides(device):
    x = torch.rand(5, 3, device=device)
    none = torch.empty(0, 3, device=device)
    zeros = torch.zeros(5, dtype=torch.int64, device=device)
    for got in (
        flat.knn(none, x, 2),
        flat.knn(x, none, 2),
        flat.knn(none, none, 2),
        flat.knn(x, x, 0),
        flat.knn(none, x, 2, batch_y=zeros),
        flat.radius(none, x, 1.0),
        flat.radius(x, none, 1.0, batch_x=zeros),
        flat.radius(x, x, 0.0),
        flat.radius(x, x, 1.0, max_num_neighbors=0),
    ):
        assert got.shape == (2, 0)
        assert got.dtype == torch.int64
        assert got.device.type == device


@pytest.mark.parametrize("search", ["knn", "radius"])
@pytest.mark.parametrize("side", ["batch_x", "batch_y"])
def test_unsorted_batches_are_refused(device, search, side):
    x = torch.rand(4, 3, device=device)
    bad = torch.tensor([0, 2, 1, 1], device=device)
    with pytest.raises(
        ValueError, match=f"{side} must be sorted in ascending order.*sort the points"
    ):
        getattr(flat, search)(x, x, 2, **{side: bad})
    with pytest.raises(ValueError, match=f"{side} must be cloud numbers from 0, got -3"):
        getattr(flat, search)(x, x, 2, **{side: bad.new_tensor([-3, 0, 0, 1])})


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"x": torch.rand(4, 1, 3)}, ValueError, r"x must be of shape \(N, D\)"),
        ({"y": torch.rand(4, 2)}, ValueError, r"y must be of the dimension D of x \(3\), got 2"),
        ({"k": -1}, ValueError, "k must be at least 0"),
        ({"k": 1.5}, TypeError, "k must be an integer"),
        ({"batch_x": torch.zeros(3).long()}, ValueError, r"batch_x must be of shape \[4\]"),
        ({"batch_y": torch.zeros(4)}, TypeError, "batch_y must be int64 or int32"),
    ],
)
def test_bad_arguments(device, arguments, error, text):
    good = {"x": torch.rand(4, 3), "y": torch.rand(4, 3), "k": 2}
    moved = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in {**good, **arguments}.items()
    }
    with pytest.raises(error, match=text):
        flat.knn(**moved)


def test_bad_radius(device):
    x = torch.rand(4, 3, device=device)
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="r must be finite and not negative"):
            flat.radius(x, x, bad)


def test_requires_grad_inputs_are_accepted(device):
    x = torch.rand(6, 3, device=device, requires_grad=True)
    for got in (flat.fps(x), flat.knn(x, x, 2), flat.radius(x, x, 1.0)):
        assert not got.requires_grad


@pytest.mark.parametrize("name", ["random", "lattice", "not_finite"])
def test_counting_first_gives_the_same_edges(device, name, monkeypatch):
    x, y, bx, by = (t.to(device) for t in _pair(name))
    for same in (False, True):
        wanted = flat.radius(x, y, 1.2, bx, by, 40, ignore_same_index=same)
        with monkeypatch.context() as patch:
            patch.setattr(_flat_search, "_SLOTS_UNCOUNTED", 0)
            assert torch.equal(flat.radius(x, y, 1.2, bx, by, 40, ignore_same_index=same), wanted)


def test_no_limit_costs_no_memory(device, monkeypatch):
    """Slots are made for what is there, not for what was allowed."""
    slots = []
    end = "cpu" if device == "cpu" else "mps"
    for core in (f"knn_{end}", "ball_list_cpu" if device == "cpu" else "ball_query_mps"):
        plain = getattr(_flat_search, core)

        def counted(*arguments, plain=plain, **options):
            found = plain(*arguments, **options)
            slots.append((found[1] if isinstance(found, tuple) else found[0]).numel())
            return found

        monkeypatch.setattr(_flat_search, core, counted)
    x = torch.rand(3000, 3, generator=torch.Generator().manual_seed(0)).to(device)
    batch = torch.arange(300, device=device).repeat_interleave(10)
    knn = flat.knn(x, x, 3000, batch, batch)
    radius = flat.radius(x, x, 9.0, batch, batch, 10**9)
    assert knn.shape == radius.shape == (2, 30_000)
    assert slots == [30_000, 30_000]


def test_order_is_checked_without_results_too(device):
    x = torch.rand(4, 3, device=device)
    bad = torch.tensor([0, 2, 1, 1], device=device)
    for call in (
        lambda: flat.knn(x, x, 0, bad, bad),
        lambda: flat.knn(x, x[:0], 2, batch_x=bad),
        lambda: flat.radius(x, x, 1.0, bad, bad, 0),
    ):
        with pytest.raises(ValueError, match="batch_x must be sorted"):
            call()


def test_default_dtype_and_device_change_nothing(device):
    x, y, bx, by = (t.to(device) for t in _pair())
    calls = (
        lambda: flat.knn(x, y, 3, bx, by),
        lambda: flat.radius(x, y, 1.0, bx, by, 5),
        lambda: mps_pointops.ball_query(y[None], x[None], 1.0, 5)[1],
        lambda: mps_pointops.knn(y[None], x[None], 5)[0],
    )
    wanted = [call() for call in calls]
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("cpu" if device == "mps" else "mps")
        got = [call() for call in calls]
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    for one, other in zip(got, wanted, strict=True):
        assert torch.equal(one, other)
