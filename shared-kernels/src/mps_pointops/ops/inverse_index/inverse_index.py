"""Inverse index: operator. Internal: backward passes are made of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._registry import register
from mps_pointops.ops.inverse_index.mps import stable_order_mps


def positions_of(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """For every target the positions that point to it, ascending.

    Args:
        index: Targets [B, M], int32 or int64, counted in the cloud. Those outside 0 ... size - 1
            point nowhere.
        size: Targets per cloud.

    Returns:
        Positions [B * M], int32, counted in the whole input, and where the positions of a target
        begin [B * size + 1], int64: target n of cloud b has
        `order[first[b * size + n]:first[b * size + n + 1]]`.
    """
    clouds = index.shape[0]
    base = torch.arange(clouds, device=index.device, dtype=torch.int64).unsqueeze(1) * size
    valid = (index >= 0) & (index < size)
    keys = torch.where(valid, index + base, clouds * size).flatten().to(torch.int32)
    keys, order = stable_order(keys, clouds * size)
    targets = torch.arange(clouds * size + 1, device=index.device, dtype=torch.int32)
    return order, torch.searchsorted(keys, targets)


def _stable_order_cpu(keys: Tensor, highest: int) -> tuple[Tensor, Tensor]:
    ordered, order = torch.sort(keys, stable=True)
    return ordered, order.to(torch.int32)


def _fake(keys: Tensor, highest: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(keys), torch.empty_like(keys)


# Keys [n], int32, 0 ... highest: in ascending order, and where each was. Equal keys keep their
# order.
stable_order = register(
    "stable_order(Tensor keys, SymInt highest) -> (Tensor, Tensor)",
    cpu=_stable_order_cpu,
    mps=stable_order_mps,
    fake=_fake,
)
