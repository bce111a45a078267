"""Both devices against the reference, bit for bit."""

import pytest
import torch

import mps_pointops
import mps_pointops.ops.ball_query.mps as kernels
from mps_pointops._metal import dispatch, launch
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud

RADIUS = {"near_origin": 0.03, "tiny": 2.0**-63, "huge": 2.0**63}


def _queries(name, ref, rows=12):
    query = cloud(name, rows, ref.shape[1], seed=1)
    query[: rows // 2] = ref[torch.arange(rows // 2) % len(ref)]
    return query


def _check(device, query, ref, radius, K, rule="fma_xyz"):
    got = mps_pointops.ball_query(
        query[None].to(device), ref[None].to(device), radius, K, rule=rule
    )
    wanted = ball_query_reference(query, ref, radius, K, Rule[rule.upper()])
    assert_same_bits(got[1][0], wanted[1])
    assert_same_bits(got[0][0], wanted[0])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLOUDS)
def test_sizes(device, name, size):
    ref = cloud(name, size)
    _check(device, _queries(name, ref), ref, RADIUS.get(name, 1.0), 20)


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
def test_rules(device, name, rule):
    ref = cloud(name, 300)
    _check(device, _queries(name, ref), ref, RADIUS.get(name, 1.25), 33, rule)


@pytest.mark.parametrize("K", [0, 1, 31, 32, 33, 64, 65, 299, 300, 301, 1000])
def test_slots(device, K):
    ref = cloud("lattice", 300)
    _check(device, _queries("lattice", ref), ref, 2.0, K)


@pytest.mark.parametrize("dim", [1, 2, 4, 5, 17, 64])
def test_dimensions(device, dim):
    ref = cloud("lattice" if dim < 5 else "random", 200, dim)
    _check(device, _queries("random", ref), ref, dim**0.5, 40)


@pytest.mark.parametrize("exponent", [-90, -64, -63, -62, -50, -49, 61, 62, 63, 64, 100])
def test_scaling_by_a_power_of_two_changes_no_hit(device, exponent):
    points = cloud("random", 100)
    _, wanted = ball_query_reference(points, points, 0.75, 20)
    scaled = (points * 2.0**exponent).to(device)[None]
    _, index = mps_pointops.ball_query(scaled, scaled, 0.75 * 2.0**exponent, 20)
    assert_same_bits(index[0], wanted)


@pytest.mark.parametrize("exponent", [-127, -126, -125, -124, -120, -117, -112])
def test_radii_around_the_smallest_normal_number(device, exponent):
    ref = torch.rand(150, 3, generator=torch.Generator().manual_seed(0)) * 2.0**exponent
    ref[0] = 1.9 * 2.0**-127
    _check(device, torch.cat((torch.zeros(1, 3), ref[:20])), ref, 0.5 * 2.0**exponent, 40)
    _check(device, torch.zeros(1, 3), ref, 2.0**-126, 40)


def test_boundary_is_strict(device):
    """A point at exactly the squared threshold is outside, one float below inside."""
    limit = torch.tensor(0.4) * torch.tensor(0.4)
    y = (limit.double() - 0.375**2).sqrt().float()
    candidates = y + torch.arange(-8, 9) * 2.0**-27
    d2 = torch.tensor([0.375**2 + float(c) ** 2 for c in candidates], dtype=torch.float64).float()
    at = candidates[(d2 == limit).nonzero()[0, 0]]
    below = candidates[(d2 < limit).nonzero()[-1, 0]]
    ref = torch.tensor([[0.375, at, 0.0], [0.375, below, 0.0]])
    _, index = mps_pointops.ball_query(
        torch.zeros(1, 1, 3, device=device), ref[None].to(device), 0.4, 2
    )
    assert index.tolist() == [[[1, -1]]]


def test_batches(device):
    query = torch.stack([cloud(name, 45, seed=1) for name in CLOUDS])
    ref = torch.stack([cloud(name, 130) for name in CLOUDS])
    distance, index = mps_pointops.ball_query(query.to(device), ref.to(device), 1.5, 9)
    for b in range(len(CLOUDS)):
        wanted = ball_query_reference(query[b], ref[b], 1.5, 9)
        assert_same_bits(index[b], wanted[1])
        assert_same_bits(distance[b], wanted[0])


def test_views_and_half(device):
    base = cloud("random", 400)
    moved = base.to(device)
    query, ref = moved[:20].t().contiguous().t()[None], moved.view(200, 2, 3)[:, 1][None]
    wanted = ball_query_reference(base[:20], base.view(200, 2, 3)[:, 1].contiguous(), 0.8, 10)
    got = mps_pointops.ball_query(query, ref, 0.8, 10)
    assert_same_bits(got[1][0], wanted[1])
    assert_same_bits(got[0][0], wanted[0])
    expanded = moved[None, 50:90].expand(3, 40, 3)
    _, index = mps_pointops.ball_query(expanded, expanded, 0.9, 5)
    assert_same_bits(index[2], ball_query_reference(base[50:90], base[50:90], 0.9, 5)[1])
    for dtype in (torch.float16, torch.bfloat16):
        low = base.to(dtype)
        got = mps_pointops.ball_query(low[None, :9].to(device), low[None].to(device), 0.7, 6)
        wanted = ball_query_reference(low[:9].float(), low.float(), 0.7, 6)
        assert_same_bits(got[1][0], wanted[1])
        assert_same_bits(got[0][0], wanted[0])


def test_long_work_is_cut_into_dispatches(monkeypatch):
    launches = []
    monkeypatch.setattr(dispatch, "STEPS_PER_DISPATCH", 16 * 100 * 3)

    def counted(*arguments, **grid):
        launches.append(grid)
        launch(*arguments, **grid)

    monkeypatch.setattr(kernels, "launch", counted)
    _check("mps", cloud("random", 50), cloud("lattice", 100), 1.0, 7)
    assert len(launches) == 4
