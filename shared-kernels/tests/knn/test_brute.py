"""The kernels that look at every pair, in every way to share the work, bit for bit."""

import pytest
import torch

import mps_pointops.ops.knn.brute as brute
from mps_pointops._metal import choices
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud, root

pytestmark = pytest.mark.filterwarnings("error")
BLOCK = 128  # points of a step of knn.metal
TILE = 256  # points of a tile of features.metal, and 32 queries


def _queries(name, ref, rows):
    query = cloud(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) % len(ref)]
    return query


def _wanted(query, ref, k, rule):
    d, index = knn_reference(query, ref, k, rule)
    return (d if rule is Rule.COSINE else root(d)), index


def _check(query, ref, k, rule=Rule.SEPARATE):
    arguments = (None, None, 1, k, True, rule)
    distance, index = brute.brute_knn(query.to("mps"), ref.to("mps"), *arguments)
    wanted = _wanted(query, ref, k, rule)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])


def _plan(monkeypatch, threads, queries, parts=1, sample=1):
    """Fix how the work is shared, as far as k allows."""

    def plan(rows, size, most, dim, width):
        bits = brute._segment_bits(width)
        most = threads * brute._PAIRS_PER_THREAD >> max(bits, threads.bit_length() - 1)
        return brute._Plan(threads, min(queries, most), bits, parts, sample)

    monkeypatch.setattr(brute, "_plan", plan)
    monkeypatch.setattr(choices, "KNN_SAMPLED", 0)


def _parts_of_features(monkeypatch, parts):
    plan = brute._Plan(256, 32, parts=parts)
    monkeypatch.setattr(brute, "_plan_high", lambda *sizes: plan)


@pytest.mark.parametrize("size", [BLOCK - 1, BLOCK, BLOCK + 1, 8 * BLOCK + 1])
@pytest.mark.parametrize("threads", [64, 256])
def test_blocks(monkeypatch, threads, size):
    _plan(monkeypatch, threads, 8)
    for name in ("random", "lattice"):
        ref = cloud(name, size)
        for k in (1, 20, 32):
            _check(_queries(name, ref, 9), ref, k)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("threads", [64, 256])
def test_clouds(monkeypatch, threads, name):
    """One threshold of all points, one of few, and the points shared by threadgroups."""
    ref = cloud(name, 700)
    for queries, parts, sample in ((8, 1, 1), (2, 1, 2), (8, 3, 1), (1, 5, 8)):
        _plan(monkeypatch, threads, queries, parts, sample)
        _check(_queries(name, ref, 9), ref, 20)


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_all_neighbours_of_points_that_are_not_finite(dim):
    ref = cloud("not_finite", 200, dim)
    _check(_queries("not_finite", ref, 9), ref, 200)
    _check(_queries("huge", cloud("huge", 200, dim), 9), cloud("huge", 200, dim), 200)


@pytest.mark.parametrize("k", [33, 65, 128, 129, 256, 257, 513, 1024, 1025])
@pytest.mark.parametrize("parts", [1, 2])
def test_segments(monkeypatch, k, parts):
    """Every length of a segment, sorted within a simdgroup or by several; two passes at last."""
    _plan(monkeypatch, 256, 8, parts)
    for name in ("random", "not_finite") if parts == 1 else ("lattice",):
        ref = cloud(name, 1400)
        _check(_queries(name, ref, 3), ref, k)


@pytest.mark.parametrize("threads", [64, 256])
def test_full_segments(monkeypatch, threads):
    """Points that come nearer and nearer, behind a sample of far ones: all of them are gathered."""
    line = torch.arange(900.0, 0.0, -1.0)
    ref = torch.stack((line, torch.zeros(900), torch.zeros(900)), dim=1)
    _plan(monkeypatch, threads, 4, 1, 8)
    _check(torch.zeros(5, 3), ref, 32)
    _check(ref[450:455] + 0.5, ref, 32)
    _check(torch.zeros(2, 3), torch.ones(900, 3), 30)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.COSINE])
def test_one_and_two_coordinates(dim, rule):
    for name in ("random", "lattice", "not_finite"):
        ref = cloud(name, 300, dim)
        _check(_queries(name, ref, 9), ref, 40, rule)


@pytest.mark.parametrize("dim", [4, 5, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.COSINE])
def test_features(dim, rule):
    for name, k in (("random", 20), ("duplicates", 33)):
        ref = cloud(name, TILE + 14, dim)
        _check(_queries(name, ref, 5), ref, k, rule)


@pytest.mark.parametrize("size", [TILE - 1, TILE, TILE + 1, 3 * TILE + 1])
@pytest.mark.parametrize("rows", [1, 31, 32, 33])
def test_tiles(size, rows):
    ref = cloud("random", size, 6)
    _check(_queries("random", ref, rows), ref, 9)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("parts", [1, 3])
