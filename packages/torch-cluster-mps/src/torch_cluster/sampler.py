"""Samples of the edges of nodes."""

import torch
from torch import Tensor

from mps_pointops._checks import check_kinds
from torch_cluster._numbers import number_of


def neighbor_sampler(start: Tensor, rowptr: Tensor, size: float) -> Tensor:
    """Draw edges of some nodes, without replacement. CPU tensors only, as in the original.

    Args:
        start: Nodes [S], int64, on the CPU.
        rowptr: Where the edges of every node begin [nodes + 1], int64.
        size: Up to 1: part of the edges of each node; above 1: their number.

    Returns:
        Places of the drawn edges in the edge list, int64, node by node. They are drawn from
        torch's generator, so `torch.manual_seed` repeats them.
    """
    if not torch.jit.is_scripting():  # type: ignore[attr-defined]
        tensors = {"start": start, "rowptr": rowptr}
        check_kinds("neighbor_sampler", tensors, numbers={"size": size})
        size = number_of("neighbor_sampler", "size", size)
    count, factor = (-1, size) if size <= 1 else (int(size), -1.0)
    edges: Tensor = torch.ops.mps_pointops.neighbor_sampler(start, rowptr, count, factor)
    return edges
