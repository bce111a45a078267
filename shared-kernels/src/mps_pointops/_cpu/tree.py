"""Points of one cloud in SciPy's k-d tree, which finds candidates in float64.

What the tree finds is never the answer: distances are worked out again by the rule, and the bounds
here say what rounding can change between the two.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from mps_pointops._cpu.boxes import Boxes
from mps_pointops._cpu.pairs import Array, pair_distance, plain
from mps_pointops._rules import Rule

LARGEST_DIM = 8
_LEAF = 32
# points from which on they are put in the order of a curve: the tree is made in half the time and
# answers in half the time
_MANY = 2048
# of so many points, evenly spread, those that are at a place met before tell of duplicates
_SAMPLE = 1024
_EPS = 2.0**-42
# of coordinates up to here no squared distance overflows in float64
_REACH = 2.0**500
_SHRINK = 2.0**-600


class Tree:
    """Finite points [n, D] of one cloud, at distinct places if `collapse` and many are equal.

    Attributes:
        size: Number of places.
        index: Row of the input of every point; those of a place ascend.
        begins: Where the points of each place begin [size + 1] in `index`; None: one a place.
        counts: How many they are [size]; None likewise.
    """

    def __init__(self, points: Array, rule: Rule, *, collapse: bool) -> None:
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]  # slow to import

        self.rule = rule
        self.index: Array = np.arange(len(points))
        if not np.isfinite(points).all():
            self.index = finite_rows(points).nonzero()[0]
            points = points.take(self.index, axis=0)
        self.begins: Array | None = None
        if collapse and _many_equal(points):
            order, self.begins = _places(points)
            self.index, points = self.index[order], points[order[self.begins[:-1]]]
        self.curve: _Curve | None = None
        if len(points) >= _MANY:
            self.curve = _Curve(points)
            order = self.curve.order(points)
            points = points.take(order, axis=0)
            if self.begins is None:
                self.index = self.index.take(order)
            else:
                self._move_places(order)
        self.counts: Array | None = None if self.begins is None else np.diff(self.begins)
        self.size = len(points)
        self.points = np.ascontiguousarray(points)
        self.plain = plain(points)
        # then the tree only tells which points are near each other
        self._vast = bool(_are_vast(points).any())
        wide = points.astype(np.float64)
        if self._vast:
            wide *= _SHRINK
        self.tree: Any = cKDTree(wide, leafsize=_LEAF, compact_nodes=False, balanced_tree=False)
        self._boxes: list[Boxes] = []  # shared by the copies of other rules

    def _move_places(self, order: Array) -> None:
        assert self.begins is not None
        counts = np.diff(self.begins)[order]
        begins = np.concatenate(([0], counts.cumsum()))
        self.index = self.index[expand(self.begins[:-1][order], counts)]
        self.begins = begins

    def order(self, query: Array) -> Array:
        """An order of the rows of finite queries in which neighbours are near each other."""
        return self.curve.order(query) if self.curve else np.arange(len(query))

    def distance(self, query: Array, number: Array, quick: bool) -> Array:
        """Squared distances by the rule [m, w] to the places of these numbers [m, w]."""
        return pair_distance(query, self.points, number, self.rule, quick and self.plain)

    def out_of_reach(self, query: Array) -> Array:
        """Of which queries [m] the tree finds no candidates, as their squares may overflow."""
        return np.full(len(query), True) if self._vast else _are_vast(query)

    def boxes(self) -> Boxes:
        """All points in boxes, made when they are asked for."""
        if not self._boxes:
            leaves = self.tree.indices
            points, index = self.points.take(leaves, axis=0), self.index
            if self.begins is None or self.counts is None:
                index = index.take(leaves)
            else:
                counts = self.counts.take(leaves)
                index = index.take(expand(self.begins.take(leaves), counts))
                points = np.repeat(points, counts, axis=0)
            self._boxes.append(Boxes(points, index))
        return self._boxes[0]

    def query(self, query: Array, width: int, bound: float = np.inf) -> tuple[Array, Array]:
        """The `width` nearest places: distances and numbers [m, width], (inf, size) where none.

        `bound`: those beyond it may be left out. None left out is nearer than the last by more than
        a part of 2**-40.
        """
        # without eps every place as far as the last would be looked at
        found = self.tree.query(
            query.astype(np.float64),
            width,
            eps=_EPS,
            distance_upper_bound=bound * (1 + 4 * _EPS),
            workers=1,
        )
        distance, number = (part.reshape(len(query), width) for part in found)
        return distance, number

    def count(self, query: Array, radius: float) -> Array:
        """How many places are within a radius [m]."""
        counts: Array = self.tree.query_ball_point(
            query.astype(np.float64), radius, return_length=True, workers=1
        )
        return counts

    def beyond(self, squared: Array | float) -> Any:
        """What a squared distance must exceed in float64 for one by the rule to exceed `squared`.

        Likewise the other way round: one that is not above `squared` in float64 is not above this
        by the rule.
        """
        dim = self.points.shape[1]
        # twice what the roundings of D differences, squares and sums can change
        if self.points.dtype == np.float64:
            return squared * (1.0 + (dim + 4) * 2.0**-50) + 2.0**-1000
        return (squared + 2.0**-118) * (1.0 + (dim + 4) * 2.0**-22)


class Trees:
    """Trees of parts of some points [n, D], each made once, for any rule and any queries."""

    def __init__(self, points: Array) -> None:
        self._points = points
        self._made: dict[tuple[int, int, bool], Tree] = {}

    def tree(self, low: int, high: int, rule: Rule, *, collapse: bool) -> Tree:
        """The tree of the points low ... high - 1; arguments as those of `Tree`."""
        key = low, high, collapse
        if key not in self._made:
            self._made[key] = Tree(self._points[low:high], rule, collapse=collapse)
        tree = copy(self._made[key])
        tree.rule = rule
        return tree


def expand(begins: Array, counts: Array) -> Array:
    """The numbers begins[i] ... begins[i] + counts[i] - 1 of all i, one after the other."""
    ends = counts.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    numbers: Array = np.arange(total) + np.repeat(begins - (ends - counts), counts)
    return numbers


def _hash(points: Array) -> Array:
    """A number a place [n]; equal places have equal ones."""
    whole = np.uint64 if points.dtype == np.float64 else np.uint32
    bits = (np.ascontiguousarray(points) + 0.0).view(whole).astype(np.uint64)  # -0 is 0
    total = np.zeros(len(points), np.uint64)
    for column in bits.T:
        total = (total ^ column) * np.uint64(0x9E3779B97F4A7C15)
        total ^= total >> np.uint64(29)
    return total


def _many_equal(points: Array) -> bool:
    some = points[:: max(1, len(points) // _SAMPLE)]
    return len(some) > 8 and len(np.unique(_hash(some))) < 0.9 * len(some)


def _places(points: Array) -> tuple[Array, Array]:
    """Points in an order in which equal ones follow each other, ascending, and where places begin.

    A place may be listed twice, which does no harm.
    """
    key = _hash(points)
    order = key.argsort(kind="stable")
    new = np.ones(len(points), np.bool_)
    ascending, sorted_key = points[order], key[order]
    new[1:] = (sorted_key[1:] != sorted_key[:-1]) | (ascending[1:] != ascending[:-1]).any(axis=1)
    return order, np.concatenate((new.nonzero()[0], [len(points)]))


def _are_vast(points: Array) -> Array:
    """Which finite points [n, D] have coordinates whose squares may overflow in float64 [n]."""
    if points.dtype != np.float64:
        return np.full(len(points), False)
    return np.asarray((np.abs(points) > _REACH).any(axis=1))


def finite_rows(points: Array) -> Array:
    """Which points [n, D] have finite coordinates [n]; column by column, as NumPy is quicker so."""
    finite = np.ones(len(points), np.bool_)
    if not np.isfinite(points).all():
        for column in points.T:
            finite &= np.isfinite(column)
    return finite


class _Curve:
    """A Morton curve through the box of some points."""

    def __init__(self, points: Array) -> None:
        dim = points.shape[1]
        bits = min(10, 32 // dim)
        self.cells = 2**bits
        self.low = [float(column.min()) for column in points.T]
        high = [float(column.max()) for column in points.T]
        # no number below may overflow or vanish in float64
        self.factor = _SHRINK if max(map(abs, self.low + high)) > _REACH else 1.0
        if 0 < max(high) - min(self.low) < 1 / _REACH:
            self.factor = 1 / _SHRINK
        self.low, high = ([value * self.factor for value in ends] for ends in (self.low, high))
        extent = max(h - low for low, h in zip(self.low, high, strict=True))
        scale = (self.cells - 1) / extent if extent > 0 else 0.0
        self.scale = scale if np.isfinite(scale) else 0.0
        number = np.arange(self.cells, dtype=np.uint64)
        self.spread = np.zeros(self.cells, np.uint64)
        for b in range(bits):
            self.spread |= ((number >> np.uint64(b)) & np.uint64(1)) << np.uint64(b * dim)

    def order(self, points: Array) -> Array:
        """Rows along the curve."""
        key = np.zeros(len(points), np.uint64)
        for d, column in enumerate(points.T):
            cell = column.astype(np.float64)
            with np.errstate(over="ignore"):  # of queries far outside the box
                if self.factor != 1.0:
                    cell *= self.factor
                cell -= self.low[d]
                cell *= self.scale
            cell.clip(0, self.cells - 1, out=cell)
            key |= self.spread.take(cell.astype(np.intp)) << np.uint64(d)
        # sorted together with the row: sooner than an order is made
        key <<= np.uint64(32)
        key |= np.arange(len(points), dtype=np.uint64)
        key.sort()
        key &= np.uint64(2**32 - 1)
        order: Array = key.astype(np.intp)
        return order
