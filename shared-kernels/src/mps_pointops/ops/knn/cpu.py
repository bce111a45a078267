"""k nearest neighbours on CPU tensors; by cosine: every pair, in row blocks of bounded memory."""

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
    takes_part,
)
from mps_pointops._cpu.rows import runs
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
    return _nearest_directions(query, ref, first, last, clouds, k)


def _nearest_directions(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
) -> tuple[Tensor, Tensor]:
    """Cosine distances and indices [M, k]."""
    rows = query.shape[0]
    distance = query.new_full((rows, k), torch.inf)
    index = query.new_full((rows, k), -1, dtype=torch.int64)
    if rows == 0 or k == 0 or ref.shape[0] == 0:
        return distance, index
    search = _nearest_in_double if query.dtype == torch.float64 else _nearest
    queries, refs = _Vectors.of(query), _Vectors.of(ref)
    found = runs(rows, ref.shape[0], first, last, clouds)
    for begin, end, low, high in zip(*(field.tolist() for field in found.fields), strict=True):
        vectors = refs[low:high]
        count = min(k, high - low)
        step = max(1, _PAIRS // (high - low))
        for row in range(begin, end, step):
            here = slice(row, min(row + step, end))
            d, number = search(queries[here], vectors, count)
            distance[here, :count] = d
            index[here, :count] = number if first is None else number + low * (number >= 0)
    return distance, index


@dataclass
class _Vectors:
    """Vectors [N, D] with what is worked out once for all pairs."""

    xyz: Tensor
    takes_part: Tensor
    norm: Tensor

    @classmethod
    def of(cls, vectors: Tensor) -> _Vectors:
        return cls(vectors, takes_part(vectors, Rule.COSINE), norm(vectors))

    def __getitem__(self, rows: slice | Tensor) -> _Vectors:
        return _Vectors(self.xyz[rows], self.takes_part[rows], self.norm[rows])

    def __len__(self) -> int:
        return len(self.xyz)


def _distance(a: _Vectors, b: _Vectors) -> Tensor:
    """Distances of vectors (..., D), broadcast."""
    return cosine_distance(a.xyz, b.xyz, a.norm, b.norm)


def _nearest(query: _Vectors, points: _Vectors, count: int) -> tuple[Tensor, Tensor]:
    """Distances and indices [M, count] in float32, (inf, -1) where there is no pair."""
    keys = _candidate_keys(query, points, count)
    best = torch.topk(keys, count, dim=1, largest=False, sorted=True).values
    found = best < _NONE
    distance = torch.where(found, bits_distance(best >> 32), torch.inf)
    return distance, torch.where(found, best & 0xFFFFFFFF, -1)


def _candidate_keys(query: _Vectors, points: _Vectors, count: int) -> Tensor:
    """Keys that hold the `count` smallest of every row [M, at least count].

    A key is one integer a pair, in the order (distance, index); `_NONE` if no pair. A quick sum
    finds the pairs that can be among the smallest; the rule is worked out for those.
    """
    near = _near(query.xyz, points.xyz, count)
    near &= query.takes_part.unsqueeze(1) & points.takes_part
    row, number = near.nonzero(as_tuple=True)
    bits = torch.empty_like(row)
    # where very many pairs are near, memory must not grow with the dimension
    step = max(1, _COORDINATES // points.xyz.shape[1])
    for begin in range(0, len(row), step):
        here = slice(begin, begin + step)
        bits[here] = distance_bits(_distance(query[row[here]], points[number[here]]))
    counts = near.sum(dim=1)
    slot = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    keys = bits.new_full((len(query), max(count, int(counts.max()))), _NONE)
    keys[row, slot] = bits << 32 | number
    return keys


def _near(query: Tensor, points: Tensor, count: int) -> Tensor:
    """Pairs [M, N] that hold those of the `count` smallest distances of every row."""

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


def _nearest_in_double(query: _Vectors, points: _Vectors, count: int) -> tuple[Tensor, Tensor]:
    """As `_nearest`, in float64, where a distance and an index do not fit in one integer."""
    distance = query.xyz.new_full((len(query), count), torch.inf)
    index = query.xyz.new_full((len(query), count), -1, dtype=torch.int64)
    rows, possible = query.takes_part.nonzero()[:, 0], points.takes_part.nonzero()[:, 0]
    count = min(count, len(possible))
    if len(rows) == 0 or count == 0:
        return distance, index
    d = _distance(query[rows.unsqueeze(1)], points[possible])
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
