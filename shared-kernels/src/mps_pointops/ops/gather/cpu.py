"""Gather and scatter on CPU tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def gather_cpu(features: Tensor, index: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`."""
    clouds, channels, _ = features.shape
    where = index.to(torch.int64).unsqueeze(1).expand(clouds, channels, index.shape[1])
    return features.detach().gather(2, where)


def scatter_cpu(values: Tensor, index: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`.

    `np.add.at` adds one after the other in the order of positions, as the Metal kernel does.
    """
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    parts = values.detach().to(wide)
    if weight is not None:
        parts = parts.repeat_interleave(3, dim=2) * weight.detach().to(wide).unsqueeze(1)
    out = values.new_zeros((*values.shape[:2], size), dtype=wide)
    sums, addends, targets = out.numpy(), parts.contiguous().numpy(), index.numpy()
    for b, row in enumerate(targets):
        for channel in range(sums.shape[1]):
            np.add.at(sums[b, channel], row, addends[b, channel])
    return out.to(values.dtype)
