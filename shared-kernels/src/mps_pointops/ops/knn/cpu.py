"""k nearest neighbours on CPU tensors: every pair, in row blocks of bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import distance_bits, square_root, squared_distance
from mps_pointops._rules import Rule

# pairs looked at together
_PAIRS = 2**21
_NONE = 2**63 - 1  # above the key of every distance


def knn_cpu(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    euclidean: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `knn.py`."""
    query, ref = query.detach(), ref.detach()
    rows = query.shape[0]
    distance = query.new_full((rows, k), torch.inf)
    index = query.new_full((rows, k), -1, dtype=torch.int64)
    if rows == 0 or k == 0 or ref.shape[0] == 0:
        return distance, index
    for begin, end, low, high in row_ranges(rows, ref.shape[0], first, last, clouds):
        points = ref[low:high]
        count = min(k, high - low)
        step = max(1, _PAIRS // (high - low))
        for row in range(begin, end, step):
            here = slice(row, min(row + step, end))
            keys = _candidate_keys(query[here], points, count, Rule(rule))
            best = torch.topk(keys, count, dim=1, largest=False, sorted=True).values
            found = best < _NONE
            number = best & 0xFFFFFFFF
            d2 = (best >> 32).to(torch.int32).view(torch.float32)
            distance[here, :count] = torch.where(found, d2, torch.inf)
            shown = number if first is None else number + low
            index[here, :count] = torch.where(found, shown, -1)
    return (square_root(distance) if euclidean else distance), index


def _candidate_keys(query: Tensor, points: Tensor, count: int, rule: Rule) -> Tensor:
    """Keys that hold the `count` smallest of every row [M, at least count].

    A key is one integer a pair, in the order (squared distance, index); `_NONE` if no pair. A
    quick sum finds the pairs that can be among the smallest; the rule is worked out for those.
    """
    rough = rough_distance(query, points)
    worst = rough.topk(count, dim=1, largest=False).values[:, -1:]
    # twice what rounding in any order can change, and what is lost in subnormal numbers
    near = rough <= worst * (1.0 + (points.shape[1] + 4) * 2.0**-21) + 2.0**-120
    row, number = near.nonzero(as_tuple=True)
    d2 = squared_distance(query[row], points[number], rule)
    possible = torch.isfinite(query).all(dim=1)[row] & torch.isfinite(points).all(dim=1)[number]
    found = torch.where(possible, distance_bits(d2) << 32 | number, _NONE)
    counts = near.sum(dim=1)
    slot = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    keys = found.new_full((len(query), int(counts.max())), _NONE)
    keys[row, slot] = found
    return keys


def rough_distance(query: Tensor, points: Tensor) -> Tensor:
    """Squared distances of all pairs [M, N], in float32 without care for rounding; NaN is inf."""
    rough = query.new_zeros((query.shape[0], points.shape[0]))
    for q, p in zip(query.t(), points.t().contiguous(), strict=True):
        difference = q.unsqueeze(1) - p
        rough.addcmul_(difference, difference)
    return torch.where(torch.isnan(rough), torch.inf, rough)


def row_ranges(
    rows: int, size: int, first: Tensor | None, last: Tensor | None, clouds: int
) -> list[tuple[int, int, int, int]]:
    """Ranges of rows that look at the same points: (first row, last row, first, last point)."""
    if first is None or last is None:
        m, n = rows // clouds, size // clouds
        return [(b * m, (b + 1) * m, b * n, (b + 1) * n) for b in range(clouds) if m and n]
    starts = first.new_ones(rows, dtype=torch.bool)
    starts[1:] = (first[1:] != first[:-1]) | (last[1:] != last[:-1])
    begins = starts.nonzero()[:, 0]
    ends = [*begins[1:].tolist(), rows]
    ranges = zip(begins.tolist(), ends, first[begins].tolist(), last[begins].tolist(), strict=True)
    return [(begin, end, low, high) for begin, end, low, high in ranges if low < high]
