"""Interpolation on CPU tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import fma
from mps_pointops.ops.gather.cpu import gather_cpu


def interpolate_cpu(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `interpolate.py`."""
    dtype = features.dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    features, weights = features.detach().to(wide), weight.detach().to(wide).unsqueeze(1)
    first, second, third = (gather_cpu(features, index[:, :, j]) for j in range(3))
    out = second * weights[..., 1]
    if wide == torch.float64:  # no wider type to fuse in
        out = third * weights[..., 2] + (first * weights[..., 0] + out)
    else:
        out = fma(third, weights[..., 2], fma(first, weights[..., 0], out))
    return out.to(dtype)
