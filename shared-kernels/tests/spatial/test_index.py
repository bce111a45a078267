"""A `SpatialIndex` gives what the public functions give, bit for bit."""

import pytest
import torch

import mps_emulator
import mps_pointops
from mps_pointops import SpatialIndex, flat
from mps_pointops.spatial import search
from pointops_testing import assert_same_bits
from pointops_testing.clouds import cloud

RULES = ("separate", "fma_xyz", "fma_yxz")


@pytest.fixture(autouse=True)
def _small_clouds_have_trees(monkeypatch):
    monkeypatch.setattr(search, "INDEX_POINTS", 1)
    monkeypatch.setattr(search, "INDEX_SHARE", 0)


def same(got, wanted):
    for g, w in zip(got, wanted, strict=True):
        assert_same_bits(g, w)


def points_and_queries(name, size, dim=3, rows=20):
    points = cloud(name, size, dim)
    query = torch.cat((points[: rows // 2], cloud(name, rows, dim, seed=3)))
    return points, query


@pytest.mark.parametrize(
    ("name", "dim"), [("random", 2), ("lattice", 3), ("all_equal", 3), ("not_finite", 3)]
)
def test_one_cloud(device, name, dim):
    points, query = (t.to(device) for t in points_and_queries(name, 300, dim))
    index = SpatialIndex(points)
    for rule in RULES[:dim]:
        wanted = mps_pointops.knn(query[None], points[None], 9, rule=rule)
        same(index.knn(query, 9, rule=rule), (w[0] for w in wanted))
        wanted = mps_pointops.ball_query(query[None], points[None], 0.5, 7, rule=rule)
        same(index.ball_query(query, 0.5, 7, rule=rule), (w[0] for w in wanted))
        for most in (None, 5):
            assert_same_bits(
                index.radius(query, 0.5, most, rule=rule),
                flat.radius(points, query, 0.5, max_num_neighbors=most, rule=rule),
            )
        assert_same_bits(index.nearest(query, rule=rule), flat.nearest(query, points, rule=rule))


@pytest.mark.parametrize("dim", [1, 3, 5, 9])
def test_dimensions_and_sizes(device, dim):
    for size in (1, 31, 33, 1025):
        points, query = (t.to(device) for t in points_and_queries("random", size, dim))
        k = min(size, 17)
        wanted = mps_pointops.knn(query[None], points[None], k)
        same(SpatialIndex(points).knn(query, k), (w[0] for w in wanted))


def test_without_a_tree(monkeypatch):
    monkeypatch.setattr(search, "INDEX_POINTS", 10**6)
    points, query = (t.to("mps") for t in points_and_queries("lattice", 300))
    index = SpatialIndex(points)
    wanted = mps_pointops.knn(query[None], points[None], 9)
    same(index.knn(query, 9), (w[0] for w in wanted))
    wanted = mps_pointops.ball_query(query[None], points[None], 0.5, 7)
    same(index.ball_query(query, 0.5, 7), (w[0] for w in wanted))
    assert_same_bits(index.radius(query, 0.5), flat.radius(points, query, 0.5))


def test_few_points_a_neighbour(monkeypatch):
    monkeypatch.setattr(search, "INDEX_SHARE", 56)
    searched = []
    monkeypatch.setattr(search, "tree_knn", lambda *_, **__: searched.append(1) or (None, None))
    index = SpatialIndex(cloud("random", 560).to("mps"))
    index._prepared.knn(index.points, None, None, 11, True, search.Rule.SEPARATE, False)
    assert not searched
    index._prepared.knn(index.points, None, None, 10, True, search.Rule.SEPARATE, False)
    assert searched


def test_own_points(device):
    points = cloud("duplicates", 200).to(device)
    index = SpatialIndex(points)
    for k in (1, 16, 40):
        wanted = mps_pointops.knn(points[None], points[None], k)
        same(index.knn(points, k), (w[0] for w in wanted))
    assert_same_bits(
        index.radius(points, 0.3, 8, ignore_same_index=True),
        flat.radius(points, points, 0.3, max_num_neighbors=8, ignore_same_index=True),
    )


def test_clouds_of_equal_sizes(device):
    points = torch.stack([cloud("duplicates", 150, seed=s) for s in range(3)]).to(device)
    query = torch.stack([cloud("random", 11, seed=s) for s in range(3)]).to(device)
    index = SpatialIndex(points)
    same(index.knn(query, 5), mps_pointops.knn(query, points, 5))
    same(index.knn(points, 5), mps_pointops.knn(points, points, 5))
    same(index.ball_query(query, 0.4, 6), mps_pointops.ball_query(query, points, 0.4, 6))


def test_cosine(device):
    points, query = (t.to(device) for t in points_and_queries("random", 60))
    wanted = mps_pointops.knn(query[None], points[None], 4, rule="cosine")
    same(SpatialIndex(points).knn(query, 4, rule="cosine"), (w[0] for w in wanted))


def ragged(device, name="random"):
    sizes, rows = torch.tensor([5, 0, 300, 1]), torch.tensor([3, 0, 20, 2])
    x, y = cloud(name, 306).to(device), cloud(name, 25, seed=4).to(device)
    begins = [
        torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).to(device)
        for counts in (sizes, rows)
    ]
    batch = torch.arange(4).repeat_interleave(rows).to(device)
    return x, y, *begins, batch


@pytest.mark.parametrize("name", ["lattice", "not_finite"])
@pytest.mark.parametrize("by", ["ptr", "batch"])
def test_clouds_of_other_sizes(device, name, by):
    x, y, ptr_x, ptr_y, batch = ragged(device, name)
    told = {"ptr": ptr_y} if by == "ptr" else {"batch": batch.to(torch.int32)}
    index = SpatialIndex(x, ptr_x)
    clouds = {"ptr_x": ptr_x, "ptr_y": ptr_y}
    assert_same_bits(
        index.radius(y, 0.5, 9, **told), flat.radius(x, y, 0.5, max_num_neighbors=9, **clouds)
    )
    distance, neighbor = index.knn(y, 6, **told)
    row, place = (neighbor >= 0).nonzero(as_tuple=True)
    edges = torch.stack((row, neighbor[row, place]))
    assert_same_bits(edges, flat.knn(x, y, 6, **clouds))
    assert (distance[neighbor < 0] == torch.inf).all()
    _, inside = index.ball_query(y, 0.5, 9, **told)
    row, place = (inside >= 0).nonzero(as_tuple=True)
    edges = torch.stack((row, inside[row, place]))
    assert_same_bits(edges, flat.radius(x, y, 0.5, max_num_neighbors=9, **clouds))
    given = {"batch_x": batch, "batch_y": torch.arange(4).repeat_interleave(ptr_x.diff().cpu())}
    given["batch_y"] = given["batch_y"].to(device)
    assert_same_bits(index.nearest(y, **told), flat.nearest(y, x, **given))


def test_queries_in_any_order(device):
    x, y, ptr_x, ptr_y, batch = ragged(device)
    index = SpatialIndex(x, ptr_x)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(device)
    straight = index.knn(y, 4, ptr=ptr_y)
    same(index.knn(y[order], 4, batch=batch[order]), (t[order] for t in straight))


def test_gradient(device):
    def grads(call):
        points, query = (t.to(device).requires_grad_() for t in points_and_queries("random", 120))
        distance = call(points, query)
        first = torch.autograd.grad(distance.square().sum(), (points, query), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (points, query))
        return [t.detach() for t in (*first, *second)]

    got = grads(lambda p, q: SpatialIndex(p).ball_query(q, 0.8, 6)[0])
    wanted = grads(lambda p, q: mps_pointops.ball_query(q[None], p[None], 0.8, 6)[0])
    assert any(t.abs().sum() > 0 for t in wanted)
    same(got, wanted)
    points, query = (t.to(device).requires_grad_() for t in points_and_queries("random", 50))
    assert not SpatialIndex(points).knn(query, 3)[0].requires_grad


def test_half_precision(device):
    points, query = (t.to(device, torch.float16) for t in points_and_queries("random", 200))
    wanted = mps_pointops.knn(query[None], points[None], 8)
    same(SpatialIndex(points).knn(query, 8), (w[0] for w in wanted))
    assert SpatialIndex(points).ball_query(query, 0.5, 3)[0].dtype == torch.float32


def test_nothing(device):
    none, some = torch.empty(0, 3, device=device), torch.zeros(4, 3, device=device)
    ptr = torch.zeros(2, dtype=torch.int64, device=device)
    for index, told in ((SpatialIndex(none), {}), (SpatialIndex(none, ptr), {"ptr": ptr})):
        assert index.knn(none, 0, **told)[1].shape == (0, 0)
        assert index.radius(none, 1.0, **told).shape == (2, 0)
        assert index.nearest(none, **told).shape == (0,)
        assert index.ball_query(none, 1.0, 3, **told)[1].shape == (0, 3)
    assert (SpatialIndex(none).ball_query(some, 1.0, 3)[1] == -1).all()
    no_clouds = SpatialIndex(none, ptr[:1])
    assert no_clouds.knn(none, 0, ptr=ptr[:1])[1].shape == (0, 0)
    assert SpatialIndex(some).knn(none, 2)[1].shape == (0, 2)
    batch = torch.empty(0, 3, 3, device=device)
    assert SpatialIndex(batch).knn(batch, 2)[1].shape == (0, 3, 2)


def test_read_backs():
    x, y, ptr_x, ptr_y, batch = ragged("mps")
    with mps_emulator.count_readbacks() as reads:
        plain = SpatialIndex(x)
        plain.knn(y, 3)
        plain.ball_query(y, 0.5, 3)
        plain.nearest(y)
    assert reads.count == 0
    with mps_emulator.count_readbacks() as reads:
        index = SpatialIndex(x, ptr_x)
    assert reads.count == 1
    for call in (
        lambda: plain.radius(y, 0.5, 3),
        lambda: index.knn(y, 3, ptr=ptr_y),
        lambda: index.ball_query(y, 0.5, 3, batch=batch),
        lambda: index.radius(y, 0.5, 3, ptr=ptr_y),
        lambda: index.radius(y, 0.5, 3, batch=batch),
        lambda: index.nearest(y, ptr=ptr_y),
    ):
        with mps_emulator.count_readbacks() as reads:
            call()
        assert reads.count == 1


def test_counted_first(device, monkeypatch):
    from mps_pointops.spatial import index as module

    x, y, ptr_x, ptr_y, _ = ragged(device)
    index = SpatialIndex(x, ptr_x)
    wanted = index.radius(y, 0.7, ptr=ptr_y)
    monkeypatch.setattr(module, "_SLOTS_UNCOUNTED", 0)
    assert wanted.shape[1] > 0
    assert_same_bits(index.radius(y, 0.7, ptr=ptr_y), wanted)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d: SpatialIndex([1.0]), TypeError, "points must be a torch.Tensor"),
        (lambda d: SpatialIndex(torch.zeros(3, device=d)), ValueError, "points must be of shape"),
        (
            lambda d: SpatialIndex(torch.zeros(3, 3, device="meta")),
            ValueError,
            "points must be on device cpu or mps",
        ),
        (
            lambda d: SpatialIndex(torch.zeros(3, 3, dtype=torch.int64, device=d)),
            TypeError,
            "points must be float32",
        ),
        (
            lambda d: SpatialIndex(torch.zeros(2, 3, 3, device=d), torch.zeros(2, device=d)),
            ValueError,
            r"points must be of shape \(N, D\)",
        ),
        (
            lambda d: SpatialIndex(torch.zeros(3, 3, device=d), [0, 3]),
            TypeError,
            "ptr must be a torch.Tensor",
        ),
        (
            lambda d: SpatialIndex(torch.zeros(3, 3, device=d), torch.tensor([0, 4], device=d)),
            ValueError,
            "ptr must be ascending from 0 to 3",
        ),
        (lambda d: plain(d).knn(torch.zeros(2, 2, device=d), 1), ValueError, "dimension D"),
        (lambda d: plain(d).knn(torch.zeros(1, 2, 3, device=d), 1), ValueError, r"\(N, D\)"),
        (lambda d: plain(d).knn(torch.zeros(2, 3, device="meta"), 1), ValueError, "on the device"),
        (lambda d: plain(d).knn(torch.zeros(2, 3, device=d), 6), ValueError, "k must be at most"),
        (lambda d: plain(d).knn(torch.zeros(2, 3, device=d), 1, rule="x"), ValueError, "rule"),
        (lambda d: plain(d).radius(torch.zeros(2, 3, device=d), 1, -1), ValueError, "at least 0"),
        (
            lambda d: plain(d).ball_query(torch.zeros(2, 3, device=d), -1, 1),
            ValueError,
            "radius must be finite",
        ),
        (
            lambda d: plain(d).knn(torch.zeros(2, 3, device=d), 1, batch=torch.zeros(2, device=d)),
            ValueError,
            "batch must be None, as the index was made without a ptr",
        ),
        (
            lambda d: SpatialIndex(torch.zeros(0, 3, device=d)).nearest(
                torch.zeros(1, 3, device=d)
            ),
            ValueError,
            "query must be empty",
        ),
        (
            lambda d: SpatialIndex(torch.zeros(1, 2, 3, device=d)).radius(
                torch.zeros(1, 2, 3, device=d), 1
            ),
            ValueError,
            r"points must be \[N, D\]",
        ),
    ],
)
def test_errors(device, call, error, message):
    with pytest.raises(error, match=message):
        call(device)


