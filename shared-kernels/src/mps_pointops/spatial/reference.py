"""The tree, slow and obvious: what the kernels build."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mps_pointops.spatial.layout import LARGEST, NOTHING, WIDTH, Tree, levels

_SAMPLES, _FAR = 256, np.float32(512)
_AXIS_BITS, _HALF_BITS = 20, 30
_TINY = np.finfo(np.float32).tiny
_Floats = NDArray[np.float32]
# first row of the cloud, Morton code
_Sample = tuple[int, int]


def tree_reference(points: Tensor, begins: list[int] | None = None, bits: int = 20) -> Tree:
    """The tree of points [N, D <= 3], float32, on the CPU.

    Args:
        points: Points.
        begins: First row of each cloud, ascending; none: one cloud.
        bits: Of the keys, so many that there is one for every point.
    """
    size, dim = points.shape
    xyz = torch.zeros(size, 3)
    xyz[:, :dim] = points
    finite = torch.isfinite(xyz).all(dim=1)
    xyz = torch.where((xyz.abs() < float(_TINY)) | ~finite.unsqueeze(1), 0.0, xyz)
    edges = sorted({0, size, *(begins or [])})
    keys, frame = (
        _keys(xyz.numpy(), finite.tolist(), edges, bits)
        if size
        else ([], [[0] * 4] * (_SAMPLES + 1))
    )
    order = torch.tensor(sorted(range(size), key=lambda row: (keys[row], row)), dtype=torch.int64)
    leaves = torch.zeros(-(-size // WIDTH) * WIDTH, 4)
    rows = leaves.view(torch.int32)[:, 3]
    rows[:] = NOTHING
    leaves[:size, :3] = xyz[order]
    rows[:size] = torch.where(finite[order], order, NOTHING).to(torch.int32)
    by_place = torch.tensor(keys, dtype=torch.int32)[order]
    number = torch.tensor(frame, dtype=torch.int64).to(torch.int32)
    return Tree(dim, leaves, _boxes(leaves, size), by_place, number)


def _flush(x: _Floats) -> _Floats:
    return np.where(np.abs(x) < _TINY, np.float32(0), x).astype(np.float32)


def _grid(sample: _Floats, finite: NDArray[np.bool_]) -> tuple[_Floats, np.float32]:
    """Lower corner [3] and scale of the grid of the Morton codes."""
    ends = []
    for sign in (np.float32(1), np.float32(-1)):
        values = np.where(finite[:, None], sign * sample, np.float32(LARGEST)).reshape(-1, 32, 3)
        second = np.sort(values, axis=1)[:, 1]
        ends += [
            sign * values.min(axis=(0, 1)),
            sign * np.sort(second, axis=0)[len(second) // 2 - 1],
        ]
    low, bulk_low, high, bulk_high = ends
    with np.errstate(over="ignore"):
        spread = max(np.float32(0), _flush(bulk_high - bulk_low).max())
        if spread > 0:
            low = np.maximum(low, _flush(bulk_low - _FAR * spread))
            high = np.minimum(high, _flush(bulk_high + _FAR * spread))
        extent = max(np.float32(0), _flush(high - low).max())
    exponent = int(np.float32(extent).view(np.uint32)) >> 23
    return low, np.float32(2.0) ** (min(254, 127 + _AXIS_BITS - 1 + 127 - exponent) - 127)


def _code(point: _Floats, low: _Floats, scale: np.float32) -> int:
    with np.errstate(over="ignore"):
        cells = np.clip(_flush(_flush(point - low) * scale), 0, 2**_AXIS_BITS - 1).astype(np.int64)
    code = 0
    for bit in range(_AXIS_BITS):
        for axis in range(3):
            code |= (int(cells[axis]) >> bit & 1) << (3 * bit + axis)
    return code


def _keys(
    xyz: _Floats, finite: list[bool], edges: list[int], bits: int
) -> tuple[list[int], list[list[int]]]:
    """Keys by row, and the frame."""
    size = len(xyz)
    rows = [number * size // _SAMPLES for number in range(_SAMPLES)]
    low, scale = _grid(xyz[rows], np.array(finite)[rows])
    largest = 2 ** (2 * _HALF_BITS) - 1
    codes = [_code(p, low, scale) if f else largest for p, f in zip(xyz, finite, strict=True)]
    cloud = [bisect_right(edges, row) - 1 for row in range(size)]
    samples = sorted((edges[cloud[row]], codes[row]) for row in rows)
    each = 2**bits // size
    keys = []
    for row in range(size):
        begin, end = edges[cloud[row]], edges[cloud[row] + 1]
        width = (end - begin) * each
        within = _place(samples, (begin, codes[row]), width) if finite[row] else width - 1
        keys.append(begin * each + within)
    head = [int(np.float32(x).view(np.int32)) for x in (*low, scale)]
    half = 2**_HALF_BITS
    return keys, [head] + [
        [
            b,
            code // half,
            code % half,
            bisect_left(samples, (b, 0)) | bisect_left(samples, (b + 1, 0)) << 16,
        ]
        for b, code in samples
    ]


def _place(samples: list[_Sample], own: _Sample, width: int) -> int:
    """Key of a point among the `width` keys of its cloud."""
    first, last = bisect_left(samples, (own[0], 0)), bisect_left(samples, (own[0] + 1, 0))
    before = bisect_right(samples, own)
    gap_begin = samples[before - 1][1] if before > first else 0
    gap_end = samples[before][1] if before < last else 2 ** (2 * _HALF_BITS) - 1
    gap = gap_end - gap_begin
    shift = max(0, gap.bit_length() - 16)
    part = ((own[1] - gap_begin >> shift) << 15) // ((gap >> shift) + 1)
    share, rest = divmod(width, last - first + 1)
    number = before - first
    start = share * number + min(number, rest)
    here = share + (number < rest)
    return min(start + (part * here >> 15), width - 1)


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
