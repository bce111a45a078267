"""Sampling on MPS by one threadgroup, in rounds, and of what rounds leave: against the reference.

Thresholds are made small, so that clouds that the executor can afford meet all of it.
"""

import math
from itertools import pairwise

import pytest
import torch

import mps_emulator
import mps_pointops
import mps_pointops.ops.fps.fps as operator
import mps_pointops.ops.fps.mps as kernels
from mps_pointops import flat
from mps_pointops._metal import choices
from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.reference import furthest_point_sample_reference as reference
from pointops_testing import CLOUDS, assert_same_bits, cloud

WHOLE, LISTS, REST = kernels.WHOLE, kernels.LISTS, kernels.REST
KEPT, SORTED, DEALT = kernels.KEPT, kernels.SORTED, kernels.DEALT
emulated = pytest.mark.skipif(not mps_emulator.is_installed(), reason="about the executor")


@pytest.fixture
def small(monkeypatch):
    """128 points alone, and 128 a threadgroup of a round; 256 candidates."""

    def set_sizes(rounds=None, order=KEPT, group=7, threads=32, candidates=256):
        monkeypatch.setattr(choices, "FPS_ALONE_BITS", 7)
        monkeypatch.setattr(choices, "FPS_THREADS", threads)
        monkeypatch.setattr(choices, "FPS_CANDIDATES", candidates)
        monkeypatch.setattr(choices, "fps_alone_threads", lambda size, clouds: threads)
        monkeypatch.setattr(choices, "fps_group_bits", lambda size: group)
        monkeypatch.setattr(choices, "fps_sorts", lambda size, picks: order == SORTED)
        monkeypatch.setattr(choices, "fps_deals", lambda size: order == DEALT)
        if rounds:
            monkeypatch.setattr(choices, "fps_rounds", lambda size, picks: rounds)

    set_sizes()
    return set_sizes


@pytest.fixture
def launches(monkeypatch):
    """What is launched: kernel's mode, or None for an update, threadgroups, picks made after it."""
    seen = []
    launch = kernels.launch

    def recorded(kernel, *arguments, groups, group_size):
        launch(kernel, *arguments, groups=groups, group_size=group_size)
        made = arguments[7].view(-1, 4)[:, 1].tolist()
        updates = kernel is kernels.UPDATE.kernel(*_options(arguments))
        seen.append((None if updates else arguments[-1][kernels.MODE], groups, made))

    def _options(arguments):
        return 0, 3 if arguments[-1][0] <= 3 else 0

    monkeypatch.setattr(kernels, "launch", recorded)
    return seen


def sample(points, count, start=0, skip=False, rule="separate", ties="lowest_index"):
    got = mps_pointops.furthest_point_sample(
        points[None].to("mps"), count, start, skip, rule=rule, ties=ties
    )
    return got[0].cpu()


def wanted(points, count, start=0, skip=False, rule="separate", ties="lowest_index"):
    return reference(points, count, start, skip, Rule[rule.upper()], Ties[ties.upper()])


