"""How well points are ordered: leaves that no search can pass over, under several kinds of keys.

    python bench/spatial/leaves.py [--emulated] [--points N]

For 256 points of each cloud, searched for 16 neighbours: leaves of 32 points whose box is not
farther away than the last neighbour, on average.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from harness import CLOUDS, some_of

QUERIES, K, WIDTH = 256, 16, 32
NAMES = ("cube", "sphere", "scan", "lidar", "clustered", "far outlier", "line", "lattice")


def interleave(cells: np.ndarray, bits: int) -> np.ndarray:
    """Morton codes of cells [n, 3]."""
    code = np.zeros(len(cells), np.uint64)
    for bit in range(bits):
        for axis in range(3):
            code |= (cells[:, axis] >> np.uint64(bit) & np.uint64(1)) << np.uint64(3 * bit + axis)
    return code


def grid_order(points: torch.Tensor, bits: int) -> torch.Tensor:
    """Rows by the Morton code of so many bits an axis in the box of all points."""
    low, high = points.amin(0), points.amax(0)
    scale = (2**bits - 1) / float((high - low).max().clamp(min=1e-30))
    cells = ((points - low).double() * scale).numpy().astype(np.uint64)
    return torch.from_numpy(interleave(cells, bits).argsort(kind="stable"))


def rank_order(points: torch.Tensor) -> torch.Tensor:
    """Rows by the Morton code of the ranks of the coordinates in a sample of 1,023 points."""
    sample = points[torch.arange(1023) * len(points) // 1023].sort(dim=0).values
    ranks = [
        torch.searchsorted(sample[:, d].contiguous(), points[:, d].contiguous()) for d in (0, 1, 2)
    ]
    cells = torch.stack(ranks, 1).numpy().astype(np.uint64)
    return torch.from_numpy(interleave(cells, 10).argsort(kind="stable"))


def leaves(points: torch.Tensor, orders: tuple[torch.Tensor, ...]) -> list[float]:
    """Leaves that a search cannot pass over, on average, for each order."""
    boxes = []
    for order in orders:
        padded = torch.cat((order, order[-1:].expand(-len(order) % WIDTH)))
        sets = points[padded].view(-1, WIDTH, 3)
        boxes.append((sets.amin(1), sets.amax(1)))
    opened = [0] * len(orders)
    for query in some_of(points, QUERIES):
        last = (points - query).square().sum(1).kthvalue(K).values
        for number, (low, high) in enumerate(boxes):
            gap = torch.maximum(low - query, query - high).clamp(min=0)
            opened[number] += int((gap.square().sum(1) <= last).sum())
    return [count / QUERIES for count in opened]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--emulated", action="store_true", help="Metal kernels in software")
    options = parser.parse_args()
    if options.emulated:
        import mps_emulator

        mps_emulator.install()
    device = "mps" if torch.backends.mps.is_available() else "cuda"
    from mps_pointops.spatial.build import build

    print(f"{'cloud':14}{'ours':>9}{'10 bits':>9}{'20 bits':>9}{'ranks':>9}")
    for name in NAMES:
        points = CLOUDS[name](options.points)
        ours = build(points.to(device)).order.cpu().long()
        orders = (ours, grid_order(points, 10), grid_order(points, 20), rank_order(points))
        counts = "".join(f"{count:9.1f}" for count in leaves(points, orders))
        print(f"{name:14}{counts}", flush=True)


if __name__ == "__main__":
    main()
