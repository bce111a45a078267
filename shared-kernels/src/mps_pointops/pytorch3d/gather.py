"""Points at the indices that a search gave."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    check_features,
    check_index,
    check_same_device,
    check_same_size,
    fail_type,
    fail_value,
)
from mps_pointops.ops.gather.gather import gather
from mps_pointops.pytorch3d.lengths import check_lengths


def knn_gather(x: Tensor, idx: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Values of the neighbours that `knn_points` found.

    Args:
        x: Values [N, M, U] of the points that were searched, any dtype, on cpu or mps.
        idx: Indices into M [N, L, K], int64 or int32, same device.
        lengths: How many points of each cloud are real [N]: slots k >= lengths[n] are zeros;
            None: M.

    Returns:
        `out[n, l, k] = x[n, idx[n, l, k]]`, [N, L, K, U], in the dtype of `x`.

    Raises:
        TypeError, ValueError: wrong dtypes, shapes, devices, lengths outside 0 to M.
        IndexError: an index is out of range. Looked at on the CPU; on MPS only with
            MPS_POINTOPS_CHECK_INDICES=1. Unchecked there, such a slot of floats is NaN.

    `x` has a gradient of any order, summed in a fixed order. Contract: `pytorch3d/README.md`.
    """
    op = "knn_gather"
    x, idx = _check_rows(op, "x", x, idx)
    if idx.dim() != 3:
        fail_value(op, "idx", "of shape (N, L, K)", f"shape {list(idx.shape)}")
    slot = torch.arange(idx.shape[2], device=x.device)
    if lengths is not None:
        real = check_lengths(op, "lengths", lengths, "x", x).unsqueeze(1)
        return _look_up(op, x, idx, (slot < real).unsqueeze(1).expand_as(idx))
    if idx.shape[2] > x.shape[1]:
        return _look_up(op, x, idx, (slot < x.shape[1]).expand_as(idx))
    return _rows(op, x, idx)


def masked_gather(points: Tensor, idx: Tensor) -> Tensor:
    """Points at indices of which -1 stands for none.

    Args:
        points: Values [N, P, D], any dtype, on cpu or mps.
        idx: Indices into P [N, K] or [N, L, K], int64 or int32, same device; -1 in slots without
            a point.

    Returns:
        Values [N, K, D] or [N, L, K, D], zeros where `idx` is -1, in the dtype of `points`.

    Raises:
        TypeError, ValueError, IndexError: as `knn_gather`.

    `points` has a gradient of any order, summed in a fixed order. Contract: `pytorch3d/README.md`.
    """
    op = "masked_gather"
    points, idx = _check_rows(op, "points", points, idx)
    if idx.dim() not in (2, 3):
        fail_value(op, "idx", "of shape (N, K) or (N, L, K)", f"shape {list(idx.shape)}")
    if idx.dim() == 2:
        return _look_up(op, points, idx.unsqueeze(1), (idx != -1).unsqueeze(1)).squeeze(1)
    return _look_up(op, points, idx, idx != -1)


def _check_rows(op: str, name: str, x: Any, idx: Any) -> tuple[Tensor, Tensor]:
    for argument, value in ((name, x), ("idx", idx)):
        if not isinstance(value, Tensor):
            fail_type(op, argument, "a torch.Tensor", type(value).__name__)
    if x.dim() != 3:
        fail_value(op, name, "of shape (N, points, channels)", f"shape {list(x.shape)}")
    if x.is_floating_point():
        check_features(op, name, x)
    if idx.dtype not in (torch.int64, torch.int32):
        fail_type(op, "idx", "int64 or int32", str(idx.dtype))
    check_same_device(op, "idx", idx, name, x)
    if idx.dim():
        check_same_size(op, "idx", "batch size", idx.shape[0], name, x.shape[0])
    return x, idx


def _look_up(op: str, x: Tensor, idx: Tensor, hit: Tensor) -> Tensor:
    """Rows of x [N, M, U] at idx [N, L, K] where `hit`, else zeros: [N, L, K, U]."""
    clouds, size, channels = x.shape
    if size == 0 and not (idx.device.type == "cpu" and bool(hit.any())):
        x = x.new_full((clouds, 1, channels), torch.nan if x.is_floating_point() else 0)
    return _rows(op, x, torch.where(hit, idx, 0)).masked_fill(~hit.unsqueeze(3), 0)


def _rows(op: str, x: Tensor, idx: Tensor) -> Tensor:
    idx = check_index(op, "idx", idx, 3, x, x.shape[1])
    out: Tensor
    if x.is_floating_point():  # its backward adds in a fixed order
        out = gather(x.transpose(1, 2), idx.flatten(1)).transpose(1, 2)
    else:
        rows = idx.to(torch.int64).flatten(1).unsqueeze(2)
        out = x.gather(1, rows.expand(-1, -1, x.shape[2]))
    return out.reshape(*idx.shape, x.shape[2])