def adversary(name, size):
    rng = torch.Generator().manual_seed(size)
    number = torch.arange(size)
    if name == "sites":  # few distinct places
        return torch.randn(9, 3, generator=rng)[torch.randint(9, (size,), generator=rng)]
    if name == "line":
        points = torch.zeros(size, 3)
        points[:, 0] = torch.rand(size, generator=rng) * 1000
        return points
    if name == "outlier":
        points = torch.rand(size, 3, generator=rng)
        points[size // 2] = 1e6
        return points
    if name == "cluster":  # 9 of 10 in one place
        points = torch.rand(size, 3, generator=rng) * 1000
        points[number % 10 != 0] = points[number % 10 != 0] * 1e-3 + 500
        return points
    if name == "powers":  # each pick alone in its octave of distances
        return torch.stack([2.0 ** (number % 120 - 60), number % 2 * 1e-3, number * 0.0], 1)
    if name == "dust":  # clusters of clusters: early rounds pick one
        digits = torch.randint(2, (3, 4, size), generator=rng)
        return (digits * torch.tensor([1e4, 1e2, 1.0, 1e-2])[:, None]).sum(1).t().contiguous()
    if name == "sorted":
        points = torch.randn(size, 3, generator=rng)
        return points[points[:, 0].argsort()].contiguous()
    raise AssertionError(name)


ADVERSARIES = ("sites", "line", "outlier", "cluster", "powers", "dust", "sorted")


@pytest.mark.parametrize("ties", ["lowest_index", "bit_reversed"])
@pytest.mark.parametrize("name", [*CLOUDS, *ADVERSARIES])
def test_rounds(small, name, ties):
    points = adversary(name, 700) if name in ADVERSARIES else cloud(name, 700)
    assert_same_bits(sample(points, 150, 3, ties=ties), wanted(points, 150, 3, ties=ties))


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("name", ["random", "lattice", "not_finite", "huge", *ADVERSARIES])
def test_what_few_rounds_leave(small, launches, name, rounds):
    small(rounds)
    points = adversary(name, 600) if name in ADVERSARIES else cloud(name, 600)
    assert_same_bits(sample(points, 200), wanted(points, 200))
    modes = [mode for mode, _, _ in launches]
    assert modes == [None, LISTS] * rounds + [REST]
    if name in ("random", "lattice", "line", "dust"):
        assert launches[-2][2] < [200]  # the last one had something to do


@pytest.mark.parametrize("name", ["random", "lattice", "not_finite", "near_origin", "duplicates"])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", [SORTED, DEALT])
def test_order_of_points(small, name, dim, order):
    small(rounds=6, order=order)
    points = cloud(name, 1000, dim)
    for ties in Ties:
        got = operator.fps(
            points.to("mps"), None, None, None, 1, 120, 1000, 120, 5, name == "near_origin", 0, ties
        )
        assert_same_bits(got.cpu(), reference(points, 120, 5, name == "near_origin", ties=ties))


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", ["random", "near_origin"])
def test_rules_and_the_origin(small, name, rule):
    small(rounds=5)
    points = cloud(name, 500)
    for skip in (False, True):
        got = sample(points, 100, 2, skip, rule)
        assert_same_bits(got, wanted(points, 100, 2, skip, rule))


@pytest.mark.parametrize("dim", [1, 2, 4, 9])
@pytest.mark.parametrize("name", ["random", "lattice", "not_finite"])
def test_dimensions(small, name, dim):
    small(rounds=4)
    points = cloud(name, 400, dim)
    got = operator.fps(points.to("mps"), None, None, None, 1, 60, 400, 60, 5, False, 1, 1)
    wanted = reference(points, 60, 5, rule=Rule.FMA_XYZ, ties=Ties.BIT_REVERSED)
    assert_same_bits(got.cpu(), wanted)


@pytest.mark.parametrize("size", [127, 128, 129, 255, 256, 257, 511, 513, 1025])
@pytest.mark.parametrize(("group", "order"), [(7, KEPT), (8, KEPT), (7, DEALT), (8, DEALT)])
def test_sizes_around_the_thresholds(small, size, group, order):
    small(rounds=4, group=group, order=order)
    points = cloud("lattice" if size % 2 else "random", size)
    assert_same_bits(sample(points, 70), wanted(points, 70))


@pytest.mark.parametrize("name", ["random", "lattice", "all_equal", "duplicates", "not_finite"])
@pytest.mark.parametrize("size", [100, 300])
def test_every_point_and_more(small, name, size):
    points = cloud(name, size)
    assert_same_bits(sample(points, size + 20), wanted(points, size + 20))


@pytest.mark.parametrize("ties", ["lowest_index", "bit_reversed"])
@pytest.mark.parametrize("size", [4, 100, 300])
def test_the_last_pick_repeats(small, size, ties):
    """When all distances are 0, the point picked just before may be the first of them."""
    small(rounds=2, threads=64)
    points = torch.ones(size, 3)
    points[0] = 0
    picks = sample(points, 6, 1, ties=ties)
    assert_same_bits(picks, wanted(points, 6, 1, ties=ties))
    assert picks.tolist() == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("size", [100, 300])
def test_the_first_that_may_be_picked_repeats(small, size, threads):
    """All that may be picked are picked at once, none near another, and not the start."""
    small(rounds=3, threads=threads)
    points = torch.zeros(size, 3)
    points[3:23, 0] = 2.0 ** torch.arange(20)
    picks = sample(points, size + 20, 1, True)
    assert_same_bits(picks, wanted(points, size + 20, 1, True))
    assert picks.tolist() == [1, *range(22, 2, -1), *[3] * (size - 1)]


@pytest.mark.parametrize("size", [60, 400])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_start_that_is_not_finite(small, size, value):
    points = cloud("random", size)
    points[7, 1] = value
    assert_same_bits(sample(points, 90, 7), wanted(points, 90, 7))
    points[:, 0] = value
    assert sample(points, 5, 7).tolist() == [7, 0, 0, 0, 0]


@pytest.mark.parametrize("count", [1, 2])
def test_few_picks(small, count):
    points = cloud("random", 300)
    assert_same_bits(sample(points, count, 4), wanted(points, count, 4))


@pytest.mark.parametrize("order", [KEPT, SORTED, DEALT])
@pytest.mark.parametrize("rounds", [2, 40])
def test_clouds_of_all_sizes_at_once(small, launches, rounds, order):
    """Those of up to 128 points by one threadgroup, the others in rounds."""
    small(rounds, order)
    sizes = [5, 500, 0, 129, 128, 1, 0, 300, 127, 256]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    for name in ("random", "lattice", "not_finite"):
        x = cloud(name, sum(sizes))
        options = {"ratio": 0.4, "random_start": False, "ties": "bit_reversed"}
        got = flat.fps(x.to("mps"), ptr=ptr.to("mps"), **options)
        assert_same_bits(got.cpu(), flat.fps(x, ptr=ptr, **options))
    assert [mode for mode, _, _ in launches[: 2 * rounds + 2]] == [
        WHOLE,
        *[None, LISTS] * rounds,
        REST,
    ]


def test_equal_clouds(small):
    small(rounds=6)
    clouds = torch.stack([cloud(name, 300) for name in CLOUDS])
    got = mps_pointops.furthest_point_sample(clouds.to("mps"), 40, 11).cpu()
    for points, picks in zip(clouds, got, strict=True):
        assert_same_bits(picks, reference(points, 40, 11))


def test_a_random_start_is_read_on_the_device(small):
    x = cloud("random", 300)
    start = torch.tensor([123], device="mps")
    ptr, out_ptr = torch.tensor([0, 300], device="mps"), torch.tensor([0, 50], device="mps")
    got = operator.fps(x.to("mps"), ptr, out_ptr, start, 1, 50, 300, 50, 0, False, 0, 0)
    assert_same_bits(got.cpu(), reference(x, 50, 123))


def test_picks_of_a_round_are_bounded(small, monkeypatch, launches):
    monkeypatch.setattr(kernels, "STEPS_PER_ROUND", 64 * 500 * 3)
    points = cloud("random", 500)
    assert_same_bits(sample(points, 400), wanted(points, 400))
    made = [1] + [made[0] for mode, _, made in launches if mode == LISTS]
    taken = [b - a for a, b in pairwise(made)]
    assert max(taken) == 64


def test_the_rest_is_cut_into_dispatches(small, monkeypatch, launches):
    small(rounds=1)
    waits = []
    monkeypatch.setattr(kernels, "REST_STEPS", 5000)
    monkeypatch.setattr(kernels, "REST_PER_WAIT", 3)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waits.append(None))
    points = cloud("random", 500)
    assert_same_bits(sample(points, 100), wanted(points, 100))
    rest = [made[0] for mode, _, made in launches if mode == REST]
    assert len(rest) == -(-8 * 500 * 500 // 256 // 5000) == 2
    assert rest[0] < rest[1] == 100
    monkeypatch.setattr(kernels, "REST_STEPS", 1000)
    assert_same_bits(sample(points, 100), wanted(points, 100))
    assert len(waits) == 2


def test_long_rounds_wait(small, monkeypatch):
    waits = []
    monkeypatch.setattr(kernels, "STEPS_PER_WAIT", 2 * 300 * 50 * 3 // 5)
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waits.append(None))
    small(rounds=5)
    points = cloud("random", 300)
    assert_same_bits(sample(points, 50), wanted(points, 50))
    assert len(waits) == 2


def test_the_work_and_the_threads_of_a_dispatch_are_bounded(small, monkeypatch, launches):
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    clouds = torch.stack([cloud("random", 50, seed=b) for b in range(5)])
    answer = torch.stack([reference(points, 9) for points in clouds])
    for name, value in (("STEPS_PER_DISPATCH", 2 * 50 * 9 * 3), ("THREADS_PER_DISPATCH", 2 * 32)):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, name, value)
            got = mps_pointops.furthest_point_sample(clouds.to("mps"), 9)
            assert_same_bits(got.cpu(), answer)
        assert [groups for _, groups, _ in launches] == [2, 2, 1]
        launches.clear()