def test_features_of_clouds(monkeypatch, name, parts):
    _parts_of_features(monkeypatch, parts)
    ref = cloud(name, 600, 5)
    for rule in (Rule.SEPARATE, Rule.COSINE):
        _check(_queries(name, ref, 9), ref, 20, rule)
        _check(_queries(name, ref, 9), ref, 70, rule)


@pytest.mark.parametrize("k", [1, 32, 33, 64, 65, 257, 513, 1025])
def test_features_k(k):
    for name in ("random", "lattice", "not_finite"):
        ref = cloud(name, 1100, 4)
        _check(_queries(name, ref, 3), ref, k)


def test_features_that_come_nearer():
    ref = torch.arange(1500.0, 0.0, -1.0)[:, None].expand(-1, 4).contiguous()
    for k in (20, 40):
        _check(torch.zeros(3, 4), ref, k)


def _ragged(dim, rule, k):
    """Rows of one threadgroup in clouds of their own, also empty ones and parts of others."""
    ref = cloud("lattice", 400, dim)
    first = torch.tensor([0] * 5 + [60] * 3 + [7] * 2 + [400] + [0] * 2)
    last = torch.tensor([60] * 3 + [395] * 5 + [20] * 2 + [400] + [400] * 2)
    query = _queries("random", ref, len(first))
    distance, index = brute.brute_knn(
        query.to("mps"), ref.to("mps"), first.to("mps"), last.to("mps"), 1, k, True, rule
    )
    for row, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        d, i = _wanted(query[row : row + 1], ref[low:high], k, rule)
        assert_same_bits(distance[row], d[0])
        assert_same_bits(index[row], torch.where(i[0] >= 0, i[0] + low, -1))


@pytest.mark.parametrize("parts", [1, 3])
def test_ranges(monkeypatch, parts):
    _plan(monkeypatch, 256, 8, parts)
    _parts_of_features(monkeypatch, parts)
    _ragged(3, Rule.SEPARATE, 33)
    _ragged(7, Rule.FMA_XYZ, 20)
    _ragged(7, Rule.COSINE, 90)


def test_equal_clouds_within_a_threadgroup(monkeypatch):
    for dim in (3, 5):
        ref = torch.stack([cloud(name, 140, dim) for name in CLOUDS])
        query = torch.stack([cloud(name, 3, dim, seed=1) for name in CLOUDS])
        _plan(monkeypatch, 256, 8, 2)
        distance, index = brute.brute_knn(
            query.view(-1, dim).to("mps"),
            ref.view(-1, dim).to("mps"),
            None,
            None,
            len(CLOUDS),
            25,
            True,
            Rule.SEPARATE,
        )
        for b in range(len(CLOUDS)):
            d, i = _wanted(query[b], ref[b], 25, Rule.SEPARATE)
            assert_same_bits(distance[3 * b : 3 * b + 3], d)
            assert_same_bits(index[3 * b : 3 * b + 3], i)


@pytest.mark.parametrize("dim", [3, 5])
def test_a_threadgroup_does_not_work_for_long(monkeypatch, dim):
    steps = (2 if dim == 3 else 32) * 300 * dim
    monkeypatch.setattr(brute, "STEPS_PER_THREADGROUP", steps)
    grids = []
    launch = brute.launch

    def counted(*arguments, **grid):
        grids.append(grid)
        launch(*arguments, **grid)

    monkeypatch.setattr(brute, "launch", counted)
    ref = cloud("random", 1000, dim)
    _check(_queries("random", ref, 9), ref, 20)
    assert len(grids) == 2
    assert grids[0]["groups"] >= 4


def test_plans_fit_the_memory_of_a_threadgroup():
    for rows in (1, 7, 8, 300, 2048, 10**6):
        for size in (1, 500, 10**5, 10**7):
            for width in (1, 32, 33, 64, 128, 129, 500, 512, 513, 1024):
                plan = brute._plan(rows, size, size, 3, width)
                segment = 1 << plan.segment_bits
                pairs = plan.threads * brute._PAIRS_PER_THREAD
                assert 2 * width <= segment <= pairs
                assert plan.queries * max(segment, plan.threads) <= pairs
                assert 1 <= plan.queries <= 8
                assert plan.parts >= 1


def test_small_threadgroups_are_chosen(monkeypatch):
    monkeypatch.setattr(choices, "KNN_SMALL_GROUPS", 2)
    assert brute._plan(16, 300, 300, 3, 20).threads == 64
    assert brute._plan(16, 300, 300, 3, 33).threads == 256
    size = choices.KNN_SMALL_SIZE + 1
    assert brute._plan(16, size, size, 3, 20).threads == 256
