"""Ball query, slow and obvious: what the kernels mean."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.threshold import threshold


def ball_query_reference(
    query: Tensor,
    ref: Tensor,
    radius: float,
    K: int,
    rule: Rule = Rule.FMA_XYZ,
    round_radius: bool = True,
) -> tuple[Tensor, Tensor]:
    """One cloud: queries [M, D] and points [N, D], both float32 or both float64, on the CPU.

    Returns squared distances [M, K] and indices [M, K]; slots without a point are (0, -1).
    """
    distance = query.new_zeros((query.shape[0], K))
    index = query.new_full((query.shape[0], K), -1, dtype=torch.int64)
    limit = threshold(radius, round_radius, query.dtype)
    for row, centre in enumerate(query):
        inside = squared_distance(centre, ref, rule, limit.scale) < limit.squared
        hits = inside.nonzero()[:K, 0]
        distance[row, : len(hits)] = squared_distance(centre, ref[hits], rule)
        index[row, : len(hits)] = hits
    return distance, index
