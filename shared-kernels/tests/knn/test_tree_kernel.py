"""The search in a tree, at every size, against the reference and the CPU, bit for bit."""

import pytest
import torch

import mps_emulator
import mps_pointops
import mps_pointops.ops.knn.mps as knn_mps
import mps_pointops.ops.knn.tree as kernels
from mps_pointops import flat
from mps_pointops._metal import choices, dispatch, launch
from mps_pointops._rules import Rule
from mps_pointops.ops.knn import few
from mps_pointops.ops.knn.cpu import knn_cpu
from mps_pointops.ops.knn.reference import knn_reference
from mps_pointops.ops.knn.tree import tree_knn
from mps_pointops.spatial.reference import tree_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud, root

SPREADS = ("outlier", "cluster", "line", "sites", "equal_halves")


def _spread(name, size):
    """Points [size, 3] whose spread is hard on a tree."""
    rng = torch.Generator().manual_seed(size)
    points = torch.rand(size, 3, generator=rng)
    if name == "outlier":
        points[-1] = 1e6
    elif name == "cluster":
        points[size // 10 :] = points[size // 10 :] * 1e-3 + 0.5
    elif name == "line":
        points[:, 1:] = 0.0
    elif name == "sites":
        points = (points * 4).floor()
    elif name == "equal_halves":
        points = (points > 0.5).float()
    return points


def _queries(name, ref, rows=10):
    query = cloud(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) % len(ref)]
    return query


def _check(query, ref, k, rule=Rule.SEPARATE):
    tree = tree_reference(ref).to("mps")
    distance, index = tree_knn(tree, query.to("mps"), None, None, 1, k, True, rule)
    d2, wanted = knn_reference(query, ref, k, rule)
    assert_same_bits(index, wanted)
    assert_same_bits(distance, root(d2))


def _check_own(points, k, rule=Rule.SEPARATE):
    tree = tree_reference(points).to("mps")
    got = tree_knn(tree, points.to("mps"), None, None, 1, k, True, rule, own=True)
    wanted = knn_cpu(points, points, None, None, 1, k, True, rule)
    assert_same_bits(got[1], wanted[1])
    assert_same_bits(got[0], wanted[0])


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1023, 1025])
@pytest.mark.parametrize("name", CLOUDS)
def test_sizes(name, size):
    ref = cloud(name, size)
    _check(_queries(name, ref, rows=4), ref, min(size, 20))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("name", CLOUDS)
def test_own_points(name, size):
    _check_own(cloud(name, size), 7)


@pytest.mark.slow
def test_own_points_on_two_levels():
    points = cloud("lattice", 1025)
    points[::50] = torch.nan
    _check_own(points, 7)


@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ])
@pytest.mark.parametrize("name", CLOUDS)
def test_rules(name, rule):
    ref = cloud(name, 300)
    _check(_queries(name, ref), ref, 33, rule)
    _check_own(ref[:100], 16, rule)


@pytest.mark.parametrize("k", [0, 1, 31, 32, 33, 64, 127, 128, 129, 511, 512])
@pytest.mark.parametrize("name", ["random", "lattice"])
def test_k(name, k):
    ref = cloud(name, 600)
    _check(_queries(name, ref, rows=4), ref, k)


@pytest.mark.parametrize("k", [0, 1, 31, 32, 33, 130])
@pytest.mark.parametrize("name", ["lattice", "not_finite"])
def test_k_of_own_points(name, k):
    _check_own(cloud(name, 160), k)


@pytest.mark.parametrize("name", CLOUDS)
def test_k_beyond_what_one_pass_keeps_and_beyond_the_points(name):
    ref = cloud(name, 1100)
    query = _queries(name, ref, rows=4)
    tree = tree_reference(ref).to("mps")
    distance, index = tree_knn(tree, query.to("mps"), None, None, 1, 1200, False, 0)
    d2, wanted = knn_reference(query, ref, 1200)
    assert_same_bits(index, wanted)
    assert_same_bits(distance, d2)


def test_several_passes_for_own_points():
    points = cloud("not_finite", 24)
    tree = tree_reference(points).to("mps")
    got = tree_knn(tree, points.to("mps"), None, None, 1, 600, False, 0, own=True)
    wanted = knn_reference(points, points, 600)
    assert_same_bits(got[1], wanted[1])
    assert_same_bits(got[0], wanted[0])


@pytest.mark.parametrize("own", [False, True])
def test_more_neighbours_than_points(own):
    points = cloud("not_finite", 40)
    tree = tree_reference(points).to("mps")
    got = tree_knn(tree, points.to("mps"), None, None, 1, 32, False, 0, own=own)
    wanted = knn_reference(points, points, 32)
    assert (wanted[1][:, -1] < 0).any()
    assert_same_bits(got[1], wanted[1])
    assert_same_bits(got[0], wanted[0])


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ])
def test_fewer_coordinates(dim, rule):
    for name in ("lattice", "not_finite"):
        ref = cloud(name, 400, dim)
        _check(_queries("random", ref), ref, 40, rule)
        _check_own(ref, 12, rule)