def plain(device):
    return SpatialIndex(torch.zeros(5, 3, device=device))


@pytest.mark.parametrize("method", ["knn", "radius", "nearest", "ball_query"])
@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, "batch must be given, or ptr"),
        ({"batch": [0, 0], "ptr": [0, 2, 2]}, "batch must be given, or ptr"),
        ({"batch": [0, 2]}, "batch must be from 0 to 1"),
        ({"batch": [-1, 1]}, "batch must be from 0 to 1"),
        ({"batch": [0]}, r"batch must be of shape \[2\]"),
        ({"ptr": [0, 2]}, "ptr must be of the length"),
        ({"ptr": [0, 3, 2]}, "ptr must be ascending from 0 to 2"),
        ({"ptr": [0, 1, 3]}, "ptr must be ascending from 0 to 2"),
    ],
)
def test_errors_of_clouds(device, method, told, message):
    ptr = torch.tensor([0, 1, 5], device=device)
    index = SpatialIndex(torch.zeros(5, 3, device=device), ptr)
    told = {name: torch.tensor(values, device=device) for name, values in told.items()}
    arguments = {"knn": (1,), "radius": (1.0,), "nearest": (), "ball_query": (1.0, 1)}[method]
    with pytest.raises(ValueError, match=message):
        getattr(index, method)(torch.zeros(2, 3, device=device), *arguments, **told)


