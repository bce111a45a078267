"""Gather and scatter on MPS: launches of `gather.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, blocks, launch
from mps_pointops.ops.inverse_index.inverse_index import positions_of

_OPTIONS = {"RULE": (0,), "DIM": (3,), "WORD": (2, 4), "INDEX": (4, 8), "WEIGHTED": (0, 1)}
SOURCE = Source(__package__, "gather", _OPTIONS, kernels=("gather", "scatter"))

GROUP_SIZE = 256
RESULTS_PER_DISPATCH = 2**28
_WORDS = {2: torch.int16, 4: torch.int32}
_NAN = {torch.float32: 0x7FC00000, torch.float16: 0x7E00, torch.bfloat16: 0x7FC0}


def gather_mps(features: Tensor, index: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`."""
    features, index = features.detach().contiguous(), index.detach().contiguous()
    clouds, channels, size = features.shape
    count = index.shape[1]
    out = features.new_empty((clouds, channels, count))
    if size == 0:
        return out.fill_(torch.nan)
    word = features.element_size()
    kernel = SOURCE.kernel(0, 3, word, index.element_size(), 0, name="gather")
    for first, end in blocks(out.numel(), 1, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            features.view(_WORDS[word]),
            index,
            out.view(_WORDS[word]),
            [channels, size, count, _NAN[features.dtype], first, end],
            groups=-(-(end - first) // GROUP_SIZE),
            group_size=GROUP_SIZE,
        )
    return out


def scatter_mps(values: Tensor, index: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`."""
    dtype = values.dtype
    values = values.detach().to(torch.float32).contiguous()
    clouds, channels, _ = values.shape
    count = index.shape[1]
    out = values.new_empty((clouds, channels, size))
    if out.numel() == 0 or count == 0:
        return out.zero_().to(dtype)
    order, starts = positions_of(index.detach(), size)
    kernel = SOURCE.kernel(0, 3, 4, 4, int(weight is not None), name="scatter")
    factors = values if weight is None else weight.detach().to(torch.float32).contiguous()
    for first, end in blocks(out.numel(), 1, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            values,
            order,
            starts,
            factors,
            out,
            [channels, size, count, first, end],
            groups=-(-(end - first) // GROUP_SIZE),
            group_size=GROUP_SIZE,
        )
    return out.to(dtype)
