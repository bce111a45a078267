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

    The product of a sparse matrix, whose column m has a one in row `index[m]`, with the values:
    SciPy goes through columns in order and adds all channels of a position at once, so every sum
    is in the order of positions, as in the Metal kernel. Targets out of range are left out.
    """
    from scipy.sparse import csc_matrix  # type: ignore[import-untyped]  # 0.1 s, for sums only

    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    clouds, channels, _ = values.shape
    count = clouds * index.shape[1]
    out = values.new_zeros((clouds, channels, size))
    if out.numel() == 0 or count == 0:
        return out
    rows = values.detach().to(wide).transpose(1, 2)
    if weight is None:
        rows = rows.reshape(count, channels)
    else:
        factors = weight.detach().to(wide).reshape(clouds, -1, 3, 1)
        rows = (rows.unsqueeze(2) * factors).view(count, channels)
    target = index.detach().to(torch.int64)
    outside = (target < 0) | (target >= size)
    target = (target + torch.arange(clouds).unsqueeze(1) * size).flatten()
    if bool(outside.any()):  # nothing is added to the first target instead
        outside = outside.flatten()
        target = torch.where(outside, 0, target)
        rows = torch.where(outside.unsqueeze(1), 0.0, rows)
    addends = rows.contiguous().numpy()
    # weights are no entries of the matrix: a compiler may fuse that product with the sum
    entries = (np.ones(count, addends.dtype), target.numpy(), np.arange(count + 1))
    sums = csc_matrix(entries, shape=(clouds * size, count)) @ addends
    return out.copy_(torch.from_numpy(sums).view(clouds, size, channels).transpose(1, 2))
