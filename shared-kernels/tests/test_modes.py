"""The kernels in every way a GPU may run them: safe and fast math, other orders of threads.

An order of threads is legal if no barrier forbids it, so a kernel that lacks one gives a wrong
answer under some seed. On a Mac the math mode belongs to the process and the order to the GPU;
there the whole test-suite runs once per mode instead.
"""

import pytest
import torch

import mps_emulator
import mps_pointops
from mps_pointops import flat
from mps_pointops._metal import compile as compiling
from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.ball_query import mps as ball_query_mps
from mps_pointops.ops.ball_query import walk as ball_query_walk
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.fps.reference import furthest_point_sample_reference
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud, root

pytestmark = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real GPU cannot be told how to run"
)

RADIUS = {"near_origin": 0.03, "tiny": 2.0**-63, "huge": 2.0**63}


@pytest.fixture(params=[(False, 310), (True, 310), (True, 320)], ids=["safe", "fast", "fast-3.2"])
def math_mode(request, monkeypatch):
    from mps_emulator.shader import options

    fast, version = request.param
    monkeypatch.setattr(options, "fast_math", fast)
    monkeypatch.setattr(options, "metal_version", version)
    for source in compiling._sources:
        monkeypatch.setattr(source, "_kernels", {})


@pytest.fixture(params=[1, 2, 3])
def seed(request, monkeypatch):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "seed", request.param)


def _check_fps(name, size, rule, ties):
    points = cloud(name, size)
    got = mps_pointops.furthest_point_sample(points[None].to("mps"), 20, rule=rule, ties=ties)
    wanted = furthest_point_sample_reference(
        points, 20, rule=Rule[rule.upper()], ties=Ties[ties.upper()]
    )
    assert_same_bits(got[0], wanted)


def _check_knn(name, size, k, rule):
    query, ref = cloud(name, 9, seed=1), cloud(name, size)
    query[:4] = ref[:4]
    distance, index = mps_pointops.knn(query[None].to("mps"), ref[None].to("mps"), k, rule=rule)
    d2, wanted = knn_reference(query, ref, k, Rule[rule.upper()])
    assert_same_bits(index[0], wanted)
    assert_same_bits(distance[0], root(d2))


def _check_ball_query(name, size, rule):
    query, ref = cloud(name, 9, seed=1), cloud(name, size)
    query[:4] = ref[:4]
    radius = RADIUS.get(name, 1.0)
    got = mps_pointops.ball_query(query[None].to("mps"), ref[None].to("mps"), radius, 20, rule=rule)
    wanted = ball_query_reference(query, ref, radius, 20, Rule[rule.upper()])
    assert_same_bits(got[1][0], wanted[1])
    assert_same_bits(got[0][0], wanted[0])


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.usefixtures("math_mode")
def test_math_modes(name, rule):
    _check_fps(name, 300, rule, "lowest_index")
    _check_knn(name, 200, 40, rule)
    _check_ball_query(name, 200, rule)


@pytest.mark.parametrize("dim", [1, 5, 64])
@pytest.mark.parametrize("rule", ["separate", "fma_xyz"])
@pytest.mark.usefixtures("math_mode")
def test_math_modes_of_any_dimension(dim, rule):
    query, ref = cloud("random", 9, dim), cloud("random", 120, dim, seed=1)
    edges = flat.knn(ref.to("mps"), query.to("mps"), 20, rule=rule)
    _, wanted = knn_reference(query, ref, 20, Rule[rule.upper()])
    assert_same_bits(edges[1].view(9, 20), wanted)


@pytest.mark.parametrize("size", [1, 31, 33, 1023, 1025])
@pytest.mark.parametrize("name", ["random", "lattice", "not_finite"])
@pytest.mark.usefixtures("seed")
def test_orders_of_threads(name, size):
    for ties in ("lowest_index", "bit_reversed"):
        _check_fps(name, size, "fma_yxz", ties)
    _check_knn(name, size, min(size, 40), "separate")
    _check_ball_query(name, size, "fma_xyz")


@pytest.mark.usefixtures("seed")
def test_orders_of_threads_in_ragged_clouds():
    sizes = torch.tensor([40, 0, 1, 300, 65])
    x = torch.cat([cloud("lattice", int(n), seed=i) for i, n in enumerate(sizes) if n])
    batch = torch.repeat_interleave(torch.arange(5), sizes)
    moved, b = x.to("mps"), batch.to("mps")
    assert torch.equal(
        flat.fps(moved, b, 0.3, random_start=False).cpu(), flat.fps(x, batch, 0.3, False)
    )
    assert torch.equal(flat.knn(moved, moved, 9, b, b).cpu(), flat.knn(x, x, 9, batch, batch))
    assert torch.equal(
        flat.radius(moved, moved, 0.6, b, b, 7).cpu(), flat.radius(x, x, 0.6, batch, batch, 7)
    )


def _force_trees(monkeypatch):
    for name in ("BALL_TREE_POINTS", "BALL_TREE_PAIRS"):
        monkeypatch.setattr(ball_query_mps, name, 0)
    for name, value in (("PROBE", 32), ("REACH", 0), ("WHOLE", 0)):
        monkeypatch.setattr(ball_query_walk, f"BALL_{name}", value)


@pytest.mark.parametrize("name", ["lattice", "far_offset", "not_finite", "tiny", "huge"])
@pytest.mark.usefixtures("math_mode")
def test_math_modes_of_balls_in_trees_and_of_few_points(monkeypatch, name):
    _force_trees(monkeypatch)
    _check_ball_query(name, 200, "fma_xyz")
    _check_knn(name, 200, 3, "fma_yxz")


@pytest.mark.parametrize("size", [33, 1025])
@pytest.mark.usefixtures("seed")
def test_orders_of_threads_of_balls_in_trees_and_of_few_points(monkeypatch, size):
    _force_trees(monkeypatch)
    _check_ball_query("lattice", size, "fma_xyz")
    _check_knn("lattice", size, 3, "fma_yxz")
