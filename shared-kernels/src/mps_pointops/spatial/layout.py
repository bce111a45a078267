"""What a tree is in memory: the same for whoever builds it and whoever walks it.

The kernels read it by these rules:

- Tree order: the points sorted by (cloud, key), equal keys by row. So the points of a cloud with
  the rows [first, last) lie at the places [first, last).
- A leaf is 32 consecutive places, a node of level 0 the box of a leaf, a node of the next level the
  box of 32 consecutive nodes. The last level has at most 32 nodes.
- Leaves and nodes may hold points of several clouds. Whether a point is one of a query's is told by
  its row, whether a node can have any by its smallest and largest row. That is right whatever the
  order of the points; that clouds stay together makes it quick.
- A point that is not finite takes no part: its row is NOTHING and it changes no box.
- Coordinates are finite, none is subnormal or -0, those beyond the dimension are 0. That changes no
  bit of a distance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

WIDTH = 32
MAX_DIM = 3
NOTHING = -1  # row, as int32, of what is not there: NOTHING of arithmetic.metal
LARGEST = torch.finfo(torch.float32).max  # an empty box is from LARGEST to -LARGEST


def levels(count: int) -> list[tuple[int, int]]:
    """Where each level begins in `boxes` and how many nodes it has, leaves first.

    No level for no points.
    """
    found: list[tuple[int, int]] = []
    begin, nodes = 0, -(-count // WIDTH)
    while nodes:
        found.append((begin, nodes))
        if nodes <= WIDTH:
            break
        begin, nodes = begin + nodes, -(-nodes // WIDTH)
    return found


@dataclass(frozen=True)
class Tree:
    """A tree over N points.

    Attributes:
        dim: Coordinates of a point, 1 to 3.
        leaves: [32 * ceil(N / 32), 4], float32, by place: x, y, z, and the bits of the row (int32).
        boxes: [nodes, 8], float32: lower x, y, z, and the bits of the smallest row below; upper
            x, y, z, and the bits of the largest row below. Empty: LARGEST, NOTHING, -LARGEST,
            NOTHING. Levels follow each other as `levels` tells.
        keys: [N], int32, ascending in each cloud, by place.
        frame: What keys are made of; the builder's own.
    """

    dim: int
    leaves: Tensor
    boxes: Tensor
    keys: Tensor
    frame: Tensor

    @property
    def size(self) -> int:
        """Number of points."""
        return self.keys.shape[0]

    @property
    def levels(self) -> list[tuple[int, int]]:
        """See the function `levels`."""
        return levels(self.size)

    @property
    def order(self) -> Tensor:
        """Row of each place [N], int32, a strided view; NOTHING for a point that is not finite."""
        return self.leaves.view(torch.int32)[: self.size, 3]

    def to(self, device: torch.device | str) -> Tree:
        """The same tree on another device."""
        return replace(
            self,
            leaves=self.leaves.to(device),
            boxes=self.boxes.to(device),
            keys=self.keys.to(device),
            frame=self.frame.to(device),
        )
