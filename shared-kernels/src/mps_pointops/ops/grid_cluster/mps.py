"""Cells of a regular grid on MPS: launches of `grid_cluster.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, blocks, launch
from mps_pointops._metal.dispatch import STEPS_PER_DISPATCH
from mps_pointops.ops.grid_cluster.arguments import prepare

SOURCE = Source(
    __package__,
    "grid_cluster",
    {"RULE": (0,), "DIM": (0,)},
    "division",
    kernels=("grid_cluster", "grid_cluster_integers"),
)
GROUP = 256
# two divisions a coordinate, each some tens of steps on integers
_STEPS_PER_COORDINATE = 64


def grid_cluster_mps(
    pos: Tensor, size: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """Operator kernel; arguments as the schema in `grid_cluster.py`."""
    points, *grid = prepare(pos, size, start, end)
    count, dim = points.shape
    ids = torch.empty(count, dtype=torch.int64, device=points.device)
    name = "grid_cluster" if points.is_floating_point() else "grid_cluster_integers"
    for begin, finish in blocks(count, _STEPS_PER_COORDINATE * dim, STEPS_PER_DISPATCH, GROUP):
        launch(
            SOURCE.kernel(0, 0, name=name),
            points,
            *grid,
            ids,
            [dim, begin, finish],
            groups=-(-(finish - begin) // GROUP),
            group_size=GROUP,
        )
    return ids
