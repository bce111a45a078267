"""The tree, slow and obvious: what the kernels build."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops.spatial.layout import LARGEST, NOTHING, WIDTH, Tree, levels

_BITS = 10  # of an axis


def tree_reference(points: Tensor, begins: list[int] | None = None) -> Tree:
    """The tree of points [N, D <= 3], float32, on the CPU; `begins`: first row of each cloud."""
    size, dim = points.shape
    xyz = torch.zeros(size, 3)
    xyz[:, :dim] = points
    finite = torch.isfinite(xyz).all(dim=1)
    small = xyz.abs() < torch.finfo(torch.float32).tiny
    xyz = torch.where(small | ~finite.unsqueeze(1), 0.0, xyz)
    keys, frame = _keys(xyz)
    cloud = torch.zeros(size, dtype=torch.int64)
    for begin in begins or []:
        cloud[begin:] += 1
    order = torch.tensor(
        sorted(range(size), key=lambda row: (int(cloud[row]), int(keys[row]), row)),
        dtype=torch.int64,
    )
    leaves = torch.zeros(-(-size // WIDTH) * WIDTH, 4)
    rows = leaves.view(torch.int32)[:, 3]
    rows[:] = NOTHING
    leaves[:size, :3] = xyz[order]
    rows[:size] = torch.where(finite[order], order, NOTHING).to(torch.int32)
    return Tree(dim, leaves, _boxes(leaves, size), keys[order].to(torch.int32), frame)


def _keys(xyz: Tensor) -> tuple[Tensor, Tensor]:
    low = xyz.amin(dim=0) if len(xyz) else torch.zeros(3)
    extent = float((xyz.amax(dim=0) - low).max()) if len(xyz) else 0.0
    scale = (2**_BITS - 1) / extent if 0.0 < extent < float("inf") else 0.0
    cells = ((xyz.to(torch.float64) - low) * scale).to(torch.int64)
    keys = torch.zeros(len(xyz), dtype=torch.int64)
    for bit in range(_BITS):
        for axis in range(3):
            keys |= (cells[:, axis] >> bit & 1) << (3 * bit + axis)
    return keys, torch.cat((low, torch.tensor([scale], dtype=torch.float32)))


def _boxes(leaves: Tensor, size: int) -> Tensor:
    """Boxes of all levels [nodes, 8]."""
    found = levels(size)
    boxes = torch.empty(sum(count for _, count in found), 8)
    numbers = boxes.view(torch.int32)
    rows = leaves.view(torch.int32)[:, 3]
    for level, (begin, count) in enumerate(found):
        for node in range(count):
            first, last = node * WIDTH ** (level + 1), (node + 1) * WIDTH ** (level + 1)
            there = rows[first:last] != NOTHING
            inside, below = leaves[first:last, :3][there], rows[first:last][there]
            box, number = boxes[begin + node], numbers[begin + node]
            if len(below) == 0:
                box[:3], box[4:7] = LARGEST, -LARGEST
                number[3] = number[7] = NOTHING
                continue
            box[:3], box[4:7] = inside.amin(dim=0), inside.amax(dim=0)
            number[3], number[7] = below.min(), below.max()
    return boxes
