"""Farthest point sampling: clouds of several sizes and shapes, alone and in batches."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench, lattice, sphere

from mps_pointops import furthest_point_sample
from mps_pointops.ops.fps.reference import furthest_point_sample_reference

# (clouds, points, picks, quick)
CASES = (
    (1, 2_000, 256, True),
    (32, 2_048, 512, False),
    (1, 20_000, 1_024, False),
    (1, 100_000, 1_024, False),
)


def main() -> None:
    bench = Bench("fps")
    for make in (sphere, lattice):
        for clouds, size, picks, quick in CASES:
            if bench.options.quick and not quick:
                continue
            points = torch.stack([make(size)] * clouds)
            xyz = points.to(bench.device)
            bench.row(
                f"{make.__name__} {clouds} x {size} -> {picks}",
                lambda xyz=xyz, picks=picks: furthest_point_sample(xyz, picks),
                lambda points=points, picks=picks: furthest_point_sample_reference(
                    points[0], picks
                ).expand(len(points), picks),
            )
    bench.end()


if __name__ == "__main__":
    main()
