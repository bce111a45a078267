"""Cells of a regular grid, slow and obvious: what the kernels mean."""

from __future__ import annotations

import ctypes
import math

import torch
from torch import Tensor


def grid_cluster_reference(points: Tensor, size: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Points [N, D] and a grid of [D] numbers each, of one dtype, on the CPU: ids [N]."""
    grid = list(zip(size.tolist(), start.tolist(), end.tolist(), strict=True))
    ids = []
    for point in points.tolist():
        pairs = zip(point, grid, strict=True)
        numbers = [_cell_number(p, low, s, points.dtype) for p, (s, low, _) in pairs]
        extents = [_cell_number(high, low, s, points.dtype) for s, low, high in grid[:-1]]
        ids.append(_id(numbers, extents))
    return torch.tensor(ids, dtype=torch.int64)


def _id(numbers: list[int | None], extents: list[int | None]) -> int:
    total, stride = 0, 1
    for d, number in enumerate(numbers):
        if number is None:
            return -1
        total += stride * number
        if d < len(extents):
            extent = extents[d]
            if extent is None:
                return -1
            stride *= extent + 1
    return (total + 2**63) % 2**64 - 2**63  # int64 wraps around


def _cell_number(p: float, start: float, size: float, dtype: torch.dtype) -> int | None:
    """`(p - start) / size` toward zero; None if int64 does not hold a step of it."""
    if dtype == torch.int64:
        return _integer_cell_number(int(p), int(start), int(size))
    step = _round if dtype == torch.float32 else float
    # a float64 sum or quotient of two floats, rounded again, is rounded as if once
    difference, size = step(step(p) - step(start)), step(size)
    if not math.isfinite(difference) or math.isnan(size) or size == 0:
        return None
    quotient = step(difference / size)
    return int(quotient) if abs(quotient) < 2.0**63 else None


def _integer_cell_number(p: int, start: int, size: int) -> int | None:
    difference = p - start
    if not -(2**63) <= difference < 2**63 or size == 0:
        return None
    number = abs(difference) // abs(size)
    if (difference < 0) != (size < 0):
        number = -number
    return number if number < 2**63 else None


def _round(x: float) -> float:
    """To float32; subnormal numbers are zero."""
    rounded = ctypes.c_float(x).value
    return 0.0 if abs(rounded) < 2.0**-126 else rounded
