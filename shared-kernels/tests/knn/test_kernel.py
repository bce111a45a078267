"""Both devices against the reference, bit for bit."""

import pytest
import torch

import mps_pointops
import mps_pointops.ops.knn.brute as kernels
from mps_pointops._metal import dispatch, launch
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud, root


def _queries(name, ref, rows=12):
    query = cloud(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) % len(ref)]
    return query


def _check(device, query, ref, k, rule="separate"):
    distance, index = mps_pointops.knn(query[None].to(device), ref[None].to(device), k, rule=rule)
    d2, wanted = knn_reference(query, ref, k, Rule[rule.upper()])
    assert_same_bits(index[0], wanted)
    assert_same_bits(distance[0], root(d2))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLOUDS)
def test_sizes(device, name, size):
    ref = cloud(name, size)
    _check(device, _queries(name, ref), ref, min(size, 20))


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
def test_rules(device, name, rule):
    ref = cloud(name, 300)
    _check(device, _queries(name, ref), ref, 33, rule)


@pytest.mark.parametrize("k", [0, 1, 31, 32, 33, 64, 65, 128, 255, 256, 257, 400, 512])
@pytest.mark.parametrize("name", ["random", "lattice"])
def test_k(device, name, k):
    ref = cloud(name, 600)
    _check(device, _queries(name, ref, rows=4), ref, k)


@pytest.mark.parametrize("name", CLOUDS)
def test_k_beyond_what_one_pass_keeps(device, name):
    ref = cloud(name, 1100)
    _check(device, _queries(name, ref, rows=4), ref, 1100)


@pytest.mark.parametrize("dim", [1, 2, 4, 5, 17, 64, 128])
@pytest.mark.parametrize("rule", ["separate", "fma_xyz"])
def test_dimensions(device, dim, rule):
    ref = cloud("lattice" if dim < 5 else "random", 200, dim)
    _check(device, _queries("random", ref), ref, 40, rule)


def test_dimension_with_points_that_are_not_finite(device):
    ref = cloud("not_finite", 200, 5)
    _check(device, _queries("not_finite", ref), ref, 200)


def test_sorted_input(device):
    """Storage order does not change the answer, and the visiting order covers every block."""
    ref = cloud("random", 2500)
    ref = ref[ref[:, 0].argsort()]
    _check(device, _queries("random", ref), ref, 50)


def test_batches_and_many_queries(device):
    query = torch.stack([cloud(name, 45, seed=1) for name in CLOUDS])
    ref = torch.stack([cloud(name, 130) for name in CLOUDS])
    distance, index = mps_pointops.knn(query.to(device), ref.to(device), 9)
    for b in range(len(CLOUDS)):
        d2, wanted = knn_reference(query[b], ref[b], 9)
        assert_same_bits(index[b], wanted)
        assert_same_bits(distance[b], root(d2))


def test_views_and_half(device):
    base = cloud("random", 400)
    moved = base.to(device)
    query, ref = moved[:20].t().contiguous().t()[None], moved.view(200, 2, 3)[:, 1][None]
    d2, wanted = knn_reference(base[:20], base.view(200, 2, 3)[:, 1].contiguous(), 10)
    distance, index = mps_pointops.knn(query, ref, 10)
    assert_same_bits(index[0], wanted)
    assert_same_bits(distance[0], root(d2))
    expanded = moved[None, 50:90].expand(3, 40, 3)
    _, index = mps_pointops.knn(expanded, expanded, 5)
    assert_same_bits(index[2], knn_reference(base[50:90], base[50:90], 5)[1])
    for dtype in (torch.float16, torch.bfloat16):
        low = base.to(dtype)
        distance, index = mps_pointops.knn(low[None, :9].to(device), low[None].to(device), 6)
        d2, wanted = knn_reference(low[:9].float(), low.float(), 6)
        assert_same_bits(index[0], wanted)
        assert_same_bits(distance[0], root(d2))


def test_far_from_the_origin_a_point_is_its_own_neighbour(device):
    points = (cloud("random", 1000) * 0.5 + 1000).to(device)
    distance, index = mps_pointops.knn(points[None], points[None], 1)
    same = (points[index[0, :, 0]] == points).all(dim=1)
    assert same.all()
    assert (distance == 0).all()


def test_long_work_is_cut_into_dispatches(monkeypatch):
    launches = []
    monkeypatch.setattr(dispatch, "STEPS_PER_DISPATCH", 16 * 100 * 3)

    def counted(*arguments, **grid):
        launches.append(grid)
        launch(*arguments, **grid)

    monkeypatch.setattr(kernels, "launch", counted)
    ref = cloud("lattice", 100)
    _check("mps", cloud("random", 50), ref, 7)
    assert len(launches) == 4
