"""Greedy matching, slow and obvious: what the kernels mean."""

from __future__ import annotations

import torch
from torch import Tensor


def order_reference(weight: Tensor | None, permutation: list[int]) -> list[int]:
    """Edges that may match, in the order in which they match: heavier first, ties as permuted."""
    if weight is None:
        return permutation
    values = weight.tolist()
    # NaN fails the comparison; Python sorts stably, also in reverse
    may_match = [e for e in permutation if values[e] >= 0]
    return sorted(may_match, key=lambda e: values[e], reverse=True)


def greedy_matching_reference(row: Tensor, col: Tensor, nodes: int) -> Tensor:
    """Edges [E], [E] in the order in which they match -> cluster of every node [nodes], int64."""
    cluster = list(range(nodes))
    matched = [False] * nodes
    for u, v in zip(row.tolist(), col.tolist(), strict=True):
        if u == v or not 0 <= u < nodes or not 0 <= v < nodes:
            continue
        if not matched[u] and not matched[v]:
            matched[u] = matched[v] = True
            cluster[u] = cluster[v] = min(u, v)
    return torch.tensor(cluster, dtype=torch.int64, device="cpu")
