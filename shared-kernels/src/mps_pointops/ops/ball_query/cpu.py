"""Ball query on CPU tensors: every pair, in row blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule, distance_rule
from mps_pointops.ops.ball_query.threshold import Threshold, threshold
from mps_pointops.ops.knn.cpu import rough_distance, row_ranges

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
    query, ref, order = query.detach(), ref.detach(), distance_rule("ball_query", rule)
    rows = query.shape[0]
    distance = query.new_zeros((rows, K))
    index = query.new_full((rows, K), -1, dtype=torch.int64)
    if rows == 0 or K == 0 or ref.shape[0] == 0:
        return distance, index
    limit = threshold(radius, round_radius, query.dtype)
    for here, low, inside in _blocks(query, ref, first, last, clouds, limit, order):
        if ignore_same_index:
            _leave_out_same(inside, here, low)
        place = inside.cumsum(dim=1)
        which, number = (inside & (place <= K)).nonzero(as_tuple=True)
        row, slot = here[which], place[which, number] - 1
        index[row, slot] = number if first is None else number + low
        distance[row, slot] = squared_distance(query[row], ref[low + number], order)
    return distance, index


def ball_count_cpu(
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
) -> Tensor:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    query, ref, order = query.detach(), ref.detach(), distance_rule("ball_count", rule)
    counts = query.new_zeros(query.shape[0], dtype=torch.int64)
    limit = threshold(radius, round_radius, query.dtype)
    for here, low, inside in _blocks(query, ref, first, last, clouds, limit, order):
        if ignore_same_index:
            _leave_out_same(inside, here, low)
        counts[here] = inside.sum(dim=1).clamp(max=K)
    return counts


def _blocks(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    limit: Threshold,
    rule: Rule,
) -> Iterator[tuple[Tensor, int, Tensor]]:
    """Rows, the first point they look at, and which of their points are inside."""
    for begin, end, low, high in row_ranges(len(query), len(ref), first, last, clouds):
        step = max(1, _PAIRS // (high - low))
        for row in range(begin, end, step):
            here = torch.arange(row, min(row + step, end), device=query.device)
            yield here, low, _inside(query[here], ref[low:high], limit, rule)


def _leave_out_same(inside: Tensor, rows: Tensor, low: int) -> None:
    numbers = torch.arange(low, low + inside.shape[1], device=inside.device)
    inside &= numbers != rows.unsqueeze(1)


def _inside(query: Tensor, points: Tensor, limit: Threshold, rule: Rule) -> Tensor:
    """Which of the pairs [M, N] are inside: a quick sum first, the rule where it is close."""
    # flushing decides at such scales; in float64 every step is rounded, and that is quick
    if limit.scale != 1.0 or query.dtype == torch.float64:
        d2 = squared_distance(query.unsqueeze(1), points, rule, limit.scale)
        return d2 < limit.squared
    rough = rough_distance(query, points)
    # rounding in any order changes a sum of D squares by less than this part of it
    margin = (points.shape[1] + 4) * 2.0**-22
    inside = rough < limit.squared * (1.0 - margin)
    close = (rough <= limit.squared * (1.0 + margin)) & ~inside
    row, number = close.nonzero(as_tuple=True)
    d2 = squared_distance(query[row], points[number], rule, limit.scale)
    inside[row, number] = d2 < limit.squared
    return inside
