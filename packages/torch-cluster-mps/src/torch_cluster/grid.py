"""Voxels of a regular grid."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds


def grid_cluster(
    pos: Tensor, size: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """The number of the voxel of every point.

    Args:
        pos: Points [N, ...], flattened to [N, D]; any real dtype, on cpu or mps.
        size: Lengths of a voxel [D], in the unit of `pos`, same device.
        start: Corner where the grid begins [D], likewise; None: the smallest coordinates.
        end: Corner where it ends [D], likewise; None: the largest coordinates.

    Returns:
        Voxel numbers [N], int64, on the device of `pos`. Per dimension the place is
        `(pos - start) / size`, cut towards zero; the first dimension varies fastest. Points outside
        `start` and `end` are not moved inside: their numbers may be negative or those of other
        voxels.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes, different devices.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        check_kinds("grid_cluster", {"pos": pos, "size": size}, {"start": start, "end": end})
    cluster: Tensor = torch.ops.mps_pointops.grid_cluster(pos, size, start, end)
    return cluster