@emulated
def test_dispatches_and_reads(launches):
    """Small clouds take one dispatch, large ones two a round and one; nothing is read."""
    clouds = torch.rand(3, 2048, 3).to("mps")
    mps_pointops.furthest_point_sample(clouds, 64)
    assert [mode for mode, _, _ in launches] == [WHOLE]
    launches.clear()
    points = torch.rand(1, 6000, 3).to("mps")
    with mps_emulator.count_readbacks() as reads:
        got = mps_pointops.furthest_point_sample(points, 200)
    assert len(launches) == 2 * choices.fps_rounds(6000, 200) + 1
    assert_same_bits(got[0].cpu(), reference(points[0].cpu(), 200))
    assert launches[-2][2] == [200]
    assert reads.count == len(launches)  # those of this test


@emulated
@pytest.mark.parametrize("fast_math", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_threads(small, monkeypatch, seed, fast_math):
    from mps_emulator.shader import options

    small(rounds=3)
    monkeypatch.setattr(options, "seed", seed)
    monkeypatch.setattr(options, "fast_math", fast_math)
    for source in (kernels.UPDATE, kernels.SAMPLE):
        monkeypatch.setattr(source, "_kernels", {})
    for name in ("lattice", "not_finite", "huge"):
        points = cloud(name, 700)
        assert_same_bits(sample(points, 90), wanted(points, 90))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "lattice", "sites", "dust"])
