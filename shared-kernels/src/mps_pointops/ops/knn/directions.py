"""Neighbours by cosine distance on CPU tensors: every pair, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

import mps_pointops._cpu.rows as rows
from mps_pointops._arithmetic import cosine_distance, distance_bits, norm, takes_part
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.pairwise import near, select, smallest

# coordinates of pairs that are copied together
_COORDINATES = 2**20
# pairs, and rows, of a run that a matrix product is worth
_MANY, _ROWS = 2**14, 8
# sizes of coordinates whose products neither overflow nor are flushed, with room to spare
_PLAIN = (2.0**-40, 2.0**50)


def nearest_directions(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
) -> tuple[Tensor, Tensor]:
    """Cosine distances and indices [M, k]; arguments as the schema in `knn.py`, detached."""
    distance = query.new_full((len(query), k), torch.inf)
    index = query.new_full((len(query), k), -1, dtype=torch.int64)
    if len(query) == 0 or k == 0 or len(ref) == 0:
        return distance, index
    found = rows.runs(len(query), len(ref), first, last, clouds)
    if len(found):
        search = (_InDouble if query.dtype == torch.float64 else _InSingle)(query, ref, found)
        for block in _blocks(found):
            count = min(k, block.size)
            distance[block.row, :count], index[block.row, :count] = search(block, count)
    if first is None and clouds > 1:
        index = rows.count_in_cloud(index, clouds, len(ref) // clouds)
    return distance, index


def _blocks(found: rows.Runs) -> Iterator[rows.Block]:
    """All rows of all runs: large runs one by one, small ones, which may be many, together."""
    large = (found.rows * found.sizes >= _MANY) & (found.rows >= _ROWS)
    for run in large.nonzero()[0][:, None]:
        yield from rows.blocks(found.only(run))
    yield from rows.blocks(found.only(~large))


class _InSingle:
    """Neighbours in float32: a quick sum finds the pairs for which the rule is worked out."""

    def __init__(self, query: Tensor, ref: Tensor, found: rows.Runs) -> None:
        self.query, self.ref, most = query, ref, int(found.sizes.max())
        self.takes, self.possible = takes_part(query, Rule.COSINE), takes_part(ref, Rule.COSINE)
        self.norms = norm(query), norm(ref)
        self.plain, lengths = _plain(ref)
        self.windows = rows.Windows(self.plain, most)
        self.lengths = rows.Windows(lengths, most)

    def __call__(self, block: rows.Block, count: int) -> tuple[Tensor, Tensor]:
        """Distances and rows of the points [rows, count], (inf, -1) where there is no pair."""
        # each rounding changes the cosine by less than 2**-24: D of them in the dot product, D in
        # the norms, a few after that; twice that on either side
        margin = (self.ref.shape[1] + 8) * 2.0**-21
        close = near(self._rough(block), block, count, 0.0, margin)
        row, number = close.nonzero(as_tuple=True)
        number += block.low[row]
        kept = self.possible[number] & self.takes[block.row[row]]
        row, number = row[kept], number[kept]
        bits = torch.empty_like(row)
        # where very many pairs are near, memory must not grow with the dimension
        step = max(1, _COORDINATES // self.ref.shape[1])
        for begin in range(0, len(row), step):
            here = slice(begin, begin + step)
            q, p = block.row[row[here]], number[here]
            norms = self.norms[0][q], self.norms[1][p]
            distance = cosine_distance(self.query[q], self.ref[p], *norms)
            bits[here] = distance_bits(distance)
        return smallest(row, number, bits, len(block.row), count)

    def _rough(self, block: rows.Block) -> Tensor:
        """Distances [rows, size] without care for rounding, in float64; NaN if not known."""
        plain, lengths = _plain(self.query[block.row])
        directions = plain.to(torch.float64) / lengths
        low, size = block.low, block.size
        begin, end = int(low[0]), int(low[0]) + size
        if len(low) >= _ROWS and end <= len(self.ref) and bool((low == begin).all()):
            rough = directions @ self.plain[begin:end].to(torch.float64).t()
        else:
            rough = directions.new_zeros((len(low), size))
            for d, q in enumerate(directions.t()):
                p = self.windows.coordinate(d, low, size).to(torch.float64)
                rough.addcmul_(q.unsqueeze(1), p)
        return 1.0 - rough.div_(self.lengths.coordinate(0, low, size))


def _plain(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors [N, D] and their lengths [N, 1] in float64.

    Zero and NaN for those whose products may overflow or be flushed: a quick sum tells nothing of
    them.
    """
    size = vectors.abs().amax(dim=1, keepdim=True)
    plain = (size >= _PLAIN[0]) & (size <= _PLAIN[1])
    vectors = torch.where(plain, vectors, 0.0)
    lengths = torch.linalg.vector_norm(vectors, dim=1, keepdim=True, dtype=torch.float64)
    return vectors, torch.where(plain, lengths, torch.nan)


class _InDouble:
    """Neighbours in float64, where the rule is quick."""

    def __init__(self, query: Tensor, ref: Tensor, found: rows.Runs) -> None:
        self.query, most = query, int(found.sizes.max())
        self.takes, self.possible = takes_part(query, Rule.COSINE), takes_part(ref, Rule.COSINE)
        self.norm = norm(query)
        self.windows = rows.Windows(ref, most)
        self.norms = rows.Windows(norm(ref).unsqueeze(1), most)

    def __call__(self, block: rows.Block, count: int) -> tuple[Tensor, Tensor]:
        """As `_InSingle`."""
        low, size = block.low, block.size
        total = self.query.new_empty(0)
        for d, q in enumerate(self.query[block.row].t()):
            product = q.unsqueeze(1) * self.windows.coordinate(d, low, size)
            total = total.add_(product) if d else product
        norms = self.norm[block.row].unsqueeze(1) * self.norms.coordinate(0, low, size)
        distance = torch.where(torch.isfinite(total), 1.0 - total / norms, torch.inf)
        number = low.unsqueeze(1) + torch.arange(size, device="cpu")
        inside = (number < block.high.unsqueeze(1)) & self.takes[block.row].unsqueeze(1)
        inside &= self.possible[number.clamp(max=len(self.possible) - 1)]
        return select(distance, number, inside, count)
