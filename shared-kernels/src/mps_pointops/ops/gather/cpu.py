"""Gather and scatter on CPU tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def gather_cpu(features: Tensor, index: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`."""
    return features.detach().gather(2, _wide(index, features.shape[1]))


def scatter_cpu(values: Tensor, index: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`.

    On the CPU torch adds along a row one after the other, in the order of positions, and shares out
    whole rows among its threads: the fixed order of the contract.
    """
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    parts = values.detach().to(wide)
    if weight is not None:
        threes = weight.detach().to(wide).reshape(len(weight), 1, weight.shape[1] // 3, 3)
        parts = (parts.unsqueeze(3) * threes).flatten(2)
    out = parts.new_zeros((*values.shape[:2], size))
    return out.scatter_add_(2, _wide(index, values.shape[1]), parts).to(values.dtype)


def _wide(index: Tensor, channels: int) -> Tensor:
    """The same index [B, M] for every channel [B, C, M]."""
    return index.to(torch.int64).unsqueeze(1).expand(-1, channels, -1)
