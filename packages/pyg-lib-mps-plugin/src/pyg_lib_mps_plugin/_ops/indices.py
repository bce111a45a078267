"""Operators on indices: order and pointers."""

from __future__ import annotations

import builtins

import torch
from torch import Tensor

import mps_pointops  # noqa: F401  (defines torch.ops.mps_pointops)
from pyg_lib_mps_plugin._ops.sizes import fail

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_ALL_BITS = 2**32 - 1


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

    Rows must be sorted, as for torch's own kernel. Pointers of rows that are not would join clouds
    without a word. They are turned round, which is in range, needs no read-back, and is refused by
    every operator that takes pointers of clouds.
    """
    if indices.dtype not in _INTEGERS or indices.dim() != 1 or size < 0:
        got = f"{indices.dtype} of shape {list(indices.shape)} and size {size}"
        raise ValueError(
            "aten::_convert_indices_from_coo_to_csr: indices must be a vector of integers and size "
            f"at least 0, got {got}"
        )
    if indices.dtype != torch.int32:
        indices = indices.to(torch.int64)
    indices = indices.detach().contiguous()
    rows = torch.arange(size + 1, device=indices.device, dtype=indices.dtype)
    ptr = torch.searchsorted(indices, rows, out_int32=out_int32)
    return torch.where((indices[1:] >= indices[:-1]).all(), ptr, ptr.flip(0))


def index_sort(indices: Tensor, max: int | None = None) -> tuple[Tensor, Tensor]:
    """`pyg::index_sort`: values ascending and where each was; equal ones keep their order.

    `max` is the largest value of indices that are not negative; knowing it spares passes. Without
    it, any integers are sorted. Nothing is read back.
    """
    op = "index_sort"
    if indices.dtype not in _INTEGERS:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in _INTEGERS)
        raise TypeError(f"pyg::{op}: indices must be of one of {names}, got {indices.dtype}")
    if indices.dim() != 1:
        fail(op, "indices", "a vector", f"shape {list(indices.shape)}")
    values = indices.contiguous()
    if max is not None and max < 2**31:
        order = stable_order(values.to(torch.int32), builtins.max(max, 0))
    elif indices.dtype != torch.int64:
        # the sign bit turned, integers are ordered as the unsigned ones of their bits
        order = stable_order(values.to(torch.int32) ^ -(2**31), _ALL_BITS)
    else:
        words = values.view(torch.int32).view(-1, 2)  # low, high
        order = stable_order(words[:, 0].contiguous(), _ALL_BITS)
        order = order[stable_order(words[:, 1][order] ^ -(2**31), _ALL_BITS)]
    return values.index_select(0, order), order
