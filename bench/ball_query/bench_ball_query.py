"""Ball query: centres of a cloud in the cloud, points in random order and sorted along x."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench, lattice, sphere

from mps_pointops import ball_query
from mps_pointops.ops.ball_query.reference import ball_query_reference

# (queries, points, radius, K, quick)
CASES = (
    (128, 2_000, 0.2, 32, True),
    (1_024, 20_000, 0.1, 64, False),
    (1_024, 100_000, 0.1, 64, False),
)


def sorted_sphere(size: int) -> torch.Tensor:
    """The same points, in ascending x."""
    points = sphere(size)
    return points[points[:, 0].argsort()]


def main() -> None:
    bench = Bench("ball_query")
    for make in (sphere, sorted_sphere, lattice):
        for rows, size, radius, slots, quick in CASES:
            if bench.options.quick and not quick:
                continue
            ref = make(size)
            query = ref[torch.randperm(size, generator=torch.Generator().manual_seed(2))[:rows]]
            moved = query[None].to(bench.device), ref[None].to(bench.device)
            bench.row(
                f"{make.__name__} {rows} of {size}, r={radius}, K={slots}",
                lambda moved=moved, radius=radius, slots=slots: ball_query(*moved, radius, slots),
                lambda query=query, ref=ref, radius=radius, slots=slots: tuple(
                    t[None] for t in ball_query_reference(query, ref, radius, slots)
                ),
            )
    bench.end()


if __name__ == "__main__":
    main()
