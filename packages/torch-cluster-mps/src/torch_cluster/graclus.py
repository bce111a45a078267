"""Pairs of neighbouring nodes."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds
from torch_cluster._numbers import number_of


def graclus_cluster(
    row: Tensor, col: Tensor, weight: Tensor | None = None, num_nodes: int | None = None
) -> Tensor:
    """Match nodes of a graph in pairs: a maximal matching, heavier edges first.

    Args:
        row: One end of every edge [E], int64 or int32, on cpu or mps.
        col: The other end [E], likewise, same device.
        weight: Weights [E], any real dtype, same device; None: all equal. Edges of a negative
            weight or NaN never match.
        num_nodes: Number of nodes; None: the largest index + 1, which reads the device once.

    Returns:
        Cluster of every node [num_nodes], int64, on the device of `row`: the smaller index of the
        pair, or its own. Edges of equal weight come in an order drawn from torch's generator of
        the device, so `torch.manual_seed` repeats it. Self loops never match.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes, different devices, a negative `num_nodes`.
        IndexError: an index below 0 or not below `num_nodes`. With `num_nodes` on MPS that is
            looked at only under MPS_POINTOPS_CHECK_INDICES=1; unchecked, such an edge never
            matches.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        tensors, count = {"row": row, "col": col}, {"num_nodes": num_nodes}
        check_kinds("graclus_cluster", tensors, {"weight": weight}, {}, count)
        num_nodes = number_of("graclus_cluster", "num_nodes", num_nodes)
    cluster: Tensor = torch.ops.mps_pointops.graclus_cluster(row, col, weight, num_nodes)
    return cluster
