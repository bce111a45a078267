"""Cells of a grid: clouds in voxels, and with a batch column."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import Bench, lattice, sphere

from mps_pointops.ops.grid_cluster import grid_cluster

# (points, edge of a cell, quick)
CASES = ((5_000, 0.05, True), (100_000, 0.05, False), (1_000_000, 0.02, False))


def main() -> None:
    bench = Bench("grid_cluster")
    for make in (sphere, lattice):
        for count, edge, quick in CASES:
            if bench.options.quick and not quick:
                continue
            points = make(count)
            with_batch = torch.cat((points, torch.arange(count)[:, None] * 8 // count), dim=1)
            for pos in (points, with_batch):
                dim = pos.shape[1]
                size = torch.tensor([edge] * 3 + [1.0] * (dim - 3))
                moved = pos.to(bench.device), size.to(bench.device)
                bench.row(
                    f"{make.__name__} {count}, D={dim}, cells of {edge}",
                    lambda moved=moved: grid_cluster(*moved),
                    lambda pos=pos, size=size: grid_cluster(pos, size),
                    "CPU path",
                )
    bench.end()


if __name__ == "__main__":
    main()
