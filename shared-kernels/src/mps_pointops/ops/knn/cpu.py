"""k nearest neighbours on CPU tensors; by cosine every pair, in row blocks of bounded memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._arithmetic import (
    bits_distance,
    cosine_distance,
    distance_bits,
    norm,
    square_root,
    squared_distance,
    takes_part,
)
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.squared import nearest_points

# pairs looked at together
_PAIRS = 2**21
# coordinates of pairs that are copied together
_COORDINATES = 2**23
_NONE = 2**63 - 1  # above the key of every distance
# sizes of coordinates whose products neither overflow nor are flushed, with room to spare
_PLAIN = (2.0**-40, 2.0**50)


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
    query, ref, chosen = query.detach(), ref.detach(), Rule(rule)
    if chosen is not Rule.COSINE:
        distance, index = nearest_points(query, ref, first, last, clouds, k, chosen)
        return (square_root(distance) if euclidean else distance), index
    rows = query.shape[0]
    distance = query.new_full((rows, k), torch.inf)
    index = query.new_full((rows, k), -1, dtype=torch.int64)
    if rows == 0 or k == 0 or ref.shape[0] == 0:
        return distance, index
    search = _nearest_in_double if query.dtype == torch.float64 else _nearest
    queries, refs = _Points.of(query, chosen), _Points.of(ref, chosen)
    for begin, end, low, high in row_ranges(rows, ref.shape[0], first, last, clouds):
        points = refs[low:high]
        count = min(k, high - low)
        step = max(1, _PAIRS // (high - low))
        for row in range(begin, end, step):
            here = slice(row, min(row + step, end))
            d, number = search(queries[here], points, count, chosen)
            distance[here, :count] = d
            index[here, :count] = number if first is None else number + low * (number >= 0)
    return (square_root(distance) if euclidean and chosen is not Rule.COSINE else distance), index


@dataclass
class _Points:
    """Points [N, D] with what is worked out once for all pairs; `norm` for the cosine only."""

    xyz: Tensor
    takes_part: Tensor
    norm: Tensor | None

    @classmethod
    def of(cls, points: Tensor, rule: Rule) -> _Points:
        return cls(points, takes_part(points, rule), norm(points) if rule is Rule.COSINE else None)

    def __getitem__(self, rows: slice | Tensor) -> _Points:
        lengths = None if self.norm is None else self.norm[rows]
        return _Points(self.xyz[rows], self.takes_part[rows], lengths)

    def __len__(self) -> int:
        return len(self.xyz)


def _distance(a: _Points, b: _Points, rule: Rule) -> Tensor:
    """Distances of points (..., D), broadcast."""
    if a.norm is None or b.norm is None:
        return squared_distance(a.xyz, b.xyz, rule)
    return cosine_distance(a.xyz, b.xyz, a.norm, b.norm)


def _nearest(query: _Points, points: _Points, count: int, rule: Rule) -> tuple[Tensor, Tensor]:
    """Distances and indices [M, count] in float32, (inf, -1) where there is no pair."""
    keys = _candidate_keys(query, points, count, rule)
    best = torch.topk(keys, count, dim=1, largest=False, sorted=True).values
    found = best < _NONE
    distance = torch.where(found, bits_distance(best >> 32), torch.inf)
    return distance, torch.where(found, best & 0xFFFFFFFF, -1)


def _candidate_keys(query: _Points, points: _Points, count: int, rule: Rule) -> Tensor:
    """Keys that hold the `count` smallest of every row [M, at least count].

    A key is one integer a pair, in the order (distance, index); `_NONE` if no pair. A quick sum
    finds the pairs that can be among the smallest; the rule is worked out for those.
    """
    near = (_near_cosine if rule is Rule.COSINE else _near)(query.xyz, points.xyz, count)
    near &= query.takes_part.unsqueeze(1) & points.takes_part
    row, number = near.nonzero(as_tuple=True)
    bits = torch.empty_like(row)
    # where very many pairs are near, memory must not grow with the dimension
    step = max(1, _COORDINATES // points.xyz.shape[1])
    for begin in range(0, len(row), step):
        here = slice(begin, begin + step)
        bits[here] = distance_bits(_distance(query[row[here]], points[number[here]], rule))
    counts = near.sum(dim=1)
    slot = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    keys = bits.new_full((len(query), max(count, int(counts.max()))), _NONE)
    keys[row, slot] = bits << 32 | number
    return keys


def _near(query: Tensor, points: Tensor, count: int) -> Tensor:
    """Pairs [M, N] that hold those of the `count` smallest squared distances of every row."""
    rough = rough_distance(query, points)
    worst = rough.topk(count, dim=1, largest=False).values[:, -1:]
    # twice what rounding in any order can change, and what is lost in subnormal numbers
    return rough <= worst * (1.0 + (points.shape[1] + 4) * 2.0**-21) + 2.0**-120


def _near_cosine(query: Tensor, points: Tensor, count: int) -> Tensor:
    """The same for cosine distances."""

    def directions(vectors: Tensor) -> tuple[Tensor, Tensor]:
        size = vectors.abs().amax(dim=1)
        plain = (size >= _PLAIN[0]) & (size <= _PLAIN[1])
        wide = torch.where(plain.unsqueeze(1), vectors, 0.0).to(torch.float64)
        return wide / torch.linalg.vector_norm(wide, dim=1, keepdim=True), ~plain

    (q, _), (p, odd) = directions(query), directions(points)
    rough = torch.nan_to_num(1.0 - q @ p.t(), nan=torch.inf, posinf=torch.inf)
    worst = rough.topk(count, dim=1, largest=False).values[:, -1:]
    # each rounding changes the cosine by less than 2**-24: D of them in the dot product, D in the
    # norms, a few after that; twice that on either side
    near = rough <= worst + (points.shape[1] + 8) * 2.0**-21
    # vectors whose products overflow or are flushed have no such bound and are always near; to such
    # a query everything is, as no distance is known
    return near | odd


def _nearest_in_double(
    query: _Points, points: _Points, count: int, rule: Rule
) -> tuple[Tensor, Tensor]:
    """As `_nearest`, in float64, where a distance and an index do not fit in one integer."""
    distance = query.xyz.new_full((len(query), count), torch.inf)
    index = query.xyz.new_full((len(query), count), -1, dtype=torch.int64)
    rows, possible = query.takes_part.nonzero()[:, 0], points.takes_part.nonzero()[:, 0]
    count = min(count, len(possible))
    if len(rows) == 0 or count == 0:
        return distance, index
    d = _distance(query[rows.unsqueeze(1)], points[possible], rule)
    worst = d.topk(count, dim=1, largest=False).values[:, -1:]
    # all that are nearer than the last place, then the first of those as far as it
    nearer, tied = d < worst, d == worst
    free = count - nearer.sum(dim=1, keepdim=True)
    kept = nearer | (tied & (tied.cumsum(dim=1) <= free))
    number = kept.nonzero()[:, 1].view(len(rows), count)
    d, order = d.gather(1, number).sort(dim=1, stable=True)
    distance[rows, :count] = d
    index[rows, :count] = possible[number.gather(1, order)]
    return distance, index


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
