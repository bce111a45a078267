"""The nearest point: a cloud and its sample, one cloud and several."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench, lattice, sphere

from mps_pointops.flat import nearest
from mps_pointops.ops.nearest.reference import nearest_reference

# (queries, points, clouds, quick)
CASES = (
    (1_000, 200, 1, True),
    (1_000, 200, 8, True),
    (20_000, 1_024, 1, False),
    (20_000, 8_192, 8, False),
)


def main() -> None:
    bench = Bench("nearest")
    for make in (sphere, lattice):
        for queries, count, clouds, quick in CASES:
            if bench.options.quick and not quick:
                continue
            x, y = make(queries), make(count)
            batch_x, batch_y = (torch.arange(len(t)) * clouds // len(t) for t in (x, y))
            moved = [t.to(bench.device) for t in (x, y, batch_x, batch_y)]
            bench.row(
                f"{make.__name__} {queries} to {count}, {clouds} clouds",
                lambda moved=moved, clouds=clouds: nearest(*moved[: 4 if clouds > 1 else 2]),
                lambda x=x, y=y, bx=batch_x, by=batch_y: nearest_reference(x, y, bx, by),
            )
    bench.end()


if __name__ == "__main__":
    main()
