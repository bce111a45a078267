"""Farthest point sampling: clouds of several sizes and shapes, alone and in batches."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from baselines import seed_fps, torch_fps
from baselines.published import Published
from harness import ADVERSARIES, OURS, Bench, batch
from torch import Tensor

from mps_pointops import furthest_point_sample

# (cloud, clouds, points, picks, quick)
CASES = [
    ("sphere", 1, 1_000, 128, True),
    ("lattice", 2, 500, 64, True),
    *(("sphere", 1, size, 1_024, False) for size in (20_000, 100_000, 1_000_000)),
    *(("lidar", 1, size, 1_024, False) for size in (20_000, 100_000, 1_000_000)),
    *(("scan", 1, size, 1_024, False) for size in (20_000, 100_000, 1_000_000)),
    ("sphere", 32, 2_048, 512, False),
    ("lattice", 32, 2_048, 512, False),
    ("sphere", 32, 1_024, 512, False),
    ("sphere", 8, 20_000, 1_024, False),
    ("cube", 1, 100_000, 1_024, False),
    ("sphere sorted by x", 1, 100_000, 1_024, False),
    ("lidar shuffled", 1, 100_000, 1_024, False),
    *((name, 1, 100_000, 1_024, False) for name in (*ADVERSARIES, "few places")),
    *((name, 1, 100_000, 25_000, False) for name in ("sphere", "lidar", "lattice")),
    ("scan", 1, 1_000_000, 4_096, False),
    ("sphere", 1, 1_000_000, 25_000, False),
]
# the same in the tie order of pointnet2_ops, which no baseline has
BIT_REVERSED = [
    ("lattice", 1, 500, 64, True),
    ("sphere", 1, 100_000, 1_024, False),
    ("lattice", 1, 100_000, 1_024, False),
    ("sphere", 32, 2_048, 512, False),
]
LONGEST_LOOP = 2e8  # points times picks, of the loop in plain PyTorch
LONGEST_SCAN = 1e10  # of the published kernel


def main() -> None:
    bench = Bench("fps")
    for cloud, clouds, size, picks, quick in CASES:
        sizes = {"clouds": clouds, "points": size, "picks": picks}
        if bench.wanted(cloud, quick=quick, **sizes):
            _case(bench, cloud, sizes, batch(cloud, clouds, size), picks)
    for cloud, clouds, size, picks, quick in BIT_REVERSED:
        sizes = {"clouds": clouds, "points": size, "picks": picks, "ties": "bit_reversed"}
        if not bench.wanted(cloud, quick=quick, **sizes):
            continue
        points = batch(cloud, clouds, size)
        xyz = points.to(bench.device)

        def sample(xyz: Tensor, picks: int = picks) -> Tensor:
            return furthest_point_sample(xyz, picks, ties="bit_reversed")

        bench.case(
            cloud,
            sizes,
            {OURS: lambda xyz=xyz, sample=sample: sample(xyz)},
            lambda points=points, sample=sample: sample(points),
        )
    bench.end()


def _case(bench: Bench, cloud: str, sizes: dict[str, int], points: Tensor, picks: int) -> None:
    published = Published.at(bench.options.published)
    xyz = points.to(bench.device)
    size = points.shape[1]
    providers = {OURS: lambda: furthest_point_sample(xyz, picks)}
    if bench.device != "cpu":
        providers["seed"] = lambda: seed_fps(xyz, picks)
    if published and size * picks < LONGEST_SCAN:
        providers["1.0.0"] = lambda: published.fps(xyz, picks)
    if size * picks < LONGEST_LOOP:
        providers["torch"] = lambda: torch_fps(xyz, picks)
    bench.case(cloud, sizes, providers, lambda: furthest_point_sample(points, picks))


if __name__ == "__main__":
    main()
