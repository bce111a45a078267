"""A search index: building it, and one search in it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import CLOUDS, OURS, Bench, reused, some_of

from mps_pointops import knn

# (cloud, points, quick)
CASES = (
    ("sphere", 500, True),
    ("sphere", 20_000, False),
    ("sphere", 100_000, False),
    ("sphere", 1_000_000, False),
    ("lidar", 100_000, False),
    ("all equal", 100_000, False),
)
K = 8


def main() -> None:
    bench = Bench("spatial")
    for cloud, size, quick in CASES:
        points = CLOUDS[cloud](size)
        query = some_of(points, 32)
        there, asked = points[None].to(bench.device), query.to(bench.device)

        def expected(query: torch.Tensor = query, points: torch.Tensor = points) -> torch.Tensor:
            return knn(query[None], points[None], K)[1][0]

        for name, index in (("build and 32 queries", None), ("32 queries", reused(there))):
            sizes = {"what": name, "points": size}
            if not bench.wanted(cloud, quick=quick, **sizes):
                continue

            def search(index=index, there=there, asked=asked) -> torch.Tensor:  # type: ignore[no-untyped-def]
                return (index or reused(there)).knn(asked, K)[1]

            bench.case(cloud, sizes, {OURS: search}, expected)
    bench.end()


if __name__ == "__main__":
    main()