@pytest.mark.parametrize("name", SPREADS)
def test_spreads(name):
    ref = _spread(name, 1100)
    _check(_queries("random", ref), ref, 20)
    _check_own(ref[:150], 16)


def test_three_levels():
    size = 32**3 + 50  # more leaves than the top has room for two levels of
    points = torch.rand(size, 3, generator=torch.Generator().manual_seed(1))
    points[::7] = points[:1]
    tree = tree_reference(points)
    assert len(tree.levels) == 3
    query = points[:: size // 20].contiguous()
    wanted = knn_cpu(query, points, None, None, 1, 40, False, 0)
    got = tree_knn(tree.to("mps"), query.to("mps"), None, None, 1, 40, False, 0)
    assert_same_bits(got[1], wanted[1])
    assert_same_bits(got[0], wanted[0])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", ["random", "lattice", "not_finite", "all_equal"])
def test_clouds(name, own):
    """Clouds of no points, of one, in one leaf, over several; also in a tree that ignores them."""
    sizes = torch.tensor([40, 0, 1, 300, 5, 5, 65, 0])
    ends = sizes.cumsum(0)
    points = torch.cat([cloud(name, int(n), seed=i) for i, n in enumerate(sizes) if n])
    query = points if own else cloud("random", 60, seed=9)
    of = torch.arange(8).repeat_interleave(sizes) if own else torch.arange(60) * 8 // 60
    first, last = (ends - sizes)[of], ends[of]
    wanted = knn_cpu(query, points, first, last, 1, 9, True, 0)
    for begins in (None, (ends - sizes).tolist()):
        tree = tree_reference(points, begins).to("mps")
        where = (first.to("mps"), last.to("mps"))
        got = tree_knn(tree, query.to("mps"), *where, 1, 9, True, 0, own=own)
        assert_same_bits(got[1], wanted[1])
        assert_same_bits(got[0], wanted[0])


@pytest.mark.parametrize("own", [False, True])
def test_equal_clouds(own):
    points = torch.cat([cloud(name, 45) for name in CLOUDS])
    query = points if own else torch.cat([cloud(name, 7, seed=1) for name in CLOUDS])
    wanted = knn_cpu(query, points, None, None, len(CLOUDS), 9, True, 0)
    tree = tree_reference(points, list(range(0, len(points), 45))).to("mps")
    got = tree_knn(tree, query.to("mps"), None, None, len(CLOUDS), 9, True, 0, own=own)
    assert_same_bits(got[1], wanted[1])
    assert_same_bits(got[0], wanted[0])


def test_no_points_and_no_queries():
    empty, some = torch.empty(0, 3), cloud("random", 5)
    tree = tree_reference(empty).to("mps")
    distance, index = tree_knn(tree, some.to("mps"), None, None, 1, 2, True, 0)
    assert_same_bits(distance, torch.full((5, 2), torch.inf))
    assert_same_bits(index, torch.full((5, 2), -1))
    assert tree_knn(tree, empty.to("mps"), None, None, 1, 2, True, 0, own=True)[1].shape == (0, 2)
    tree = tree_reference(some).to("mps")
    assert tree_knn(tree, empty.to("mps"), None, None, 1, 2, True, 0)[0].shape == (0, 2)


def test_what_cannot_matter_is_not_looked_at():
    """Points that would be found are put where a search has no reason to look."""
    equal = torch.ones(1200, 3)
    tree = tree_reference(equal)
    tree.leaves.view(torch.int32)[64:, 3] = 0
    got = tree_knn(tree.to("mps"), equal[:40].to("mps"), None, None, 1, 16, False, 0)
    assert_same_bits(got[1], torch.arange(16).expand(40, 16))
    far = cloud("random", 3000)
    far[100:] += 1000.0
    tree = tree_reference(far)
    tree.leaves.view(torch.int32)[-1024:, 3] = 0
    got = tree_knn(tree.to("mps"), far[:8].to("mps"), None, None, 1, 9, False, 0)
    assert_same_bits(got[1], knn_reference(far[:8], far, 9)[1])


@pytest.mark.parametrize("own", [False, True])
def test_long_work_is_cut_into_dispatches(monkeypatch, own):
    launches = []
    monkeypatch.setattr(dispatch, "STEPS_PER_DISPATCH", 3 * 200 * 16)

    def counted(*arguments, **grid):
        launches.append(grid)
        launch(*arguments, **grid)

    monkeypatch.setattr(kernels, "launch", counted)
    ref = cloud("lattice", 200)
    if own:
        _check_own(ref, 7)
    else:
        _check(ref[:50], ref, 7)
    assert len(launches) == (13 if own else 4)


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a real GPU cannot be told how to run")
@pytest.mark.parametrize(
    ("fast", "version", "seed"), [(False, 310, 1), (True, 310, 2), (True, 320, 3)]
)
def test_modes(monkeypatch, fast, version, seed):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "fast_math", fast)
    monkeypatch.setattr(options, "metal_version", version)
    monkeypatch.setattr(options, "seed", seed)
    monkeypatch.setattr(kernels.SOURCE, "_kernels", {})
    for name in CLOUDS:
        ref = cloud(name, 100)
        _check(_queries(name, ref, rows=4), ref, 40)
        _check_own(ref[:40], 12)


