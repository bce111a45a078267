"""Samples of the edges of nodes."""

import torch
from torch import Tensor

from mps_pointops._checks import as_float, check_kinds


def neighbor_sampler(start: Tensor, rowptr: Tensor, size: float) -> Tensor:
    """Draw edges of some nodes, without replacement. CPU tensors only, as in the original.

    Args:
        start: Nodes [S], int64 or int32, on the CPU.
        rowptr: Where the edges of every node begin [nodes + 1], int64 or int32, on the CPU.
        size: Up to 1: part of the edges of each node; above 1: their number.

    Returns:
        Places of the drawn edges in the edge list, int64, node by node. They are drawn from
        torch's generator, so `torch.manual_seed` repeats them.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: tensors that are not on the CPU, wrong shapes, a `rowptr` that does not ascend
            from 0, a `size` that is negative or not finite.
        IndexError: a node that `rowptr` does not have.

    There is no gradient. Contract: torch_cluster 1.6.3.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        tensors = {"start": start, "rowptr": rowptr}
        check_kinds("neighbor_sampler", tensors, numbers={"size": size})
        size = as_float("neighbor_sampler", "size", size)
    count, factor = (-1, size) if size <= 1 else (int(size), -1.0)
    edges: Tensor = torch.ops.mps_pointops.neighbor_sampler(start, rowptr, count, factor)
    return edges
