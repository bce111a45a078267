"""Cells of a regular grid on CPU tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import flush
from mps_pointops.ops.grid_cluster.arguments import prepare


def grid_cluster_cpu(
    pos: Tensor, size: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """Operator kernel; arguments as the schema in `grid_cluster.py`."""
    points, size, start, end = prepare(pos, size, start, end)
    count, dim = points.shape
    ids = torch.zeros(count, dtype=torch.int64, device=points.device)
    valid = torch.ones(count, dtype=torch.bool, device=points.device)
    stride = torch.ones((), dtype=torch.int64, device=points.device)
    for d in range(dim):
        number, held = _cell_number(points[:, d], start[d], size[d])
        ids += stride * number
        valid &= held
        if d + 1 < dim:
            extent, held = _cell_number(end[d], start[d], size[d])
            stride = stride * (extent + 1)
            valid &= held
    return torch.where(valid, ids, -1)


def _cell_number(p: Tensor, start: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """`(p - start) / size` toward zero, and whether int64 holds it."""
    if p.dtype == torch.int64:
        return _integer_cell_number(p, start, size)
    if p.dtype == torch.float32:  # as the GPU does
        quotient = flush(flush(p) - flush(start)) / flush(size)
    else:
        quotient = (p - start) / size
    held = quotient.abs() < 2.0**63  # NaN is not
    return torch.where(held, quotient, 0.0).to(torch.int64), held


def _integer_cell_number(p: Tensor, start: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    difference = p - start
    overflow = ((p ^ start) & (p ^ difference)) < 0
    lowest = difference == torch.iinfo(torch.int64).min
    held = ~overflow & (size != 0) & ~((size == -1) & lowest)
    divisor = torch.where(held, size, 1)
    return torch.div(torch.where(held, difference, 0), divisor, rounding_mode="trunc"), held
