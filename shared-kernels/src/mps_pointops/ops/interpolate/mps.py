"""Interpolation on MPS: launches of `interpolate.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, blocks, launch
from mps_pointops.ops.gather.mps import HELD, RESULTS_PER_DISPATCH, Grid, grid_of

SOURCE = Source(
    __package__,
    "interpolate",
    {"RULE": (0,), "DIM": (3,), "INDEX": (4, 8), "HELD": HELD},
    kernels=("interpolate", "interpolate_held"),
)


def interpolate_mps(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `interpolate.py`."""
    dtype = features.dtype
    features = features.detach().to(torch.float32).contiguous()
    weight = weight.detach().to(torch.float32).contiguous()
    index = index.detach().contiguous()
    clouds, channels, size = features.shape
    count = index.shape[1]
    out = features.new_empty((clouds, channels, count))
    if size == 0 or out.numel() == 0:
        return out.fill_(torch.nan).to(dtype)
    grid: Grid = grid_of(size, 4, clouds, channels, count, 3 * count)
    name = "interpolate_held" if grid.held else "interpolate"
    kernel = SOURCE.kernel(0, 3, index.element_size(), grid.held or HELD[0], name=name)
    for first, end in blocks(grid.groups, grid.results, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            features,
            index,
            weight,
            out,
            [channels, size, count, *grid.shape, first],
            groups=end - first,
            group_size=grid.threads,
        )
    return out.to(dtype)
