"""Greedy matching on CPU tensors: rounds over all edges while they pay, then one by one.

In a round every edge that comes first at both its ends matches; those are edges that the loop over
the list would match too. Rounds end when few edges go away, as on a path of falling weights.
"""

from __future__ import annotations

import torch
from torch import Tensor

# A round costs about as much as the loop over a quarter of its edges.
_WORTH_A_ROUND = 2**14


def greedy_matching_cpu(row: Tensor, col: Tensor, nodes: int) -> Tensor:
    """Operator kernel; arguments as the schema in `graclus_cluster.py`."""
    valid = (row >= 0) & (row < nodes) & (col >= 0) & (col < nodes) & (row != col)
    u, v = row[valid].to(torch.int64), col[valid].to(torch.int64)
    cluster = torch.arange(nodes, dtype=torch.int64, device=row.device)
    free = torch.ones(nodes, dtype=torch.bool, device=row.device)
    before = 2 * len(u)
    while len(u) >= _WORTH_A_ROUND and 4 * (before - len(u)) >= before:
        before = len(u)
        place = torch.arange(before, dtype=torch.int64, device=row.device)
        first = torch.full((nodes,), before, dtype=torch.int64, device=row.device)
        first.scatter_reduce_(0, u, place, "amin").scatter_reduce_(0, v, place, "amin")
        matches = (first[u] == place) & (first[v] == place)
        a, b = u[matches], v[matches]
        cluster[a] = cluster[b] = torch.minimum(a, b)
        free[a] = free[b] = False
        left = free[u] & free[v]
        u, v = u[left], v[left]
    _match_in_turn(u, v, cluster, free)
    return cluster


def _match_in_turn(u: Tensor, v: Tensor, cluster: Tensor, free: Tensor) -> None:
    """Match what is left, edge by edge in order."""
    is_free = bytearray(free.numpy().tobytes())
    upper, lower = [], []
    for a, b in zip(u.tolist(), v.tolist(), strict=True):
        if is_free[a] and is_free[b]:
            is_free[a] = is_free[b] = 0
            low, high = (a, b) if a < b else (b, a)
            upper.append(high)
            lower.append(low)
    device = cluster.device
    cluster[torch.tensor(upper, dtype=torch.int64, device=device)] = torch.tensor(
        lower, dtype=torch.int64, device=device
    )
