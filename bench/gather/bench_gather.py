"""Gather, group and scatter: the shapes of set abstraction layers, spread and all at one target."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import OURS, Bench, Provider

from mps_pointops import gather_points, group_points, scatter_points

# (clouds, channels, points, groups, samples, quick)
CASES = (
    (2, 16, 500, 64, 8, True),
    (8, 64, 4_096, 1_024, 32, False),
    (8, 128, 1_024, 256, 64, False),
    (32, 64, 16_384, 1_024, 32, False),
)


def main() -> None:
    bench = Bench("gather")
    rng = torch.Generator().manual_seed(0)
    for clouds, channels, size, groups, samples, quick in CASES:
        features = torch.randn(clouds, channels, size, generator=rng)
        spread = torch.randint(size, (clouds, groups, samples), generator=rng)
        sizes = {"clouds": clouds, "channels": channels, "points": size, "picks": groups * samples}
        names = ("gather", "group", "scatter, spread", "scatter, one target")
        wanted = {name for name in names if bench.wanted(name, quick=quick, **sizes)}
        if not wanted:
            continue
        flat = spread.flatten(1)
        grouped = gather_points(features, flat)
        f, values = features.to(bench.device), grouped.to(bench.device)
        i = spread.to(bench.device, torch.int32)
        wide = flat.to(bench.device)[:, None].expand(-1, channels, -1)
        if "gather" in wanted:
            providers = {
                OURS: lambda f=f, i=i: gather_points(f, i.flatten(1)),
                "torch": lambda f=f, wide=wide: f.gather(2, wide),
            }
            bench.case("gather", sizes, providers, lambda e=grouped: e)
        if "group" in wanted:
            shape = (clouds, channels, groups, samples)
            providers = {OURS: lambda f=f, i=i: group_points(f, i)}
            expected = grouped.view(shape)
            bench.case("group", sizes, providers, lambda e=expected: e)
        for name, index in ((names[2], flat), (names[3], torch.zeros_like(flat))):
            if name not in wanted:
                continue
            moved = index.to(bench.device)
            wide = moved[:, None].expand(-1, channels, -1)
            providers = {
                OURS: lambda v=values, m=moved, size=size: scatter_points(v, m, size),
                "torch": Provider(  # atomic additions, in any order
                    lambda f=f, v=values, wide=wide: torch.zeros_like(f).scatter_add_(2, wide, v),
                    inexact=True,
                ),
            }
            bench.case(
                name,
                sizes,
                providers,
                lambda g=grouped, index=index, size=size: scatter_points(g, index, size),
            )
    bench.end()


if __name__ == "__main__":
    main()
