"""Ball query on CPU tensors: every pair, in row blocks of bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.threshold import Threshold, threshold
from mps_pointops.ops.knn.cpu import row_ranges

# pairs looked at together
_PAIRS = 2**21


def ball_query_cpu(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    K: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    query, ref = query.detach(), ref.detach()
    rows = query.shape[0]
    distance = torch.zeros((rows, K))
    index = torch.full((rows, K), -1, dtype=torch.int64)
    if rows == 0 or K == 0 or ref.shape[0] == 0:
        return distance, index
    limit = threshold(radius, round_radius)
    for begin, end, low, high in row_ranges(rows, ref.shape[0], first, last, clouds):
        points = ref[low:high]
        step = max(1, _PAIRS // (high - low))
        for row in range(begin, end, step):
            here = torch.arange(row, min(row + step, end))
            inside = _inside(query[here], points, limit, Rule(rule))
            if ignore_same_index:
                inside &= torch.arange(low, high) != here.unsqueeze(1)
            place = inside.cumsum(dim=1)
            which, number = (inside & (place <= K)).nonzero(as_tuple=True)
            slot = place[which, number] - 1
            index[row + which, slot] = number if first is None else number + low
            distance[row + which, slot] = squared_distance(
                query[row + which], points[number], Rule(rule)
            )
    return distance, index


def _inside(query: Tensor, points: Tensor, limit: Threshold, rule: Rule) -> Tensor:
    """Which of the pairs [M, N] are inside: a quick sum first, the rule where it is close."""
    rough = torch.zeros(query.shape[0], points.shape[0])
    for q, p in zip(query.t(), points.t().contiguous(), strict=True):
        difference = (q.unsqueeze(1) - p).mul_(limit.scale)
        rough.addcmul_(difference, difference)
    # rounding in any order changes a sum of D squares by less than this part of it
    margin = (points.shape[1] + 4) * 2.0**-22
    inside = rough < limit.squared * (1.0 - margin)
    close = (rough <= limit.squared * (1.0 + margin)) & ~inside
    row, number = close.nonzero(as_tuple=True)
    d2 = squared_distance(query[row], points[number], rule, limit.scale)
    inside[row, number] = d2 < limit.squared
    return inside
