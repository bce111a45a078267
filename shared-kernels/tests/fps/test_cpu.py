"""CPU tensors: rounds and steps side by side against the reference, on clouds made against them."""

import numpy as np
import pytest
import torch

import mps_pointops.ops.fps.cpu as kernels
import mps_pointops.ops.fps.cpu_distance as distances
from mps_pointops import furthest_point_sample
from mps_pointops._arithmetic import fma, squared_distance
from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.cpu_distance import Distance, Nearest, Workspace
from mps_pointops.ops.fps.cpu_rounds import morton_order
from mps_pointops.ops.fps.reference import furthest_point_sample_reference as reference
from pointops_testing import CLOUDS, SIZES, assert_same_bits, cloud

RULES = ("separate", "fma_xyz", "fma_yxz")


def _line(n, rng):
    return torch.rand(n, 1, generator=rng) * torch.tensor([1.0, 2.0, 0.0])


def _cluster(n, rng):
    points = torch.randn(n, 3, generator=rng)
    points[: n * 9 // 10] = points[: n * 9 // 10] * 1e-4 + 0.5
    return points[torch.randperm(n, generator=rng)]


def _outlier(n, rng):
    points = torch.rand(n, 3, generator=rng)
    points[n // 2] = 1e6
    return points


def _lattice(n, rng, scale=1.0):
    side = round(n ** (1 / 3)) + 1
    number = torch.randperm(side**3, generator=rng)[:n]
    digits = (number % side, number // side % side, number // side**2)
    return torch.stack(digits, dim=1).float() * scale


ADVERSARIES = {
    "lattice": _lattice,
    "scaled_lattice": lambda n, rng: _lattice(n, rng, 0.1),
    "few_places": lambda n, rng: torch.randn(40, 3, generator=rng)[
        torch.randint(40, (n,), generator=rng)
    ],
    "all_equal": lambda n, rng: torch.full((n, 3), 0.3),
    "line": _line,
    "outlier": _outlier,
    "cluster": _cluster,
    "offset": lambda n, rng: torch.rand(n, 3, generator=rng) + 1000,
    "sorted": lambda n, rng: torch.rand(n, 3, generator=rng).sort(dim=0).values,
    "dust": lambda n, rng: torch.randn(n, 3, generator=rng) * 2.0**-62,
    "overflow": lambda n, rng: torch.randn(n, 3, generator=rng) * 1e19,
    "holes": lambda n, rng: torch.where(
        torch.rand(n, 3, generator=rng) < 0.1, torch.nan, torch.rand(n, 3, generator=rng)
    ),
}


def _make(name, size):
    return ADVERSARIES[name](size, torch.Generator().manual_seed(size))


@pytest.fixture
def rounds(monkeypatch):
    """Rounds even for the smallest cloud; counts the clouds that are sampled so."""
    calls = []
    sample = kernels.sample_in_rounds

    def counted(*arguments):
        calls.append(len(arguments[0]))
        return sample(*arguments)

    monkeypatch.setattr(kernels, "_POINTS", 1)
    monkeypatch.setattr(kernels, "_PICKS", 1)
    monkeypatch.setattr(kernels, "sample_in_rounds", counted)
    return calls


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", CLOUDS)
def test_rounds_at_all_sizes(rounds, name, size):
    points = cloud(name, size)
    count = min(size + 2, 40)
    got = furthest_point_sample(points[None], count, size // 2)
    assert_same_bits(got[0], reference(points, count, size // 2))
    assert len(rounds) == int(count > 1 and bool(torch.isfinite(points).all(dim=1).any()))


@pytest.mark.parametrize("ties", ["lowest_index", "bit_reversed"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_rounds_on_adversaries(rounds, name, rule, ties):
    points = _make(name, 3000)
    for skip, start in ((False, 0), (True, 2999)):
        got = furthest_point_sample(points[None], 60, start, skip, rule=rule, ties=ties)
        wanted = reference(points, 60, start, skip, Rule[rule.upper()], Ties[ties.upper()])
        assert_same_bits(got[0], wanted)
    assert rounds


@pytest.mark.parametrize("name", ["lattice", "few_places", "offset", "line", "holes"])
def test_rounds_until_every_point_is_taken(rounds, name):
    points = _make(name, 700)
    got = furthest_point_sample(points[None], 720, 3, ties="bit_reversed")
    assert_same_bits(got[0], reference(points, 720, 3, ties=Ties.BIT_REVERSED))


@pytest.mark.parametrize("start", [4, 9])
def test_rounds_from_a_start_that_is_not_finite(rounds, start):
    points = _make("lattice", 500)
    points[4, 1], points[9, 0] = torch.nan, torch.inf
    assert_same_bits(
        furthest_point_sample(points[None], 50, start)[0], reference(points, 50, start)
    )


@pytest.mark.parametrize("dim", [1, 2, 5, 8])
def test_rounds_in_other_dimensions(rounds, dim):
    for name in ("random", "lattice"):
        points = cloud(name, 2500, dim)
        arguments = (None, None, None, 1, 50, 2500, 50, 7, False)
        for rule in (Rule.SEPARATE, Rule.FMA_XYZ):
            got = torch.ops.mps_pointops.fps(points, *arguments, int(rule), 0)
            assert_same_bits(got, reference(points, 50, 7, rule=rule))
        wide = points.double() * (1 + 2.0**-30)
        got = torch.ops.mps_pointops.fps(wide, *arguments, 0, 0)
        assert_same_bits(got, reference(wide, 50, 7))


@pytest.mark.parametrize("dim", [1, 4, 9, 20])
@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ])
def test_steps_in_other_dimensions(rule, dim):
    points = cloud("random", 300, dim)
    arguments = (None, None, None, 3, 60, 100, 20, 7, False, int(rule), 0)
    got = torch.ops.mps_pointops.fps(points, *arguments).view(3, 20)
    for b in range(3):
        assert_same_bits(got[b], reference(points[b * 100 : b * 100 + 100], 20, 7, rule=rule))


@pytest.mark.parametrize(("few", "brief"), [(0, 0), (0, 2**16), (2**13, 2**16)])
@pytest.mark.parametrize("rule", ["fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_steps_on_adversaries(monkeypatch, name, rule, few, brief):
    """With and without a choice of the points whose fused distance may count."""
    monkeypatch.setattr(distances, "_FEW", few)
    monkeypatch.setattr(distances, "_BRIEF", brief)
    points = _make(name, 600)
    got = furthest_point_sample(points.view(3, 200, 3), 30, 5, rule=rule)
    for b in range(3):
        cut = points[b * 200 : b * 200 + 200]
        assert_same_bits(got[b], reference(cut, 30, 5, rule=Rule[rule.upper()]))


@pytest.mark.parametrize("ties", list(Ties))
def test_clouds_of_all_sizes_in_one_call(monkeypatch, ties):
    """Large, small, empty and broken clouds, unequal numbers of picks."""
    monkeypatch.setattr(kernels, "_POINTS", 1000)
    monkeypatch.setattr(kernels, "_PICKS", 64)
    rng = torch.Generator().manual_seed(0)
    sizes = [1300, 0, 1, 700, 33, 150, 2, 1200, 64, 64, 31, 0, 900, 17, 40]
    picks = [70, 0, 3, 70, 0, 150, 1, 65, 64, 2, 31, 0, 5, 20, 6]
    clouds = [_make(list(ADVERSARIES)[i % len(ADVERSARIES)], n) for i, n in enumerate(sizes)]
    clouds[13][:] = torch.nan
    starts = [int(torch.randint(max(n, 1), (1,), generator=rng)) for n in sizes]
    clouds[3][starts[3], 1] = torch.inf
    ptr, out_ptr = (torch.tensor([0, *np.cumsum(part).tolist()]) for part in (sizes, picks))
    for rule in (Rule.SEPARATE, Rule.FMA_YXZ):
        got = torch.ops.mps_pointops.fps(
            torch.cat(clouds),
            ptr,
            out_ptr,
            torch.tensor(starts),
            len(sizes),
            sum(picks),
            max(sizes),
            max(picks),
            0,
            True,
            int(rule),
            int(ties),
        )
        for b, points in enumerate(clouds):
            if picks[b]:
                wanted = reference(points, picks[b], starts[b], True, rule, ties) + ptr[b]
                assert_same_bits(got[out_ptr[b] : out_ptr[b + 1]], wanted)


def _distances(points, centres, rule):
    distance = Distance(rule, points.numpy(), centres.numpy())
    work = Workspace(distance, (len(centres), len(points)))
    columns, middle = points.t().numpy()[:, None], centres.t().numpy()[:, :, None]
    with np.errstate(all="ignore"):
        return distance, torch.from_numpy(work.between(columns, middle))


@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ])
@pytest.mark.parametrize("name", [n for n in ADVERSARIES if n != "holes"])
def test_distances_are_those_of_the_rule(name, rule):
    points = _make(name, 400)
    _, got = _distances(points, points[:50], rule)
    wanted = squared_distance(points, points[:50, None], rule)
    assert_same_bits(got, wanted)


def test_a_sum_between_two_floats_is_rounded_by_what_float64_loses():
    """y*y = 1 + 2**-11 + 2**-24 lies between two floats; float64 drops the small x*x."""
    points = torch.rand(30, 3)
    points[::7] = torch.tensor([2.0**-30, 1 + 2.0**-12, 0.0])
    points[3] = torch.tensor([0.0, 1 + 2.0**-12, 0.0])  # exact: to even
    for scale in (1.0, 2.0**20, 2.0**-20):
        distance, got = _distances(points * scale, torch.zeros(1, 3), Rule.FMA_XYZ)
        assert not distance.exact
        assert got[0, 3] == (1 + 2.0**-11) * scale**2
        assert (got[0, ::7] == (1 + 2.0**-11 + 2.0**-23) * scale**2).all()
        x, y, z = (points * scale).t()
        assert_same_bits(got[0], fma(z, z, fma(y, y, x * x)))


@pytest.mark.parametrize("rule", [Rule.FMA_XYZ, Rule.FMA_YXZ])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_distances_in_few_calls(name, rule):
    """Of every pair apart: those of the rule, or none where a sum is the middle of two floats."""
    points = _make(name, 25)
    points = points[torch.isfinite(points).all(dim=1)]
    distance = Distance(rule, points.numpy(), points.numpy())
    if not distance.filtered:
        return
    wanted = squared_distance(points, points[:, None], rule)
    made = 0
    for i, centre in enumerate(points):
        for j in range(len(points)):
            difference = (points[j : j + 1] - centre).t().contiguous().numpy()
            got = distance.fused_once(difference)
            if got is not None:
                made += 1
                assert_same_bits(torch.from_numpy(got), wanted[i, j : j + 1])
    assert made > len(points) ** 2 * 0.5


def test_few_calls_leave_sums_between_two_floats_to_the_long_way(monkeypatch):
    """The first sum or the second lies between two floats; what float64 drops decides."""
    monkeypatch.setattr(distances, "_FEW", 0)
    one, small = 1 + 2.0**-12, 2.0**-30
    for rule, rows in (
        (Rule.FMA_XYZ, ([small, one, 0.0], [small, 0.0, one], [0.0, small, one])),
        (Rule.FMA_YXZ, ([one, small, 0.0], [small, 0.0, one], [0.0, small, one])),
    ):
        for row in rows:
            points = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
            points[2] = torch.tensor(row)
            distance = Distance(rule, points.numpy(), np.zeros((1, 3), np.float32))
            assert distance.filtered
            assert not distance.exact
            assert distance.fused_once(points.t().contiguous().numpy()) is None
            nearest = np.full((1, 5), np.inf, np.float32)
            columns = points.t().contiguous().numpy()[:, None]
            Nearest(distance, columns, nearest).lower(np.zeros((3, 1), np.float32), [])
            assert_same_bits(
                torch.from_numpy(nearest[0]), squared_distance(points, torch.zeros(1, 3), rule)
            )
            assert nearest[0, 2] == 1 + 2.0**-11 + 2.0**-23


def test_coarse_coordinates_need_no_mending():
    points = (torch.rand(500, 3) * 2**24).floor() * 2.0**-24 - 0.5
    points[0, 0] = 0.5
    for rule in (Rule.FMA_XYZ, Rule.FMA_YXZ):
        distance, got = _distances(points, points[:9], rule)
        assert distance.exact
        assert_same_bits(got, squared_distance(points, points[:9, None], rule))
        distance, _ = _distances(points * 1.1, points[:9], rule)
        assert not distance.exact


def test_tiles_are_near_each_other():
    """Consecutive points of the order are close, with an outlier and in a cluster too."""
    for name in ("offset", "outlier", "cluster"):
        points = _make(name, 4000)
        order = morton_order(points.numpy())
        assert sorted(order.tolist()) == list(range(4000))
        step = (points[order[1:]] - points[order[:-1]]).norm(dim=1)
        other = (points[1:] - points[:-1]).norm(dim=1)
        assert step.median() < other.median() / 2


def test_nothing_is_kept(rounds):
    """The input stays as it was, also where it needs no copy, and results do not alias."""
    points = _make("lattice", 600)
    before = points.clone()
    first = furthest_point_sample(points[None], 40)
    second = furthest_point_sample(points[None], 40)
    assert_same_bits(points, before)
    assert_same_bits(first, second)
    assert first.data_ptr() != second.data_ptr()


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["lattice", "few_places", "cluster", "offset"])
def test_large_clouds(name, rule):
    points = _make(name, 30_000)
    got = furthest_point_sample(points[None], 600, rule=rule)
    assert_same_bits(got[0], reference(points, 600, rule=Rule[rule.upper()]))
