"""Cells of a regular grid: public function and operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._registry import register
from mps_pointops.ops.grid_cluster.arguments import check_tensor
from mps_pointops.ops.grid_cluster.cpu import grid_cluster_cpu
from mps_pointops.ops.grid_cluster.mps import grid_cluster_mps


def grid_cluster(
    pos: Tensor, size: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """The cell of a regular grid in which every point lies.

    Args:
        pos: Points [N, D], any D >= 1, on cpu or mps; any other rank is taken as (N, -1), so a
            vector has D = 1. Floats of any width or integers, not bool.
        size: Edge lengths of a cell [D], in the unit of `pos`, same device.
        start: Where the grid begins [D]; None: the lowest coordinates of the finite points.
        end: Where the grid ends [D]; None: the highest coordinates of the finite points.

    Returns:
        Ids [N], int64: `c_0 + n_0 * (c_1 + n_1 * (c_2 + ...))` with cell numbers
        `c_d = trunc((pos_d - start_d) / size_d)` and numbers of cells
        `n_d = trunc((end_d - start_d) / size_d) + 1`. Nothing is clamped: a point outside may get
        a negative id or that of another cell. A point has the id -1 if one of its `c_d`, or
        an `n_d` that is used, is not finite or not held by int64: coordinates that are not
        finite, sizes that are zero or NaN.

    Raises:
        TypeError: an argument is not a tensor of such a dtype.
        ValueError: wrong shapes, different devices.

    All arguments are promoted to one dtype: float64 (CPU only) is computed in float64, other
    floats in float32, every step rounded; integers exactly. There is no gradient. Contract:
    `ops/grid_cluster/README.md`.
    """
    check_tensor("pos", pos)
    check_tensor("size", size)
    for name, bound in (("start", start), ("end", end)):
        if bound is not None:
            check_tensor(name, bound)
    return _grid_cluster(pos, size, start, end)  # type: ignore[no-any-return]


def _fake(pos: Tensor, *grid: Any) -> Tensor:
    return pos.new_empty((pos.shape[0],), dtype=torch.int64)


_grid_cluster = register(
    "grid_cluster(Tensor pos, Tensor size, Tensor? start=None, Tensor? end=None) -> Tensor",
    cpu=grid_cluster_cpu,
    mps=grid_cluster_mps,
    fake=_fake,
)
