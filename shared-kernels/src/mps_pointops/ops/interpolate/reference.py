"""Interpolation, slow and obvious: what the kernels mean."""

from __future__ import annotations

from torch import Tensor

from mps_pointops._arithmetic import fma


def three_interpolate_reference(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Features [B, C, m] at index [B, n, 3] with weights [B, n, 3] -> [B, C, n], float32."""
    out = features.new_empty((*features.shape[:2], index.shape[1]))
    for b, cloud in enumerate(features):
        for n, (which, w) in enumerate(zip(index[b].long(), weight[b], strict=True)):
            p = cloud[:, which]
            out[b, :, n] = fma(p[:, 2], w[2], fma(p[:, 0], w[0], p[:, 1] * w[1]))
    return out
