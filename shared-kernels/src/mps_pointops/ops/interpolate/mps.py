"""Interpolation on MPS: launches of `interpolate.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, blocks, launch
from mps_pointops.ops.gather.mps import GROUP_SIZE, RESULTS_PER_DISPATCH

_OPTIONS = {"RULE": (0,), "DIM": (3,), "INDEX": (4, 8)}
SOURCE = Source(__package__, "interpolate", _OPTIONS)


def interpolate_mps(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `interpolate.py`."""
    dtype = features.dtype
    features = features.detach().to(torch.float32).contiguous()
    weight = weight.detach().to(torch.float32).contiguous()
    index = index.detach().contiguous()
    clouds, channels, size = features.shape
    count = index.shape[1]
    out = features.new_empty((clouds, channels, count))
    if size == 0:
        return out.fill_(torch.nan).to(dtype)
    kernel = SOURCE.kernel(0, 3, index.element_size())
    for first, end in blocks(out.numel(), 1, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            features,
            index,
            weight,
            out,
            [channels, size, count, first, end],
            groups=-(-(end - first) // GROUP_SIZE),
            group_size=GROUP_SIZE,
        )
    return out.to(dtype)
