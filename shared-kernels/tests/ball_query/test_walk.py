"""Ball query in a tree: the same answers, whichever of its steps ends a search."""

import pytest
import torch

import mps_pointops
import mps_pointops.ops.ball_query.mps as choice
import mps_pointops.ops.ball_query.walk as walking
from mps_pointops import flat
from mps_pointops._metal import dispatch, launch
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.spatial.build import build
from pointops_testing import CLOUDS, assert_same_bits, cloud

OPS = torch.ops.mps_pointops
RADIUS = {"near_origin": 0.03, "tiny": 2.0**-63, "huge": 2.0**63}
# rows scanned first, rows that hits may be away, rows scanned instead of a step, small clouds
WALK, SCAN, CUT, ALL = (32, 0, 0, 0), (32, 2**20, 0, 0), (32, 0, 2**20, 0), (64, 200, 8, 35)


@pytest.fixture(autouse=True)
def always_a_tree(monkeypatch):
    """Trees whatever the sizes."""
    for name in ("BALL_TREE_POINTS", "BALL_TREE_PAIRS"):
        monkeypatch.setattr(choice, name, 0)
    monkeypatch.setattr(choice, "BALL_TREE_PLACES", 2**20)


def _steps(monkeypatch, steps):
    names = ("BALL_PROBE", "BALL_REACH", "BALL_CUT", "BALL_WHOLE")
    for name, value in zip(names, steps, strict=True):
        monkeypatch.setattr(walking, name, value)


def _queries(name, ref, rows=12):
    query = cloud(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) * 7 % len(ref)]
    return query


def _check(query, ref, radius, K, rule=Rule.FMA_XYZ, rounded=True):
    moved = query.to("mps"), ref.to("mps")
    arguments = (*moved, None, None, 1, K, radius, rounded, False, int(rule))
    distance, index = OPS.ball_query(*arguments)
    wanted = ball_query_reference(query, ref, radius, K, rule, rounded)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])
    assert_same_bits(OPS.ball_count(*arguments), (wanted[1] >= 0).sum(dim=1))


@pytest.mark.parametrize(
    ("name", "size"),
    [(name, size) for name in CLOUDS for size in (1, 33, 400)]
    + [("lattice", size) for size in (31, 32, 1023, 1025)],
)
def test_sizes(monkeypatch, name, size):
    ref = cloud(name, size)
    _steps(monkeypatch, ALL if size < 400 else WALK)
    _check(_queries(name, ref), ref, RADIUS.get(name, 1.0), 20)


@pytest.mark.parametrize("steps", [WALK, SCAN, CUT, ALL], ids=["walk", "scan", "cut", "all"])
@pytest.mark.parametrize("order", ["random", "sorted", "late"])
def test_every_way_to_end(monkeypatch, steps, order):
    _steps(monkeypatch, steps)
    ref = cloud("random", 1500)
    if order == "sorted":
        ref = ref[ref[:, 0].argsort()]
    if order == "late":  # the ball begins after everything that is scanned first
        ref = torch.cat((ref[:200] + 50.0, ref[200:]))
    query = _queries("random", ref)
    for K in (1, 5, 64):
        for radius in (0.3, 1.0, 30.0):
            _check(query, ref, radius, K)


@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ])
@pytest.mark.parametrize("name", CLOUDS)
def test_rules(monkeypatch, name, rule):
    _steps(monkeypatch, WALK)
    ref = cloud(name, 300)
    _check(_queries(name, ref), ref, RADIUS.get(name, 1.25), 33, rule)


@pytest.mark.parametrize("K", [0, 1, 31, 32, 33, 255, 256, 257, 600, 700])
@pytest.mark.parametrize("steps", [WALK, ALL], ids=["walk", "all"])
def test_slots(monkeypatch, K, steps):
    """More than a simdgroup keeps take several walks, each from where the last one ended."""
    _steps(monkeypatch, steps)
    ref = cloud("lattice", 600)
    for radius in (0.6, 2.0):
        _check(_queries("lattice", ref), ref, radius, K)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", ["lattice", "far_offset", "not_finite"])
def test_fewer_coordinates(monkeypatch, name, dim):
    _steps(monkeypatch, WALK)
    ref = cloud(name, 300, dim)
    for rule in (Rule.SEPARATE, Rule.FMA_XYZ):
        _check(_queries(name, ref), ref, 0.5, 40, rule)


@pytest.mark.parametrize("exponent", [-126, -90, -64, -63, -50, 61, 63, 64, 100])
def test_radii_of_their_own_scale(monkeypatch, exponent):
    _steps(monkeypatch, WALK)
    points = cloud("random", 300) * 2.0**exponent
    for radius in (0.75 * 2.0**exponent, 2.0**-126, 0.0):
        _check(points[:30], points, radius, 20)
        _check(points[:5], points, radius, 20, rounded=False)


def test_infinite_radius(monkeypatch):
    _steps(monkeypatch, WALK)
    points = cloud("not_finite", 300)
    _check(points[:40], points, torch.inf, 100, rounded=False)


