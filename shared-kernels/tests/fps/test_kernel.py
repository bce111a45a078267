"""Both devices against the reference, bit for bit."""

import pytest
import torch

import mps_pointops
from mps_pointops import flat
from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.reference import furthest_point_sample_reference as reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud

RULES = ("separate", "fma_xyz", "fma_yxz")


def _sample(points, *arguments, **options):
    return mps_pointops.furthest_point_sample(points, *arguments, **options).cpu()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLOUDS)
def test_sizes(device, name, size):
    points = cloud(name, size)
    count = min(size + 2, 40)
    got = _sample(points[None].to(device), count)
    assert_same_bits(got[0], reference(points, count))


@pytest.mark.parametrize("ties", ["lowest_index", "bit_reversed"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", CLOUDS)
def test_rules_and_ties(device, name, rule, ties):
    points = cloud(name, 700)
    got = _sample(points[None].to(device), 30, rule=rule, ties=ties)
    wanted = reference(points, 30, rule=Rule[rule.upper()], ties=Ties[ties.upper()])
    assert_same_bits(got[0], wanted)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["near_origin", "random", "all_equal", "not_finite"])
def test_near_origin_skip(device, name, rule):
    points = cloud(name, 300)
    got = _sample(points[None].to(device), 50, start_idx=3, skip_near_origin=True, rule=rule)
    wanted = reference(points, 50, 3, True, Rule[rule.upper()])
    assert_same_bits(got[0], wanted)


def test_origin_limit_is_compared_in_double(device):
    """x*x is float32(1e-3), above the double 1e-3: kept; the float below is skipped."""
    limit = torch.tensor(0.001)
    below = torch.nextafter(limit, torch.tensor(0.0))
    x = 2.0**-5  # x*x is exact and leaves y small, so that y*y is fine enough to hit both
    points = torch.zeros(4, 3)
    points[0, 0] = 1.0
    for row, square in ((1, limit), (2, below)):
        y = (square - x * x).sqrt() + torch.arange(-64, 65) * 2.0**-31
        points[row, 0] = x
        points[row, 1] = y[(x * x + y * y == square).nonzero()[0, 0]]
    got = _sample(points[None].to(device), 4, skip_near_origin=True)
    assert got.tolist() == [[0, 1, 0, 0]]


def test_batches(device):
    clouds = torch.stack([cloud(name, 257) for name in CLOUDS])
    got = _sample(clouds.to(device), 20, start_idx=11)
    for b in range(len(CLOUDS)):
        assert_same_bits(got[b], reference(clouds[b], 20, 11))


def test_every_point_once_then_the_first(device):
    points = cloud("random", 100)
    got = _sample(points[None].to(device), 130)[0]
    assert got[:100].sort().values.tolist() == list(range(100))
    assert (got[100:] == 0).all()


def test_views_and_half(device):
    base = cloud("random", 400).to(device)
    strided = base.view(200, 2, 3)[:, 0][None]
    assert_same_bits(_sample(strided, 20)[0], reference(strided[0].cpu().contiguous(), 20))
    transposed = base[:99].t().contiguous().t()[None]
    assert_same_bits(_sample(transposed, 20)[0], reference(base[:99].cpu(), 20))
    expanded = base[None, 10:60].expand(3, 50, 3)
    assert_same_bits(_sample(expanded, 7)[2], reference(base[10:60].cpu(), 7))
    for dtype in (torch.float16, torch.bfloat16):
        low = base.to(dtype)
        assert_same_bits(_sample(low[None], 20)[0], reference(low.cpu().float(), 20))


@pytest.mark.parametrize(("size", "dim"), [(33, 3), (1500, 65)])
@pytest.mark.parametrize("first", [1, 3])
def test_clouds_in_the_middle_of_a_storage(device, size, dim, first):
    """A slice of a batch begins at any float, whatever vectors the kernels read."""
    points = cloud("random", size, dim)
    base = torch.cat((torch.zeros(first), points.flatten()))
    view = base.to(device)[first:].view(size, dim)
    assert view.is_contiguous()
    got = flat.fps(view, ratio=20 / size, random_start=False)
    assert_same_bits(got.cpu(), reference(points, len(got)))


def test_a_start_that_is_not_finite(device):
    points = cloud("random", 40)
    points[4, 1] = torch.nan
    points[9, 0] = torch.inf
    for start in (4, 9):
        got = _sample(points[None].to(device), 50, start_idx=start)
        assert_same_bits(got[0], reference(points, 50, start))


def test_nothing_to_pick_from(device):
    points = torch.full((1, 5, 3), torch.nan, device=device)
    assert _sample(points, 3, start_idx=2).tolist() == [[2, 0, 0]]