def test_large_clouds(name):
    """With the sizes as they are, sorted and not."""
    points = adversary(name, 40_000) if name in ADVERSARIES else cloud(name, 40_000)
    cpu = mps_pointops.furthest_point_sample(points[None], 3000)
    assert_same_bits(sample(points, 3000), cpu[0])


def test_clouds_of_many_coordinates_are_cut_sooner():
    assert [choices.fps_alone_bits(dim) for dim in (1, 3, 6, 16, 17, 64, 4096)] == [
        12, 12, 12, 11, 10, 9, 8,
    ]  # fmt: skip
    points = cloud("random", 300, 130)
    got = operator.fps(points.to("mps"), None, None, None, 1, 40, 300, 40, 5, False, 0, 0)
    assert_same_bits(got.cpu(), reference(points, 40, 5))


def test_rounds_fit_the_counts():
    """Rounds that clouds of these sizes needed, a LiDAR scan and a few others."""
    counts = ((5_000, 1_250, 22), (10_000, 10_000, 43), (20_000, 1_024, 19), (50_000, 12_500, 31))
    counts += ((100_000, 64, 7), (100_000, 1_024, 19), (100_000, 25_000, 49))
    for size, picks, needed in counts:
        assert needed <= choices.fps_rounds(size, picks) <= 1.5 * needed + 3
    assert choices.fps_rounds(10**6, 1) == 1
