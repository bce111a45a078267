"""The nearest point: a cloud and its sample, one cloud and several."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import CLOUDS, OURS, Bench, Provider, some_of

from mps_pointops.flat import nearest

# (cloud, clouds, queries, points, quick)
CASES = (
    ("sphere", 1, 1_000, 200, True),
    ("lattice", 8, 1_000, 200, True),
    ("sphere", 1, 20_000, 1_024, False),
    ("sphere", 1, 100_000, 1_024, False),
    ("sphere", 8, 20_000, 8_192, False),
    ("lidar", 1, 100_000, 25_000, False),
    ("lidar", 1, 1_000_000, 100_000, False),
)


def main() -> None:
    bench = Bench("nearest")
    for cloud, clouds, queries, count, quick in CASES:
        sizes = {"clouds": clouds, "queries": queries, "points": count}
        if not bench.wanted(cloud, quick=quick, **sizes):
            continue
        x = CLOUDS[cloud](queries)
        y = some_of(x, count)
        batches = [torch.arange(len(t)) * clouds // len(t) for t in (x, y)] if clouds > 1 else []
        given = [x, y, *batches]
        moved = [t.to(bench.device) for t in given]
        providers = {OURS: lambda moved=moved: nearest(*moved)}
        if clouds == 1 and queries * count <= 2e8:
            providers["torch"] = Provider(
                lambda moved=moved: torch.cdist(*moved).argmin(1), inexact=True
            )
        bench.case(cloud, sizes, providers, lambda given=given: nearest(*given))
    bench.end()


if __name__ == "__main__":
    main()
