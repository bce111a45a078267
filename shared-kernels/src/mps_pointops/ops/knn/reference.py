"""k nearest neighbours, slow and obvious: what the kernels mean."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule


def knn_reference(
    query: Tensor, ref: Tensor, k: int, rule: Rule = Rule.SEPARATE
) -> tuple[Tensor, Tensor]:
    """One cloud: queries [M, D] and points [N, D], float32 on the CPU.

    Returns squared distances [M, k] and indices [M, k]; slots left over are (inf, -1).
    """
    distance = query.new_full((query.shape[0], k), torch.inf)
    index = query.new_full((query.shape[0], k), -1, dtype=torch.int64)
    possible = torch.isfinite(ref).all(dim=1).nonzero()[:, 0]
    for row, centre in enumerate(query):
        if not torch.isfinite(centre).all():
            continue
        d2 = squared_distance(centre, ref[possible], rule)
        # stable: of equal distances the smaller index stays in front
        order = torch.argsort(d2, stable=True)[:k]
        distance[row, : len(order)] = d2[order]
        index[row, : len(order)] = possible[order]
    return distance, index
