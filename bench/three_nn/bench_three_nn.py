"""Three nearest neighbours: every point of a cloud among its centres."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import Bench, lattice, sphere

from mps_pointops import three_nn
from mps_pointops.ops.three_nn.reference import three_nn_reference

# (unknown, known, quick)
CASES = ((500, 100, True), (4_096, 1_024, False), (20_000, 1_024, False))


def main() -> None:
    bench = Bench("three_nn")
    for make in (sphere, lattice):
        for unknown, known, quick in CASES:
            if bench.options.quick and not quick:
                continue
            points, centres = make(unknown), make(unknown)[:known]
            moved = points[None].to(bench.device), centres[None].to(bench.device)
            bench.row(
                f"{make.__name__} {unknown} among {known}",
                lambda moved=moved: three_nn(*moved),
                lambda points=points, centres=centres: tuple(
                    t[None] for t in three_nn_reference(points, centres)
                ),
            )
    bench.end()


if __name__ == "__main__":
    main()
