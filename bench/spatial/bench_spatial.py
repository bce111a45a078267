"""A search index: building it, with one small search in it, and that search alone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import OURS, Bench, batch, some_of

from mps_pointops import SpatialIndex, knn

# (cloud, clouds, points, quick)
CASES = (
    ("sphere", 1, 500, True),
    ("sphere", 1, 20_000, False),
    ("sphere", 1, 100_000, False),
    ("sphere", 1, 1_000_000, False),
    ("lidar", 1, 100_000, False),
    ("all equal", 1, 100_000, False),
    ("sphere", 32, 2_048, False),
)
QUERIES, K = 32, 8


def main() -> None:
    bench = Bench("spatial")
    for cloud, clouds, size, quick in CASES:
        sizes = {"clouds": clouds, "points": size, "queries": QUERIES, "k": K}
        if not bench.wanted(cloud, quick=quick, **sizes):
            continue
        points = batch(cloud, clouds, size)
        query = some_of(points[0], QUERIES).expand(clouds, -1, -1).contiguous()
        there, asked = points.to(bench.device), query.to(bench.device)
        index = SpatialIndex(there)
        bench.case(
            cloud,
            sizes,
            {
                OURS: lambda there=there, asked=asked: SpatialIndex(there).knn(asked, K),
                "ours, reused index": lambda index=index, asked=asked: index.knn(asked, K),
            },
            lambda query=query, points=points: knn(query, points, K),
        )
    bench.end()


if __name__ == "__main__":
    main()
