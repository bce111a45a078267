"""Gather, group and scatter: the shapes of set abstraction layers, spread and all at one target."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench

from mps_pointops import gather_points, group_points, scatter_points
from mps_pointops.ops.gather.reference import gather_reference, scatter_reference

# (clouds, channels, points, groups, samples, quick)
CASES = (
    (2, 16, 500, 64, 8, True),
    (8, 64, 4_096, 1_024, 32, False),
    (8, 128, 1_024, 256, 64, False),
)


def main() -> None:
    bench = Bench("gather")
    rng = torch.Generator().manual_seed(0)
    for clouds, channels, size, groups, samples, quick in CASES:
        if bench.options.quick and not quick:
            continue
        features = torch.randn(clouds, channels, size, generator=rng)
        spread = torch.randint(size, (clouds, groups, samples), generator=rng)
        case = f"{clouds} x {channels} x {size}, {groups} x {samples}"
        f, i = features.to(bench.device), spread.to(bench.device, torch.int32)
        flat = spread.flatten(1)
        grouped = gather_reference(features, flat)
        bench.row(f"gather {case}", lambda: gather_points(f, i.flatten(1)), lambda: grouped)
        bench.row(
            f"group {case}",
            lambda: group_points(f, i),
            lambda: grouped.view(clouds, channels, groups, samples),
        )
        values = grouped.to(bench.device)
        for name, index in (("spread", flat), ("one target", torch.zeros_like(flat))):
            moved = index.to(bench.device)
            bench.row(
                f"scatter, {name}, {case}",
                lambda moved=moved: scatter_points(values, moved, size),
                lambda index=index: scatter_reference(grouped, index, size),
            )
    bench.end()


if __name__ == "__main__":
    main()
