"""Building a tree on MPS: launches of `keys.metal` and `boxes.metal` around the stable order."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, launch
from mps_pointops.ops.inverse_index.mps import STEPS, Sort
from mps_pointops.spatial.layout import WIDTH, Tree, levels

SAMPLES = 256  # as in keys.metal

KEYS = Source(
    __package__,
    "keys",
    {"RULE": (0,), "DIM": (0,), "STEPS": STEPS},
    "tree_points",
    kernels=("make_frame", "make_keys"),
)
BOXES = Source(
    __package__,
    "boxes",
    {"RULE": (0,), "DIM": (0,)},
    "tree_points",
    kernels=("make_leaves", "make_levels"),
)


def key_bits(count: int) -> int:
    """Bits of the keys of so many points: whole passes of the sort, and a few keys a point."""
    for bits, most in ((10, 2**9), (20, 2**18), (30, 2**28)):
        if count <= most:
            return bits
    return 31


def build(
    points: Tensor, first: Tensor | None = None, last: Tensor | None = None, clouds: int = 1
) -> Tree:
    """The tree of points on MPS; reads nothing from the device.

    Args:
        points: Points [N, D], D from 1 to 3, float32, contiguous.
        first: First row of the cloud of each query [M], int64, ascending; the clouds of queries
            may be some of all. Or of each cloud.
        last: Row after the last [M], likewise.
        clouds: Number of clouds of equal sizes, without `first`.
    """
    size, dim = points.shape
    found = levels(size)
    nodes = sum(count for _, count in found)
    leaves = points.new_empty((-(-size // WIDTH) * WIDTH, 4))
    boxes = points.new_empty((nodes, 8))
    frame = torch.empty((1 + SAMPLES, 4), dtype=torch.int32, device=points.device)
    keys = torch.empty(size, dtype=torch.int32, device=points.device)
    if size == 0:
        return Tree(dim, leaves, boxes, keys, frame.zero_())
    ragged = first is not None and last is not None and first.shape[0] > 0
    if first is None or last is None or first.shape[0] == 0:
        first = last = torch.empty(1, dtype=torch.int64, device=points.device)  # not read
    bits = key_bits(size)
    shape = [size, dim, first.shape[0] if ragged else 0, max(1, size // clouds), 2**bits // size]
    sort = Sort(keys, bits)
    make_frame, make_keys = (KEYS.kernel(0, 0, sort.steps, name=name) for name in KEYS.kernels)
    make_leaves, make_levels = (BOXES.kernel(0, 0, name=name) for name in BOXES.kernels)
    launch(make_frame, points, first, last, frame, shape[:4], groups=1, group_size=SAMPLES)
    ranges = (points, first, last)
    launch(make_keys, *ranges, frame, keys, sort.table, shape, groups=sort.tiles, group_size=256)
    sort.counted = True
    keys, order = sort.run()
    starts = [start for start, _ in found] + [0]
    counts = [count for _, count in found]
    groups = -(-counts[0] // WIDTH)
    shape = [size, dim, counts[0], starts[1]]
    launch(make_leaves, points, order, leaves, boxes, shape, groups=groups, group_size=1024)
    for level in range(1, len(found) - 1, 2):
        shape = [starts[level], counts[level], *found[level + 1], starts[level + 2]]
        groups = -(-counts[level + 1] // WIDTH)
        launch(make_levels, boxes, shape, groups=groups, group_size=1024)
    return Tree(dim, leaves, boxes, keys, frame)
