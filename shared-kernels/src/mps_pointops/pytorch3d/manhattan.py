"""k nearest neighbours by sums of absolute differences.

The kernels know squared distances and cosines only. This is tensor operations in bounded memory:
all distances of a block of queries, put in order by a stable sort.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mps_pointops._arithmetic import flush
from mps_pointops._integers import quotients, rests
from mps_pointops.ops.inverse_index.inverse_index import stable_order

DISTANCES_TOGETHER = 2**22
_INFINITE = 0x7F800000  # the bits of float32 infinity


def nearest_by_sum(p1: Tensor, p2: Tensor, sizes: Tensor | None, k: int) -> tuple[Tensor, Tensor]:
    """Distances and indices [N, P1, k] of clouds [N, P1, D], [N, P2, D], detached; k <= P2.

    Sums are made in coordinate order, every step rounded. `sizes` [N, P1]: how many points of its
    cloud each query looks at; None: all. Order: distance, then index. Slots without a neighbour:
    (inf, -1).
    """
    shape = (*p1.shape[:2], k)
    distance = p1.new_full(shape, torch.inf)
    index = torch.full(shape, -1, dtype=torch.int64, device=p1.device)
    for clouds, rows in _blocks(p1.shape[0], p1.shape[1], p2.shape[1] if k else 0):
        q, p = p1[clouds, rows], p2[clouds]
        candidate = torch.isfinite(q).all(dim=2).unsqueeze(2) & torch.isfinite(p).all(
            dim=2
        ).unsqueeze(1)
        if sizes is not None:
            place = torch.arange(p.shape[1], device=p.device)
            candidate = candidate & (place < sizes[clouds, rows].unsqueeze(2))
        found, order = _in_order(_sums(q, p), candidate, k)
        distance[clouds, rows], index[clouds, rows] = found, order
    return distance, index


def _blocks(clouds: int, rows: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of few distances: several clouds, or a part of the rows of one."""
    if rows == 0 or size == 0:
        return
    rows_together = min(rows, max(1, DISTANCES_TOGETHER // size))
    clouds_together = max(1, DISTANCES_TOGETHER // (rows_together * size))
    for cloud in range(0, clouds, clouds_together):
        for row in range(0, rows, rows_together):
            yield slice(cloud, cloud + clouds_together), slice(row, row + rows_together)


def _sums(q: Tensor, p: Tensor) -> Tensor:
    """|q - p| summed over coordinates, [N, P1, P2]; subnormal numbers are zero, as on the GPU."""
    keep = q.dtype == torch.float64
    if not keep:
        q, p = flush(q), flush(p)
    total = q.new_zeros((q.shape[0], q.shape[1], p.shape[1]))
    for d in range(q.shape[2]):
        t = (q[:, :, None, d] - p[:, None, :, d]).abs()
        total = total + (t if keep else flush(t))
    return total


def _in_order(distance: Tensor, candidate: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k candidates of each row [N, P1, P2] by (distance, index)."""
    if distance.device.type == "mps":
        # neither a stable sort nor one of int64 can be relied on there
        bits = torch.where(candidate, distance.contiguous().view(torch.int32), _INFINITE + 1)
        size = distance.shape[2]
        _, order = stable_order(bits.flatten(), _INFINITE + 1)
        rows = bits.numel() // size
        row, place = (part(rows, size, distance.device) for part in (quotients, rests))
        _, by_row = stable_order(row.to(torch.int32)[order], rows)
        index = place[order[by_row]].view(distance.shape)[..., :k]
    else:
        ordered = torch.where(candidate, distance, torch.nan).sort(dim=2, stable=True)
        index = ordered.indices[..., :k]
    hit = candidate.gather(2, index)
    found = distance.gather(2, index)
    return torch.where(hit, found, torch.inf), torch.where(hit, index, -1)
