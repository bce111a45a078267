"""Flat calls on small clouds beside the dense call on the same points: what the form costs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import OURS, Bench, Provider, batch

from mps_pointops import ball_query, flat, furthest_point_sample, knn

# (clouds, points of each, quick)
CASES = ((4, 64, True), (4, 1_024, False), (1, 4_096, False))
K, RADIUS, LIMIT = 16, 0.2, 32


def main() -> None:
    bench = Bench("flat")
    for clouds, size, quick in CASES:
        sizes = {"clouds": clouds, "points": size}
        dense = batch("sphere", clouds, size)
        points = dense.flatten(0, 1)
        number = torch.repeat_interleave(torch.arange(clouds), size)
        xyz, x, b = (t.to(bench.device) for t in (dense, points, number))
        picks = size // 4
        calls = {
            "fps": (
                lambda x, b: flat.fps(x, b, 0.25, False),
                lambda d, picks=picks: furthest_point_sample(d, picks),
            ),
            "knn": (lambda x, b: flat.knn(x, x, K, b, b), lambda d: knn(d, d, K)),
            "radius": (
                lambda x, b: flat.radius(x, x, RADIUS, b, b, max_num_neighbors=LIMIT),
                lambda d: ball_query(d, d, RADIUS, LIMIT),
            ),
        }
        for name, (ours, other) in calls.items():
            if not bench.wanted(name, quick=quick, **sizes):
                continue
            bench.case(
                name,
                sizes,
                {
                    OURS: lambda ours=ours, x=x, b=b: ours(x, b),
                    "dense call": Provider(
                        lambda other=other, xyz=xyz: other(xyz),
                        lambda other=other, dense=dense: other(dense),
                    ),
                },
                lambda ours=ours, points=points, number=number: ours(points, number),
            )
    bench.end()


if __name__ == "__main__":
    main()
