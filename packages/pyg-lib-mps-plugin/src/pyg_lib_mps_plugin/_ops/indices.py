"""Operators on indices: order and pointers."""

from __future__ import annotations

import torch
from torch import Tensor

import mps_pointops  # noqa: F401  (defines torch.ops.mps_pointops)


def stable_order(keys: Tensor, highest: int) -> Tensor:
    """Positions [n], int64, of int32 keys from 0 to `highest` in ascending order, equal ones kept.

    torch's own sorts of integers are wrong on some releases of macOS.
    """
    _, order = torch.ops.mps_pointops.stable_order(keys, highest)
    return order.to(torch.int64)  # type: ignore[no-any-return]


def convert_indices_from_coo_to_csr(
    indices: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """`aten::_convert_indices_from_coo_to_csr`: where each of `size` rows begins [size + 1].

    Rows must be sorted, as for torch's own kernel.
    """
    rows = torch.arange(size + 1, device=indices.device, dtype=indices.dtype)
    return torch.searchsorted(indices.detach().contiguous(), rows, out_int32=out_int32)
