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
        row: One end of every edge [E], int64 or int32.
        col: The other end [E].
        weight: Weights [E], any real dtype; None: all equal. Edges of a negative weight or NaN
            never match.
        num_nodes: Number of nodes; None: the largest index + 1.

    Returns:
        Cluster of every node [num_nodes], int64: the smaller index of the pair, or its own. Edges
        of equal weight come in an order drawn from torch's generator of the device, so
        `torch.manual_seed` repeats it. Self loops never match.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        tensors, count = {"row": row, "col": col}, {"num_nodes": num_nodes}
        check_kinds("graclus_cluster", tensors, {"weight": weight}, {}, count)
        num_nodes = number_of("graclus_cluster", "num_nodes", num_nodes)
    cluster: Tensor = torch.ops.mps_pointops.graclus_cluster(row, col, weight, num_nodes)
    return cluster
