"""Points of one cloud in boxes of boxes: searches that very many ties cannot slow down.

A tree of distances in float64 has to look at every point that is about as far as the last
neighbour. Here boxes are judged by the rule itself, in float32: rounding is monotone, so the
distances to the nearest and to the farthest place of a box bound those of its points. Where both
are the same number, as rounding, flushing or overflow made them so, all points of the box tie, and
the box with the smallest index goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mps_pointops._cpu.pairs import NONE, TINY, Array, ordered, pack, sum_of_squares
from mps_pointops._rules import Rule

_FAN = 8  # boxes, or points, of a box
_PAIRS = 2**18  # boxes looked at together
_MIN_NORMAL = 2.0**-126
_LAST = 2**63 - 1  # after every index


@dataclass(frozen=True)
class Measure:
    """How distances are worked out.

    Attributes:
        rule: The rule.
        quick: Both sets are `plain`.
        scale: A power of two, as of `Threshold`.
        inside: If given, a distance below it counts as 0 and any other as infinite.
    """

    rule: Rule
    quick: bool
    scale: float = 1.0
    inside: float | None = None

    def __call__(self, difference: Callable[[int], Array], dim: int) -> Array:
        """Distances of pairs whose difference in coordinate d is `difference(d)`."""
        if self.scale == 1.0:
            distance = sum_of_squares(difference, dim, self.rule, self.quick)
        else:

            def scaled(d: int) -> Array:
                t = _flushed(difference(d)).astype(np.float64) * self.scale
                t[np.abs(t) < TINY] = 0
                return t.astype(np.float32)

            distance = sum_of_squares(scaled, dim, self.rule, False)
        if self.inside is not None:
            zero, infinite = distance.dtype.type(0), distance.dtype.type(np.inf)
            distance = np.where(distance < self.inside, zero, infinite)
        return distance


@dataclass
class _Level:
    """Boxes: lowest and highest coordinates [D, n], and the smallest index in each [n]."""

    low: Array
    high: Array
    first: Array

    def above(self) -> _Level:
        """Boxes of these."""
        begins = np.arange(0, len(self.first), _FAN)
        return _Level(
            np.minimum.reduceat(self.low, begins, axis=1),
            np.maximum.reduceat(self.high, begins, axis=1),
            np.minimum.reduceat(self.first, begins),
        )


class Boxes:
    """Finite points [n, D], those that follow each other close together, and their indices [n]."""

    def __init__(self, points: Array, index: Array) -> None:
        columns = np.ascontiguousarray(points.T)
        self.levels = [_Level(columns, columns, index)]
        while len(self.levels[-1].first) > 2 * _FAN:
            self.levels.append(self.levels[-1].above())

    def search(
        self, query: Array, k: int, measure: Measure, limit: Array | None = None
    ) -> tuple[Array, Array]:
        """The first k points of each query in the order (distance, index).

        Args:
            query: Finite queries [m, D], in the dtype of the points.
            k: At least one.
            measure: Distances.
            limit: Points that are farther may be left out [m].

        Returns:
            Distances and indices [m, k], (inf, -1) in slots left over.
        """
        search = _Search(self, query, k, measure, limit)
        search.run()
        return search.distance, search.index


class _Search:
    """One search; arguments as those of `Boxes.search`."""

    def __init__(
        self, boxes: Boxes, query: Array, k: int, measure: Measure, limit: Array | None
    ) -> None:
        rows, dtype = len(query), query.dtype
        self.levels, self.k, self.measure = boxes.levels, k, measure
        self.columns = np.ascontiguousarray(query.T)
        self.distance = np.full((rows, k), np.inf, dtype)
        self.index = np.full((rows, k), -1, np.int64)
        if limit is None:
            limit = np.full(rows, np.inf if measure.inside is None else 0.0, dtype)
        self.bounds = (_Keys if dtype == np.float32 else _Pairs)(limit, k)

    def run(self) -> None:
        """Fill distances and indices: all boxes of a level that matter to some rows, downwards."""
        rows, top = len(self.index), len(self.levels) - 1
        count = len(self.levels[top].first)
        step = max(1, _PAIRS // (_FAN * max(count, self.k)))
        tasks = []
        for begin in range(0, rows, step):
            row, node = np.divmod(np.arange(begin * count, min(begin + step, rows) * count), count)
            tasks.append((top, row, node))
        while tasks:
            level, row, node = tasks.pop()
            begins, counts = _rows(row)
            if len(begins) > 1 and len(begins) * int(counts.max()) > 4 * _PAIRS:
                cut = begins[len(begins) // 2]
                tasks.append((level, row[cut:], node[cut:]))
                tasks.append((level, row[:cut], node[:cut]))
            elif level == 0:
                self._take(row, node)
            else:
                row, node = self._open(level, row, node, begins, counts)
                if len(row):
                    tasks.append((level - 1, row, node))

    def _open(
        self, level: int, row: Array, node: Array, begins: Array, counts: Array
    ) -> tuple[Array, Array]:
        """Rows and what is in those of their boxes that may hold one of their first k points."""
        least, greatest = self._least(level, row, node), self._greatest(level, row, node)
        first = self.levels[level].first.take(node)
        if int(counts.max()) >= self.k:
            # one point of each box is no later than this
            self.bounds.lower(greatest, first, row[begins], begins, counts)
        kept = self.bounds.reached(least, first, row).nonzero()[0]
        inner = (node[kept, None] * _FAN + np.arange(_FAN)).ravel()
        row = np.repeat(row[kept], _FAN)
        inside = inner < len(self.levels[level - 1].first)
        return (row, inner) if inside.all() else (row[inside], inner[inside])

    def _take(self, row: Array, node: Array) -> None:
        """Write the first k of the points of each row."""
        found, first = self._least(0, row, node), self.levels[0].first.take(node)
        kept = self.bounds.reached(found, first, row).nonzero()[0]
        if len(kept) == 0:
            return
        row = row[kept]
        begins, counts = _rows(row)
        d, missing = _table(found[kept], begins, counts)
        i, _ = _table(first[kept], begins, counts)
        d, i = ordered(d, i, missing)
        count = min(self.k, d.shape[1])
        which = row[begins]
        self.distance[which, :count], self.index[which, :count] = d[:, :count], i[:, :count]

    def _least(self, level: int, row: Array, node: Array) -> Array:
        """Distances to the nearest places of boxes: no point of them is nearer."""

        def difference(d: int) -> Array:
            q, low, high = self._coordinates(d, level, row, node)
            if level > 0:  # points are boxes of one place
                np.maximum(low, q, out=low)
                np.minimum(low, high, out=low)
            low -= q
            return low

        with np.errstate(over="ignore"):
            return self.measure(difference, len(self.columns))

    def _greatest(self, level: int, row: Array, node: Array) -> Array:
        """Distances to the farthest places of boxes: no point of them is farther."""

        def difference(d: int) -> Array:
            q, low, high = self._coordinates(d, level, row, node)
            low -= q
            high -= q
            np.abs(low, out=low)
            np.abs(high, out=high)
            return np.maximum(low, high, out=low)

        with np.errstate(over="ignore"):
            return self.measure(difference, len(self.columns))

    def _coordinates(
        self, d: int, level: int, row: Array, node: Array
    ) -> tuple[Array, Array, Array]:
        """Coordinate d of queries, and the lowest and highest one of boxes: new arrays."""
        boxes = self.levels[level]
        q, low = self.columns[d].take(row), boxes.low[d].take(node)
        high = boxes.high[d].take(node) if level > 0 else low
        if self.measure.scale != 1.0:  # the rule flushes coordinates
            q, low, high = _flushed(q), _flushed(low), _flushed(high)
        return q, low, high


def _flushed(values: Array) -> Array:
    return np.where(np.abs(values) < _MIN_NORMAL, values.dtype.type(0), values)


class _Keys:
    """For every row the place of its k-th point in the order (distance, index), or a later one.

    In float32, where a place is one number.
    """

    def __init__(self, limit: Array, k: int) -> None:
        """`limit`: no k-th point is farther [rows]."""
        self.k, self.key = k, pack(limit, np.full(len(limit), 2**32 - 1))

    def reached(self, distance: Array, index: Array, row: Array) -> Array:
        """Whether these come no later than the k-th point of their rows."""
        reached: Array = pack(distance, index) <= self.key.take(row)
        return reached

    def lower(
        self, distance: Array, index: Array, which: Array, begins: Array, counts: Array
    ) -> None:
        """Rows `which` have points no later than these; arguments else as those of `_table`."""
        table, missing = _table(pack(distance, index), begins, counts)
        table[missing] = NONE
        table.partition(self.k - 1, axis=1)
        self.key[which] = np.minimum(self.key[which], table[:, self.k - 1])


class _Pairs:
    """The same in float64."""

    def __init__(self, limit: Array, k: int) -> None:
        self.k, self.distance, self.index = k, limit.copy(), np.full(len(limit), _LAST)

    def reached(self, distance: Array, index: Array, row: Array) -> Array:
        limit = self.distance.take(row)
        reached: Array = distance < limit
        reached |= (distance == limit) & (index <= self.index.take(row))
        return reached

    def lower(
        self, distance: Array, index: Array, which: Array, begins: Array, counts: Array
    ) -> None:
        d, missing = _table(distance, begins, counts)
        i, _ = _table(index, begins, counts)
        d[missing], i[missing] = np.inf, _LAST
        nth = np.partition(d, self.k - 1, axis=1)[:, self.k - 1]
        # of those as far as it the first that there is room for
        room = self.k - (d < nth[:, None]).sum(axis=1)
        i[d != nth[:, None]] = _LAST
        i.sort(axis=1)
        last = np.take_along_axis(i, room[:, None] - 1, axis=1)[:, 0]
        earlier = self.reached(nth, last, which)
        self.distance[which[earlier]], self.index[which[earlier]] = nth[earlier], last[earlier]


def _rows(row: Array) -> tuple[Array, Array]:
    """Where each row begins in ascending rows that are not empty, and how often it comes."""
    starts = np.ones(len(row), np.bool_)
    starts[1:] = row[1:] != row[:-1]
    begins = starts.nonzero()[0]
    return begins, np.diff(begins, append=len(row))


def _table(values: Array, begins: Array, counts: Array) -> tuple[Array, Array]:
    """Values of each row side by side [rows, w], and which places hold nothing."""
    slot = np.arange(int(counts.max()))
    missing = slot >= counts[:, None]
    table: Array = values.take(np.where(missing, begins[:, None], begins[:, None] + slot))
    return table, missing
