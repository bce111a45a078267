"""Random walks on a graph."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds
from torch_cluster._numbers import number_of


def random_walk(
    row: Tensor,
    col: Tensor,
    start: Tensor,
    walk_length: int,
    p: float = 1.0,
    q: float = 1.0,
    coalesced: bool = True,
    num_nodes: int | None = None,
    return_edge_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Walks of a fixed length from every start node, uniform or biased as in node2vec.

    Args:
        row: Node where every edge begins [E], int64 or int32, on cpu or mps.
        col: Node where it ends [E], likewise, same device.
        start: Nodes where walks begin [S], likewise, same device.
        walk_length: Steps of a walk, L, >= 0.
        p: Stepping back to the node before has the weight 1 / p.
        q: Stepping to a node that is no neighbour of the node before has the weight 1 / q.
        coalesced: Sort the edges by (row, col) first. Without, they must be sorted by row.
        num_nodes: Number of nodes; None: the largest index + 1, which reads the device once.
        return_edge_indices: Whether to return the edges too.

    Returns:
        Nodes of the walks [S, L + 1], int64, the first column is `start`. With
        `return_edge_indices` also the edges [S, L]: places in the edge list as sorted. At a node
        without edges a walk stays, with edge -1. The walks are drawn from torch's generator of the
        device, so `torch.manual_seed` repeats them.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: p or q not above 0, wrong shapes, different devices, without `coalesced` a
            `row` that is not sorted.
        IndexError: a node below 0 or not below `num_nodes`. With `num_nodes` on MPS that is
            looked at only under MPS_POINTOPS_CHECK_INDICES=1; unchecked, a walk ends there.

    There is no gradient. Contract: torch_cluster 1.6.3 on CUDA.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        tensors = {"row": row, "col": col, "start": start}
        counts, count = {"walk_length": walk_length}, {"num_nodes": num_nodes}
        check_kinds("random_walk", tensors, {}, counts, count, {"p": p, "q": q})
        walk_length = number_of("random_walk", "walk_length", walk_length)
        num_nodes = number_of("random_walk", "num_nodes", num_nodes)
        p, q = number_of("random_walk", "p", p), number_of("random_walk", "q", q)
    nodes, edges = torch.ops.mps_pointops.random_walk_coo(
        row, col, start, walk_length, p, q, coalesced, num_nodes
    )
    if return_edge_indices:
        return nodes, edges
    return nodes  # type: ignore[no-any-return]