def test_nearest_in_an_empty_cloud(device):
    ptr = torch.tensor([0, 0, 5], device=device)
    index = SpatialIndex(torch.zeros(5, 3, device=device), ptr)
    query = torch.zeros(2, 3, device=device)
    with pytest.raises(ValueError, match="row 1 in an empty one"):
        index.nearest(query, batch=torch.tensor([1, 0], device=device))


def test_distances_may_be_written_to(device):
    points, query = (t.to(device).requires_grad_() for t in points_and_queries("random", 40))
    distance, _ = SpatialIndex(points).ball_query(query, 1.0, 3)
    distance *= 2
    distance.sum().backward()
    assert query.grad is not None


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own use of it
def test_forward_mode_is_refused(device):
    points = torch.zeros(5, 3, device=device)
    index = SpatialIndex(points)
    with pytest.raises(NotImplementedError, match=r"SpatialIndex\.ball_query: there is no forward"):
        torch.func.jvp(lambda q: index.ball_query(q, 1.0, 2)[0], (points,), (points,))


def _answers(index, query, told):
    return [
        *index.knn(query, 4, **told),
        *index.ball_query(query, 0.5, 7, **told),
        index.radius(query, 0.5, **told),
        index.nearest(query, **told),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_points_that_are_written_to(device, dtype):
    points, query = (t.to(device, dtype) for t in points_and_queries("random", 300))
    index = SpatialIndex(points)
    _answers(index, query, {})
    for _ in range(2):
        points[20:].mul_(torch.tensor([-1.0, 2.0, 0.5], device=device))
        same(_answers(index, query, {}), _answers(SpatialIndex(points.clone()), query, {}))
        same(index.knn(points, 4), SpatialIndex(points).knn(points.clone(), 4))


def test_points_are_prepared_once_while_they_stay(device):
    points, query = (t.to(device) for t in points_and_queries("random", 300))
    index = SpatialIndex(points)
    prepared = index._prepared
    _answers(index, query, {})
    assert index._prepared is prepared
    with torch.inference_mode():
        kept = SpatialIndex(points.clone())
        same(_answers(kept, query, {}), _answers(index, query, {}))


def test_a_ptr_that_is_written_to(device):
    points, query = (t.to(device) for t in points_and_queries("random", 300))
    ptr = torch.tensor([0, 100, 100, 300], device=device)
    told = {"batch": torch.arange(len(query), device=device) % 2 * 2}
    index = SpatialIndex(points, ptr)
    wanted = _answers(index, query, told)
    before = index.knn(points, 4, ptr=ptr)
    ptr[1:3] = 200
    same(_answers(index, query, told), wanted)
    same(index.knn(points, 4, ptr=index.ptr), before)
    of = torch.arange(300, device=device) // 200 * 2
    same(index.knn(points, 4, ptr=ptr), index.knn(points, 4, batch=of))


@pytest.mark.parametrize("r", ["0.5", None, True, torch.ones(2)])
def test_a_radius_that_is_no_number(device, r):
    index = SpatialIndex(cloud("random", 9).to(device))
    with pytest.raises(TypeError, match=r"SpatialIndex.radius: r must be a number, got"):
        index.radius(index.points, r)
    assert index.radius(index.points, 10**400).shape == (2, 81)
    assert index.radius(index.points, -(10**400)).shape == (2, 81)


def test_repr():
    points = torch.zeros(5, 3)
    assert repr(SpatialIndex(points)) == "SpatialIndex(points [5, 3] on cpu, 1 clouds)"