@pytest.mark.parametrize("steps", [WALK, ALL], ids=["walk", "all"])
def test_clouds_share_leaves(monkeypatch, steps):
    """Clouds begin and end inside leaves; some are empty or have no queries."""
    _steps(monkeypatch, steps)
    sizes = torch.tensor([5, 0, 40, 33, 1, 300, 70])
    x = torch.cat([cloud("lattice", int(n), seed=i) for i, n in enumerate(sizes) if n])
    batch = torch.repeat_interleave(torch.arange(7), sizes)
    keep = batch != 3
    y, batch_y = x[keep], batch[keep]
    moved = [t.to("mps") for t in (x, y, batch, batch_y)]
    for K in (1, 9, 300):
        got = flat.radius(*moved[:2], 0.6, *moved[2:], K)
        assert torch.equal(got.cpu(), flat.radius(x, y, 0.6, batch, batch_y, K))
        arguments = (0.6, batch, batch, K)
        on_device = (0.6, moved[2], moved[2], K)
        got = flat.radius(moved[0], moved[0], *on_device, ignore_same_index=True)
        assert torch.equal(got.cpu(), flat.radius(x, x, *arguments, ignore_same_index=True))
    monkeypatch.setattr("mps_pointops._flat_search._SLOTS_UNCOUNTED", 0)
    got = flat.radius(*moved[:2], 0.6, *moved[2:], None)
    assert torch.equal(got.cpu(), flat.radius(x, y, 0.6, batch, batch_y, None))


@pytest.mark.parametrize("size", [20, 50])
def test_equal_clouds_share_leaves(monkeypatch, size):
    _steps(monkeypatch, WALK)
    query, ref = cloud("random", 5 * 8).view(5, 8, 3), cloud("random", 5 * size).view(5, size, 3)
    distance, index = mps_pointops.ball_query(query.to("mps"), ref.to("mps"), 1.2, 9)
    for b in range(5):
        wanted = ball_query_reference(query[b], ref[b], 1.2, 9)
        assert_same_bits(index[b], wanted[1])
        assert_same_bits(distance[b], wanted[0])


def test_gradient_and_views(monkeypatch):
    _steps(monkeypatch, WALK)
    base = cloud("random", 400)
    moved = base.to("mps")
    query = moved[:20].t().contiguous().t()[None].requires_grad_()
    d2, index = mps_pointops.ball_query(query, moved.view(200, 2, 3)[:, 1][None], 0.8, 10)
    wanted = ball_query_reference(base[:20], base.view(200, 2, 3)[:, 1].contiguous(), 0.8, 10)
    assert_same_bits(index[0], wanted[1])
    d2.sum().backward()
    assert torch.isfinite(query.grad).all()
    assert (query.grad != 0).any()


def test_a_tree_that_was_built_before(monkeypatch):
    _steps(monkeypatch, WALK)
    ref = cloud("random", 300)
    tree, moved = build(ref.to("mps")), ref.to("mps")
    for radius in (0.4, 2.0):
        for K in (1, 300):
            arguments = (None, None, 1, K, radius, True, True, 1)
            distance, index = walking.tree_ball(tree, moved, moved, *arguments, count=False)
            wanted = OPS.ball_query(ref, ref, *arguments)
            assert_same_bits(index, wanted[1])
            assert_same_bits(distance, wanted[0])
            nothing, count = walking.tree_ball(tree, moved, moved, *arguments, count=True)
            assert nothing is None
            assert_same_bits(count, (wanted[1] >= 0).sum(dim=1))


def test_a_scan_of_no_rows_at_a_time_ends(monkeypatch):
    _steps(monkeypatch, (0, 2**20, 0, 0))
    given = []

    def looked_at(kernel, *arguments, **grid):
        given.append(arguments[-3])
        assert given[-1][11] > 0, "a loop without end"
        launch(kernel, *arguments, **grid)

    monkeypatch.setattr(walking, "launch", looked_at)
    ref = cloud("random", 100)
    arguments = (None, None, 1, 9, 0.4, True, False, 1)
    _, index = OPS.ball_query(ref.to("mps"), ref.to("mps"), *arguments)
    assert_same_bits(index, OPS.ball_query(ref, ref, *arguments)[1])
    assert len(given) == 1


def test_sizes_choose(monkeypatch):
    monkeypatch.undo()
    suits = choice.suits_tree
    assert suits(1024, 100_000, 3, 64, count=False)
    assert not suits(1024, 100_000, 4, 64, count=False)
    assert not suits(1, 100_000, 3, 64, count=False)
    assert not suits(100_000, 1024, 3, 64, count=False)
    assert not suits(1024, 100_000, 3, 100_000, count=False)
    assert suits(1024, 100_000, 3, 100_000, count=True)


def test_long_work_is_cut_into_dispatches(monkeypatch):
    launches = []
    monkeypatch.setattr(dispatch, "STEPS_PER_DISPATCH", 16 * 500 * 3 // 16)

    def counted(*arguments, **grid):
        launches.append(grid)
        launch(*arguments, **grid)

    monkeypatch.setattr(walking, "launch", counted)
    ref = cloud("lattice", 500)
    arguments = (None, None, 1, 300, 1.0, True, False, 1)
    _, index = OPS.ball_query(ref[:50].to("mps"), ref.to("mps"), *arguments)
    assert len(launches) == 2 * 4  # two walks for 300 places
    assert_same_bits(index, OPS.ball_query(ref[:50], ref, *arguments)[1])
