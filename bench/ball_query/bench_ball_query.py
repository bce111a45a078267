"""Ball query: centres of a cloud in the cloud, points in random order and sorted along x."""

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from baselines import seed_ball_query, torch_ball_query
from baselines.published import Published
from harness import ADVERSARIES, OURS, Bench, Provider, batch, some_of

from mps_pointops import SpatialIndex, ball_query

# (cloud, clouds, queries or None for the cloud itself, points, radius, K, quick)
CASES = [
    ("sphere", 1, 64, 1_000, 0.2, 32, True),
    ("lattice", 2, None, 100, 0.3, 8, True),
    *(("sphere", 1, 1_024, size, 0.1, 64, False) for size in (20_000, 100_000)),
    ("sphere sorted by x", 1, 1_024, 20_000, 0.1, 64, False),
    ("sphere sorted by x", 1, 1_024, 100_000, 0.1, 64, False),
    *((name, 1, 1_024, 100_000, 0.1, 64, False) for name in ("cube", "scan", "lidar")),
    ("sphere", 1, 1_024, 100_000, 0.01, 64, False),
    *((name, 1, 1_024, 100_000, 0.1, 64, False) for name in ADVERSARIES),
    *(("sphere", 1, None, size, 0.02, 32, False) for size in (20_000, 100_000)),
    ("sphere", 32, 512, 2_048, 0.2, 32, False),
]
CHECKED = 4_096  # rows of a long result that are compared


def main() -> None:
    bench = Bench("ball_query")
    for cloud, clouds, queries, size, radius, K, quick in CASES:
        sizes = {"clouds": clouds, "queries": queries or size, "points": size, "r": radius, "K": K}
        if not bench.wanted(cloud, quick=quick, **sizes):
            continue
        ref = batch(cloud, clouds, size)
        query = ref if queries is None else torch.stack([some_of(r, queries) for r in ref])
        _case(bench, cloud, sizes, query, ref, radius, K)
    bench.end()


def _case(
    bench: Bench,
    cloud: str,
    sizes: dict[str, float],
    query: torch.Tensor,
    ref: torch.Tensor,
    radius: float,
    K: int,
) -> None:
    published = Published.at(bench.options.published)
    r = ref.to(bench.device)
    q = r if query is ref else query.to(bench.device)
    clouds, rows, _ = query.shape
    some = torch.arange(rows) if clouds * rows <= 65_536 else some_of(torch.arange(rows), CHECKED)

    @cache
    def expected() -> tuple[torch.Tensor, torch.Tensor]:
        return ball_query(query[:, some], ref, radius, K)

    index = SpatialIndex(r)
    providers = {
        OURS: lambda: ball_query(q, r, radius, K),
        "ours, reused index": lambda: index.ball_query(q, radius, K),
    }
    if bench.device != "cpu":
        providers["seed"] = lambda: seed_ball_query(q, r, radius, K, simd=False)
        providers["seed, simdgroup"] = lambda: seed_ball_query(q, r, radius, K, simd=True)
        if published:
            providers["1.0.0"] = lambda: published.ball_query(q, r, radius, K)
    if clouds * rows * ref.shape[1] <= 2e8:
        providers["torch"] = Provider(
            lambda: torch_ball_query(q, r, radius, K), lambda: expected()[1], inexact=True
        )
    bench.case(
        cloud,
        sizes,
        providers,
        expected,
        select=lambda t: t.view(clouds, rows, K)[:, some.to(t.device)],
    )


if __name__ == "__main__":
    main()
