"""Farthest point sampling and sums of gradients on CPU tensors, beside other ways to the same.

Every case runs on one and on two threads; the calls of a case take turns. Picks of the other
samplers that differ from ours are counted, for they are no errors: with ties fpsample takes other
points, and its kd-line variant starts elsewhere. fpsample is no dependency of this workspace:
without it the script says so and leaves its rows out.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench, Row, lattice, sphere

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
THREADS = (1, 2)

Call = Callable[[], torch.Tensor]


def torch_loop(points: torch.Tensor, picks: int) -> torch.Tensor:
    """The sampling as it is written in plain PyTorch, a cloud [N, 3]."""
    nearest = torch.full((len(points),), torch.inf)
    chosen = torch.zeros(picks, dtype=torch.int64)
    for step in range(1, picks):
        d2 = (points - points[chosen[step - 1]]).square_().sum(dim=1)
        nearest = torch.minimum(nearest, d2)
        chosen[step] = nearest.argmax()
    return chosen


def turns(bench: Bench, case: str, own: dict[str, tuple[Call, torch.Tensor]], others: dict) -> None:
    """Time all calls in turns; ours must equal what is expected, the others are counted."""
    calls = {name: call for name, (call, _) in own.items()} | {n: c for n, (c, _) in others.items()}
    wanted = {name: value for name, (_, value) in (own | others).items()}
    wrong = {name: int((call() != wanted[name]).sum()) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(bench.options.repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - begin) * 1e3)
    for name in calls:
        label = f"{case}, {torch.get_num_threads()} threads: {name}"
        broken = name in own and wrong[name] > 0
        bench.failed |= broken
        median = None if broken else statistics.median(times[name])
        shown = "-" if median is None else f"{median:.3f}"
        checked = wanted[name].numel()
        print(f"{label:70} {shown:>12} {wrong[name]:>6} of {checked}", flush=True)
        if bench.options.output:
            device = f"{bench.device_name} ({torch.get_num_threads()} used)"
            repeats = bench.options.repeats
            row = Row(bench.op, label, device, median, repeats, wrong[name], checked)
            row.versions = bench._versions()
            with bench.options.output.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")


def sampling(bench: Bench, make: Callable[[int], torch.Tensor], case: tuple[int, ...]) -> None:
    clouds, size, picks = case
    points = make(size)
    xyz = torch.stack([points] * clouds)
    array = xyz.numpy()

    def each(sample: Callable) -> Call:
        return lambda: torch.stack([torch.as_tensor(sample(c).astype("int64")) for c in array])

    own = {}
    for rule in (Rule.SEPARATE, Rule.FMA_YXZ):
        wanted = furthest_point_sample_reference(points, picks, rule=rule).expand(clouds, picks)
        name = rule.name.lower()
        own[f"ours, {name}"] = (
            lambda name=name: furthest_point_sample(xyz, picks, rule=name),
            wanted,
        )
    others = {"torch loop": lambda: torch.stack([torch_loop(c, picks) for c in xyz])}
    if fpsample is not None:
        others["fpsample"] = each(lambda c: fpsample.fps_sampling(c, picks, start_idx=0))
        others["fpsample kd-line, not exact"] = each(
            lambda c: fpsample.bucket_fps_kdline_sampling(c, picks, 5, 0)
        )
    wanted = own["ours, separate"][1]
    beside = {name: (call, wanted) for name, call in others.items()}
    turns(bench, f"{make.__name__} {clouds} x {size} -> {picks}", own, beside)


def sums(bench: Bench, case: tuple[int, ...]) -> None:
    clouds, channels, size, count = case
    rng = torch.Generator().manual_seed(0)
    values = torch.randn(clouds, channels, count, generator=rng)
    index = torch.randint(size, (clouds, count), generator=rng)
    wide = index.unsqueeze(1).expand_as(values)
    zeros = torch.zeros(clouds, channels, size)
    wanted = scatter_reference(values, index, size)
    own = {"ours": (lambda: scatter_points(values, index, size), wanted)}
    others = {"torch scatter_add": (lambda: zeros.scatter_add(2, wide, values), wanted)}
    turns(bench, f"sums {clouds} x {channels} x {count} to {size}", own, others)


def main() -> None:
    bench = Bench("cpu_fps")
    if bench.device != "cpu":
        sys.exit("these rows are of CPU tensors: use --device cpu")
    if fpsample is None:
        print("fpsample is not installed: its rows are left out")
    for threads in THREADS:
        torch.set_num_threads(threads)
        for make in (sphere, lattice):
            for *case, quick in CASES:
                if quick or not bench.options.quick:
                    sampling(bench, make, tuple(case))
        for *case, quick in SUMS:
            if quick or not bench.options.quick:
                sums(bench, tuple(case))
    bench.end()


if __name__ == "__main__":
    main()
