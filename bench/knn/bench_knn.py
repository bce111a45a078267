"""k nearest neighbours: centres of a cloud in the cloud, a cloud in itself, features."""

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from baselines import MOST, seed_knn, torch_knn
from baselines.published import Published
from harness import ADVERSARIES, OURS, Bench, Provider, batch, features, some_of

from mps_pointops import SpatialIndex, knn

# (cloud, clouds, queries or None for the cloud itself, points, k, quick)
CASES = [
    ("sphere", 1, 64, 1_000, 16, True),
    ("lattice", 2, None, 100, 20, True),
    *(("sphere", 1, 1_024, size, 128, False) for size in (20_000, 100_000)),
    *((name, 1, 1_024, 100_000, 128, False) for name in ("lidar", "scan", "sphere sorted by x")),
    ("sphere", 1, 1_024, 100_000, 16, False),
    ("sphere", 1, 1_024, 100_000, 1, False),
    ("sphere", 1, 1_024, 100_000, 600, False),
    *(("sphere", 1, None, size, 16, False) for size in (4_096, 20_000, 100_000, 1_000_000)),
    *((name, 1, None, 100_000, 16, False) for name in ("lidar", "scan", "cube", "lattice")),
    ("lidar", 1, None, 1_000_000, 16, False),
    ("clustered", 1, None, 1_000_000, 16, False),
    *((name, 1, 1_024, 100_000, 128, False) for name in ADVERSARIES),
    *((name, 1, None, 100_000, 16, False) for name in ADVERSARIES),
    ("sphere", 32, None, 1_024, 20, False),
    ("sphere", 8, None, 20_000, 16, False),
]
# (clouds, points, D, k, quick)
FEATURES = [
    (1, 64, 16, 8, True),
    (32, 1_024, 64, 20, False),
    (32, 1_024, 128, 20, False),
    (1, 1_024, 64, 20, False),
    (1, 8_192, 64, 20, False),
    (1, 4_096, 64, 300, False),
]
CHECKED = 4_096  # rows of a long result that are compared
LONGEST_SCAN = 4e11  # queries times points


def main() -> None:
    bench = Bench("knn")
    for cloud, clouds, queries, size, k, quick in CASES:
        sizes = {"clouds": clouds, "queries": queries or size, "points": size, "k": k}
        if not bench.wanted(cloud, quick=quick, **sizes):
            continue
        ref = batch(cloud, clouds, size)
        query = ref if queries is None else torch.stack([some_of(r, queries) for r in ref])
        _case(bench, cloud, sizes, query, ref, k)
    for clouds, size, dim, k, quick in FEATURES:
        sizes = {"clouds": clouds, "points": size, "D": dim, "k": k}
        if bench.wanted("features", quick=quick, **sizes):
            ref = torch.stack([features(size, dim, seed) for seed in range(clouds)])
            _case(bench, "features", sizes, ref, ref, k)
    bench.end()


def _case(
    bench: Bench, cloud: str, sizes: dict[str, int], query: torch.Tensor, ref: torch.Tensor, k: int
) -> None:
    published = Published.at(bench.options.published)
    r = ref.to(bench.device)
    q = r if query is ref else query.to(bench.device)
    clouds, rows, dim = query.shape
    some = torch.arange(rows) if clouds * rows <= 65_536 else some_of(torch.arange(rows), CHECKED)

    @cache
    def expected() -> tuple[torch.Tensor, torch.Tensor]:
        return knn(query[:, some], ref, k)

    providers = {OURS: lambda: knn(q, r, k)}
    if dim <= 3:
        index = SpatialIndex(r)
        providers["ours, reused index"] = lambda: index.knn(q, k)
    if bench.device != "cpu" and k <= MOST and rows * ref.shape[1] < LONGEST_SCAN:
        providers["seed"] = lambda: seed_knn(q, r, k)
        if published:
            providers["1.0.0"] = lambda: published.knn(q, r, k)
    if clouds * rows * ref.shape[1] <= 2e8:
        providers["torch"] = Provider(
            lambda: torch_knn(q, r, k)[1], lambda: expected()[1], inexact=True
        )
    bench.case(
        cloud,
        sizes,
        providers,
        expected,
        select=lambda t: t.view(clouds, rows, k)[:, some.to(t.device)],
    )


if __name__ == "__main__":
    main()
