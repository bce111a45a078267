"""Gather and scatter, slow and obvious: what the kernels mean."""

from __future__ import annotations

import torch
from torch import Tensor


def gather_reference(features: Tensor, index: Tensor) -> Tensor:
    """Features [B, C, N] at index [B, M] -> [B, C, M]."""
    clouds = zip(features, index, strict=True)
    return torch.stack([feature[:, picked.long()] for feature, picked in clouds])


def scatter_reference(
    values: Tensor, index: Tensor, size: int, weight: Tensor | None = None
) -> Tensor:
    """Sums [B, C, size] of values [B, C, M] at index [B, M], in ascending order of position.

    With weights [B, M] the positions come in threes that share one value: values [B, C, M / 3].
    Products and sums are float32, each rounded.
    """
    out = values.new_zeros((*values.shape[:2], size))
    for b, row in enumerate(index.tolist()):
        for m, target in enumerate(row):
            part = values[b, :, m] if weight is None else values[b, :, m // 3] * weight[b, m]
            out[b, :, target] += part
    return out
