"""Three nearest neighbours: every point of a cloud among its centres."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from baselines import seed_three_nn
from harness import OURS, Bench, batch

from mps_pointops import three_nn

# (cloud, clouds, unknown, known, quick)
CASES = [
    ("sphere", 1, 500, 100, True),
    ("lattice", 2, 70, 40, True),
    ("sphere", 1, 4_096, 1_024, False),
    ("sphere", 1, 20_000, 1_024, False),
    *((name, 1, 100_000, 1_024, False) for name in ("sphere", "lidar", "lattice", "all equal")),
    ("sphere", 1, 100_000, 25_000, False),
    ("sphere", 32, 2_048, 512, False),
]


def main() -> None:
    bench = Bench("three_nn")
    for cloud, clouds, unknown, known, quick in CASES:
        sizes = {"clouds": clouds, "unknown": unknown, "known": known}
        if not bench.wanted(cloud, quick=quick, **sizes):
            continue
        points = batch(cloud, clouds, unknown)
        centres = points[:, :: max(1, unknown // known)][:, :known].contiguous()
        moved = points.to(bench.device), centres.to(bench.device)
        providers = {OURS: lambda moved=moved: three_nn(*moved)}
        if bench.device != "cpu":
            providers["seed"] = lambda moved=moved: seed_three_nn(*moved)
        bench.case(
            cloud,
            sizes,
            providers,
            lambda points=points, centres=centres: three_nn(points, centres),
        )
    bench.end()


if __name__ == "__main__":
    main()
