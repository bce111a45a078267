"""Farthest point sampling and sums of gradients on CPU tensors, beside other ways to the same.

Every case runs on one and on two threads; the calls of a case take turns. Picks of the other
samplers that differ from ours are counted, for they are no errors: with ties fpsample takes other
points, and its kd-line variant starts elsewhere. fpsample is no dependency of this workspace:
without it the script says so and leaves its rows out.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import torch
from harness import OURS, Bench, lattice, sphere
from turns import HEADING, Call, compared, on_threads, turns

from mps_pointops import furthest_point_sample, scatter_points
from mps_pointops._rules import Rule
from mps_pointops.ops.fps.reference import furthest_point_sample_reference
from mps_pointops.ops.gather.reference import scatter_reference

try:
    import fpsample
except ImportError:
    fpsample = None

# (clouds, points, picks, quick)
CASES = (
    (1, 2_000, 256, True),
    (32, 2_048, 512, False),
    (512, 64, 16, False),
    (1, 20_000, 1_024, False),
    (1, 100_000, 1_024, False),
)
# (clouds, channels, targets, positions, quick)
SUMS = ((2, 16, 500, 600, True), (8, 64, 4_096, 32_768, False), (1, 3, 100_000, 500_000, False))


def torch_loop(points: torch.Tensor, picks: int) -> torch.Tensor:
    """The sampling as it is written in plain PyTorch, a cloud [N, 3]."""
    nearest = torch.full((len(points),), torch.inf)
    chosen = torch.zeros(picks, dtype=torch.int64)
    for step in range(1, picks):
        d2 = (points - points[chosen[step - 1]]).square_().sum(dim=1)
        nearest = torch.minimum(nearest, d2)
        chosen[step] = nearest.argmax()
    return chosen


def sampling(bench: Bench, make: Callable[[int], torch.Tensor], case: tuple[int, ...]) -> None:
    clouds, size, picks = case
    points = make(size)
    xyz = torch.stack([points] * clouds)
    array = xyz.numpy()

    def each(sample: Callable) -> Call:
        return lambda: torch.stack([torch.as_tensor(sample(c).astype("int64")) for c in array])

    calls, wanted = {}, {}
    for rule in (Rule.SEPARATE, Rule.FMA_YXZ):
        name = f"{OURS}, {rule.name.lower()}"
        calls[name] = lambda r=rule: furthest_point_sample(xyz, picks, rule=r.name.lower())
        expected = furthest_point_sample_reference(points, picks, rule=rule)
        wanted[name] = expected.expand(clouds, picks)
    if fpsample is not None:
        calls["fpsample"] = each(lambda c: fpsample.fps_sampling(c, picks, start_idx=0))
        calls["fpsample kd-line, not exact"] = each(
            lambda c: fpsample.bucket_fps_kdline_sampling(c, picks, 5, 0)
        )
    calls["torch loop"] = lambda: torch.stack([torch_loop(c, picks) for c in xyz])
    separate = wanted[f"{OURS}, separate"]
    wrong = {name: compared(call(), wanted.get(name, separate)) for name, call in calls.items()}
    sizes = {"clouds": clouds, "points": size, "picks": picks}
    turns(bench, make.__name__, sizes, calls, wrong)


def sums(bench: Bench, case: tuple[int, ...]) -> None:
    clouds, channels, size, count = case
    rng = torch.Generator().manual_seed(0)
    values = torch.randn(clouds, channels, count, generator=rng)
    index = torch.randint(size, (clouds, count), generator=rng)
    wide = index.unsqueeze(1).expand_as(values)
    zeros = torch.zeros(clouds, channels, size)
    wanted = scatter_reference(values, index, size)
    calls = {
        OURS: lambda: scatter_points(values, index, size),
        "torch scatter_add": lambda: zeros.scatter_add(2, wide, values),
    }
    wrong = {name: compared(call(), wanted) for name, call in calls.items()}
    sizes = {"clouds": clouds, "channels": channels, "targets": size, "positions": count}
    turns(bench, "sums", sizes, calls, wrong)


def main() -> None:
    bench = Bench("cpu_fps", HEADING)
    if bench.device != "cpu":
        sys.exit("these rows are of CPU tensors: use --device cpu")
    if fpsample is None:
        print("fpsample is not installed: its rows are left out")
    for _ in on_threads():
        for make in (sphere, lattice):
            for *case, quick in CASES:
                if bench.wanted(make.__name__, quick=quick, points=case[1]):
                    sampling(bench, make, tuple(case))
        for *case, quick in SUMS:
            if bench.wanted("sums", quick=quick):
                sums(bench, tuple(case))
    bench.end()


if __name__ == "__main__":
    main()
