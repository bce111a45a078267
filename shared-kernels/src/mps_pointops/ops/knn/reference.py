"""k nearest neighbours, slow and obvious: what the kernels mean."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import dot, pair_distance
from mps_pointops._rules import Rule


def _possible(points: Tensor, rule: Rule) -> Tensor:
    possible = torch.isfinite(points).all(dim=1)
    return possible & (dot(points, points) > 0) if rule is Rule.COSINE else possible


def knn_reference(
    query: Tensor, ref: Tensor, k: int, rule: Rule = Rule.SEPARATE
) -> tuple[Tensor, Tensor]:
    """One cloud: queries [M, D] and points [N, D], both float32 or both float64, on the CPU.

    Returns squared (or cosine) distances [M, k] and indices [M, k]; slots left over are (inf, -1).
    """
    distance = query.new_full((query.shape[0], k), torch.inf)
    index = query.new_full((query.shape[0], k), -1, dtype=torch.int64)
    possible = _possible(ref, rule).nonzero()[:, 0]
    has_neighbours = _possible(query, rule).tolist()
    for row, centre in enumerate(query):
        if not has_neighbours[row]:
            continue
        d2 = pair_distance(centre, ref[possible], rule)
        # stable: of equal distances the smaller index stays in front
        order = torch.argsort(d2, stable=True)[:k]
        distance[row, : len(order)] = d2[order]
        index[row, : len(order)] = possible[order]
    return distance, index
