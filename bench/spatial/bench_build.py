"""Building the tree of the searches, and the sort of its keys beside PyTorch's."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from harness import CLOUDS, OURS, Bench

from mps_pointops.ops.inverse_index import mps as sort
from mps_pointops.spatial.build import build, key_bits
from mps_pointops.spatial.reference import tree_reference

# (cloud, clouds, points of each, quick)
CASES = (
    ("sphere", 1, 600, True),
    ("sphere", 1, 20_000, False),
    ("sphere", 1, 100_000, False),
    ("lidar", 1, 100_000, False),
    ("clustered", 1, 100_000, False),
    ("all equal", 1, 100_000, False),
    ("sphere", 64, 1_024, False),
    ("sphere", 1, 1_000_000, False),
    ("lidar", 1, 1_000_000, False),
)
LONGEST_REFERENCE = 20_000


def main() -> None:
    bench = Bench("build")
    if bench.device == "cpu":
        sys.exit("the tree is built on a GPU: use --emulated without one")
    for cloud, clouds, size, quick in CASES:
        sizes = {"clouds": clouds, "points": size}
        if bench.wanted(cloud, quick=quick, **sizes):
            _case(bench, cloud, sizes)
    bench.end()


def _case(bench: Bench, cloud: str, sizes: dict[str, int]) -> None:
    clouds, size = sizes["clouds"], sizes["points"]
    points = torch.cat([CLOUDS[cloud](size, seed) for seed in range(clouds)])
    there = points.to(bench.device)

    def call() -> tuple[torch.Tensor, ...]:
        tree = build(there, clouds=clouds)
        return tree.keys, tree.leaves.view(torch.int32), tree.boxes.view(torch.int32)

    def reference() -> tuple[torch.Tensor, ...]:
        begins = list(range(0, len(points), size))
        tree = tree_reference(points, begins, key_bits(len(points)))
        return tree.keys, tree.leaves.view(torch.int32), tree.boxes.view(torch.int32)

    def other_tiles() -> tuple[torch.Tensor, ...]:
        kept = sort.SORT_LONG_TILES
        sort.SORT_LONG_TILES = 0 if len(points) <= kept else 2**31
        try:
            return tuple(part.cpu() for part in call())
        finally:
            sort.SORT_LONG_TILES = kept

    short = len(points) <= LONGEST_REFERENCE
    against = "reference" if short else "tiles of other sizes"
    bench.case(cloud, sizes, {OURS: call}, reference if short else other_tiles, against=against)


if __name__ == "__main__":
    main()
