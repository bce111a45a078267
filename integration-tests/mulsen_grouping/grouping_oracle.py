"""What pointnet2_ops and KNN_CUDA answer, in NumPy alone.

Shares no code with the package or its references. Squared distances have the roundings of the CUDA
kernels; a fused step is one addition of an exact product, rounded once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
_HALF = np.int64(1 << 28)  # of a unit in the last place of float32, in the bits of a float64
_BELOW = np.int64((1 << 29) - 1)


def fused(a: Floats, c: Floats) -> Floats:
    """a * a + c, rounded once to float32."""
    wide = a.astype(np.float64)
    product, addend = wide * wide, c.astype(np.float64)  # the product is exact
    total = product + addend
    result = total.astype(np.float32)
    # twice rounded is wrong only where the first result lies half way between two float32
    half = np.flatnonzero((total.view(np.int64) & _BELOW) == _HALF)
    if len(half):
        p, q, s = product[half], np.broadcast_to(addend, total.shape)[half], total[half]
        part = s - p
        lost = (p - (s - part)) + (q - part)
        moved = np.where(lost > 0, np.nextafter(s, np.inf), np.nextafter(s, -np.inf))
        result[half] = np.where(lost == 0, s, moved).astype(np.float32)
    return result


def squared(points: Floats, centre: Floats, order: tuple[int, int, int]) -> Floats:
    """Squared distances [N]: the first axis' square is rounded, the others are fused in order."""
    difference = [points[:, axis] - centre[axis] for axis in order]
    total = difference[0] * difference[0]
    return fused(difference[2], fused(difference[1], total))


def sample(points: Floats, number: int) -> NDArray[np.int64]:
    """Farthest point sampling of pointnet2_ops: its origin rule, ties in the order of its block."""
    size = len(points)
    block = 1
    while block * 2 <= min(size, 512):
        block *= 2
    bits = block.bit_length() - 1
    index = np.arange(size)
    thread = index % block
    reverse = np.zeros(size, np.int64)
    for bit in range(bits):
        reverse |= ((thread >> bit) & 1) << (bits - 1 - bit)
    norm = squared(points, np.zeros(3, np.float32), (1, 0, 2)).astype(np.float64)
    order = np.lexsort((index // block, reverse))
    order = order[~(norm[order] <= 1e-3)]  # argmax takes the first of equal values
    ordered = np.ascontiguousarray(points[order])
    nearest = np.full(len(order), np.inf, np.float32)
    picks = np.zeros(number, np.int64)
    for slot in range(1, number if len(order) else 0):
        centre = points[picks[slot - 1]]
        np.minimum(nearest, squared(ordered, centre, (1, 0, 2)), out=nearest)
        picks[slot] = order[nearest.argmax()]
    return picks


def neighbours(points: Floats, query: Floats, k: int) -> NDArray[np.int64]:
    """The first k points of every query by (squared distance, index), from every pair."""
    found = np.empty((len(query), k), np.int64)
    for row, centre in enumerate(query):
        distance = squared(points, centre, (0, 1, 2))
        last = np.partition(distance, k - 1)[k - 1]
        near = np.flatnonzero(distance <= last)  # ascending, so a stable sort breaks ties by index
        found[row] = near[distance[near].argsort(kind="stable")[:k]]
    return found
