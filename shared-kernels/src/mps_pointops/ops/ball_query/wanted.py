"""What the kernels of a ball query on MPS are asked for, and where their answer goes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._rules import distance_rule
from mps_pointops.ops.ball_query.threshold import Threshold, threshold


@dataclass(frozen=True)
class Wanted:
    """A search, or only the number of hits of each query.

    Attributes:
        places: Hits of a query at most, K.
        limit: What is inside.
        ignore_same_index: 1: row i of the points is never a hit of query i; else 0.
        rule: `_rules.Rule`.
        distance: Squared distances [M, K] to fill; None: hits are counted.
        index: Indices [M, K] to fill, or counts [M].
    """

    places: int
    limit: Threshold
    ignore_same_index: int
    rule: int
    distance: Tensor | None
    index: Tensor

    @classmethod
    def of(
        cls,
        query: Tensor,
        K: int,
        radius: float,
        round_radius: bool,
        ignore_same_index: bool,
        rule: int,
        *,
        count: bool,
    ) -> Wanted:
        """Arguments as the schema in `ball_query.py`."""
        distance_rule("ball_count" if count else "ball_query", rule)
        rows, device = query.shape[0], query.device
        limit = threshold(radius, round_radius)
        distance = None
        if count:
            index = torch.zeros(rows, dtype=torch.int64, device=device)
        else:
            distance = torch.empty((rows, K), dtype=torch.float32, device=device)
            index = torch.empty((rows, K), dtype=torch.int64, device=device)
        return cls(K, limit, int(ignore_same_index), rule, distance, index)
