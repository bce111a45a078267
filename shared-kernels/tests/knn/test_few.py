"""Up to three neighbours of few points: the kernel that gives a query some lanes of its own."""

import pytest
import torch

from mps_pointops._metal import launch
from mps_pointops._rules import Rule
from mps_pointops.ops.knn import few
from mps_pointops.ops.knn.knn import knn_search
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud, root


@pytest.fixture(params=[1, 4, 32])
def lanes(request, monkeypatch):
    """Lanes of a query, whatever the number of queries."""
    monkeypatch.setattr(few, "lanes_of", lambda rows: request.param)
    return request.param


def _queries(name, ref, rows):
    query = cloud(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) % len(ref)]
    return query


def _search(query, ref, k, *, first=None, last=None, clouds=1, rule=Rule.FMA_XYZ, rooted=False):
    moved = [None if t is None else t.to("mps") for t in (query, ref, first, last)]
    return few.few_nearest(*moved, clouds, k, rooted, int(rule))


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 150])
@pytest.mark.parametrize("name", CLOUDS)
def test_clouds(monkeypatch, name, size):
    monkeypatch.setattr(few, "lanes_of", lambda rows: 4)
    _check(name, size)


@pytest.mark.parametrize("size", [few.TILE - 1, few.TILE, few.TILE + 1])
@pytest.mark.usefixtures("lanes")
def test_tiles(size):
    _check("lattice", size)


def _check(name, size):
    ref = cloud(name, size)
    query = _queries(name, ref, 13)
    for k in (1, 2, 3):
        distance, index = _search(query, ref, k, rooted=k == 2)
        d2, wanted = knn_reference(query, ref, min(k, size), Rule.FMA_XYZ)
        assert_same_bits(index[:, :size], wanted)
        assert_same_bits(distance[:, :size], root(d2) if k == 2 else d2)
        assert (index[:, size:] == -1).all()
        assert torch.isinf(distance[:, size:]).all()


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ])
def test_rules_and_dimensions(rule, dim):
    if rule == Rule.FMA_YXZ and dim != 3:
        pytest.skip("a rule of three coordinates")
    for name in ("random", "lattice", "far_offset"):
        ref = cloud(name, 200, dim)
        query = _queries(name, ref, 40)
        distance, index = _search(query, ref, 3, rule=rule)
        d2, wanted = knn_reference(query, ref, 3, rule)
        assert_same_bits(index, wanted)
        assert_same_bits(distance, d2)


@pytest.mark.usefixtures("lanes")
def test_ranges():
    """Queries of one threadgroup look at different clouds, none, or backwards."""
    ref = cloud("lattice", 1100)
    ends = torch.tensor([0, 3, 3, 40, 900, 1100])
    which = torch.arange(90) * 5 // 90
    first, last = ends[which], ends[which + 1]
    last[50] = first[50] - 1
    query = _queries("lattice", ref, 90)
    distance, index = _search(query, ref, 3, first=first, last=last)
    for row in range(90):
        low, high = int(first[row]), max(int(first[row]), int(last[row]))
        count = min(3, high - low)
        d2, wanted = knn_reference(query[row : row + 1], ref[low:high], count, Rule.FMA_XYZ)
        missing = 3 - count
        assert index[row].tolist() == (wanted[0] + low).tolist() + [-1] * missing
        assert distance[row].tolist() == d2[0].tolist() + [torch.inf] * missing


@pytest.mark.parametrize("rows", [1, 100, 700])
@pytest.mark.usefixtures("lanes")
def test_equal_clouds(rows):
    query, ref = cloud("random", 3 * rows), cloud("random", 3 * 90, seed=1)
    _, index = _search(query, ref, 3, clouds=3)
    for c in range(3):
        q, p = query[c * rows :][:rows], ref[c * 90 :][:90]
        check = slice(0, None, max(1, rows // 50))
        wanted = knn_reference(q[check], p, 3, Rule.FMA_XYZ)[1]
        assert_same_bits(index[c * rows :][:rows][check], wanted)


@pytest.mark.parametrize(
    ("rows", "lanes"), [(1, 32), (2**14, 8), (2**16, 2), (2**17, 1), (10**6, 1)]
)
def test_few_queries_get_many_lanes(rows, lanes):
    assert few.lanes_of(rows) == lanes


def test_who_is_served(monkeypatch):
    served = []
    search = few.few_nearest

    def counted(*arguments):
        served.append(arguments)
        return search(*arguments)

    monkeypatch.setattr(few, "few_nearest", counted)
    for dim, k, rule, wanted in (
        (3, 3, 1, 1),
        (1, 1, 0, 1),
        (3, 4, 1, 0),
        (4, 2, 1, 0),
        (3, 3, 3, 0),
    ):
        points = cloud("random", 50, dim).to("mps")
        knn_search(points, points, None, None, 1, k, False, rule)
        assert len(served) == wanted
        served.clear()
    assert few.suits(1, 1024, 3, 3)
    assert not few.suits(2000, 2001, 3, 3)
    assert few.suits(5000, 5000, 3, 3)
    assert not few.suits(10**6, few.FEW_POINTS + 1, 3, 3)


def test_long_work_is_cut_into_dispatches(monkeypatch):
    launches = []
    monkeypatch.setattr(few, "STEPS_PER_DISPATCH", 512 * 100 * 3)

    def counted(*arguments, **grid):
        launches.append(grid)
        launch(*arguments, **grid)

    monkeypatch.setattr(few, "launch", counted)
    query, ref = cloud("random", 1100), cloud("lattice", 100)
    _, index = _search(query, ref, 3)
    assert len(launches) == 3
    assert_same_bits(index[::37], knn_reference(query[::37], ref, 3, Rule.FMA_XYZ)[1])