@pytest.fixture
def always(monkeypatch):
    """The operator always builds a tree; what the searches in it were told of their queries."""
    monkeypatch.setattr(choices, "KNN_TREE_POINTS", 1)
    monkeypatch.setattr(choices, "KNN_TREE_SHARE", 0)
    monkeypatch.setattr(choices, "KNN_TREE_PAIRS", 0)
    monkeypatch.setattr(few, "suits", lambda *sizes: False)
    told = []

    def search(*arguments, own):
        told.append(own)
        return tree_knn(*arguments, own=own)

    monkeypatch.setattr(knn_mps, "tree_knn", search)
    return told


@pytest.mark.parametrize("name", CLOUDS)
def test_the_operator_on_a_tree(always, name):
    ref = torch.stack([cloud(name, 90), cloud(name, 90, seed=1)])
    query = torch.stack([cloud(name, 9, seed=2), cloud(name, 9, seed=3)])
    moved = ref.to("mps")
    with mps_emulator.count_readbacks() as reads:
        got = [mps_pointops.knn(q, moved, 11) for q in (query.to("mps"), moved)]
    assert reads.count == 0
    assert always == [False, True]
    for (distance, index), q in zip(got, (query, ref), strict=True):
        wanted = mps_pointops.knn(q, ref, 11)
        assert_same_bits(index, wanted[1])
        assert_same_bits(distance, wanted[0])


def test_other_points_in_the_same_memory(always):
    points = cloud("random", 120).to("mps")
    for query, ref in ((points[:60], points[60:]), (points[:60], points), (points, points[:60])):
        distance, _ = mps_pointops.knn(query[None], ref[None], 3)
        assert_same_bits(distance, mps_pointops.knn(query[None].cpu(), ref[None].cpu(), 3)[0])
    assert always == [False] * 3


@pytest.mark.parametrize("name", ["random", "not_finite"])
def test_ragged_calls_on_a_tree(always, name):
    sizes = torch.tensor([40, 0, 1, 300, 65, 0, 7])
    x = torch.cat([cloud(name, int(n), seed=i) for i, n in enumerate(sizes) if n])
    batch = torch.repeat_interleave(torch.arange(7), sizes)
    y, batch_y = cloud(name, 70, seed=5), torch.arange(70) * 7 // 70
    for q, b in ((y, batch_y), (x, batch)):
        moved = [t.to("mps") for t in (x, q, batch, b)]
        if q is x:
            moved[1], moved[3] = moved[0], moved[2]
        assert torch.equal(flat.knn(*moved[:2], 9, *moved[2:]).cpu(), flat.knn(x, q, 9, batch, b))
    assert always == [False, True]


@pytest.mark.parametrize("by_ptr", [False, True])
def test_ragged_calls_choose_by_the_size_of_a_cloud(always, monkeypatch, by_ptr):
    monkeypatch.setattr(choices, "KNN_TREE_POINTS", 50)
    x = cloud("random", 120)
    moved = x.to("mps")
    for size, told in ((40, []), (60, [True])):
        if by_ptr:
            ptr = torch.arange(0, 121, size)
            got = flat.knn(moved, moved, 3, ptr_x=ptr.to("mps"), ptr_y=ptr.to("mps"))
            wanted = flat.knn(x, x, 3, ptr_x=ptr, ptr_y=ptr)
        else:
            batch = torch.arange(120) // size
            got = flat.knn(moved, moved, 3, batch.to("mps"), batch.to("mps"))
            wanted = flat.knn(x, x, 3, batch, batch)
        assert torch.equal(got.cpu(), wanted)
        assert always == told


def test_sizes_that_suit_a_tree():
    assert knn_mps.suits_tree(100_000, 100_000, 3, 16)
    assert knn_mps.suits_tree(100_000, 100_000, 1, 128)
    assert not knn_mps.suits_tree(100_000, 100_000, 4, 16)
    assert not knn_mps.suits_tree(100_000, 1000, 3, 16)
    assert not knn_mps.suits_tree(100, 100_000, 3, 16)
    assert not knn_mps.suits_tree(100_000, 100_000, 3, 50_000)
