"""Ball queries in a tree: candidates within a slightly larger ball, then the rule."""

from __future__ import annotations

import numpy as np

from mps_pointops._cpu.boxes import Measure
from mps_pointops._cpu.pairs import NONE, Array, pack, pair_distance, plain, unpack
from mps_pointops._cpu.tree import Tree
from mps_pointops.ops.ball_query.hits import Hits
from mps_pointops.ops.ball_query.threshold import Threshold

# entries of a block of rows: what the processor's cache holds
_ENTRIES = 2**17
# rows whose first points are looked for in input order together
_ROWS = 2048
# queries with more than so many times the usual number of candidates are searched in boxes
_WIDER = 8
# rows of which the number of candidates is counted beforehand
_SAMPLE = 16
# looking at a point in input order costs this part of finding one in the tree
_SCAN = 20


class BallSearch:
    """Queries of one cloud.

    Args:
        tree: The cloud, without places that hold several points.
        points: All points of the input [N, D].
        low: The first row of the cloud in them.
        limit: What is a hit.
        ignore_same_index: Row i of the input is never a hit of query i.
        hits: Where results go.
    """

    def __init__(
        self,
        tree: Tree,
        points: Array,
        low: int,
        limit: Threshold,
        ignore_same_index: bool,
        hits: Hits,
    ) -> None:
        self.tree, self.points, self.low, self.hits = tree, points, low, hits
        self.limit, self.squared = limit, limit.squared
        self.ignore_same_index = ignore_same_index
        # else the tree cannot tell
        self.usual = limit.scale == 1.0 and limit.squared < np.inf
        self.radius = float(np.sqrt(tree.beyond(self.squared))) * (1 + 1e-12)

    def sample(self, query: Array) -> int:
        """How many candidates queries have, judged by some of them."""
        some = query[:: max(1, len(query) // _SAMPLE)]
        return int(self.tree.count(some, self.radius).max(initial=0))

    def rows_together(self, query: Array) -> int:
        """How many queries to search in one call."""
        if not self.usual:
            return _ROWS
        width = self._width(self.sample(query))
        if self._scan_is_quicker(width):
            return _ROWS
        return max(64, _ENTRIES // max(1, min(width, self.tree.size)))

    def search(self, query: Array, rows: Array) -> int:
        """Search finite queries [m, D], which are rows [m] of the input.

        Returns 0, or how many points are to be looked at in input order, as that finds the first
        hits of these queries sooner; then nothing is done.
        """
        if not self.usual:
            return self.hits.K + 8
        candidates = self.sample(query)
        width = self._width(candidates)
        if self._scan_is_quicker(width):
            # if hits are evenly spread over the input
            return 1 + self.tree.size * self.hits.K // max(1, candidates)
        left, most = np.arange(len(rows)), max(_WIDER * width, 4 * self.hits.K)
        while len(left) and width <= most:
            step = max(1, 2 * _ENTRIES // min(width, self.tree.size))
            parts = [left[begin : begin + step] for begin in range(0, len(left), step)]
            left = np.concatenate(
                [part[self._list(query[part], rows[part], width)] for part in parts]
            )
            width *= 4
        self.search_in_boxes(query[left], rows[left])
        return 0

    def search_in_boxes(self, query: Array, rows: Array) -> None:
        """The same by boxes, however many candidates there are."""
        hits, quick = self.hits, plain(query) and self.tree.plain
        measure = Measure(self.tree.rule, quick, self.limit.scale, self.squared)
        places = min(hits.K + self.ignore_same_index, len(self.tree.index))
        step = max(1, 4 * _ENTRIES // places)
        for begin in range(0, len(rows), step):
            q, row = query[begin : begin + step], rows[begin : begin + step]
            _, index = self.tree.boxes().search(q, places, measure)
            index[index >= 0] += self.low
            if self.ignore_same_index:
                own = index == row[:, None]
                index[own] = -1
                # moves up those behind it
                order = (index < 0).argsort(axis=1, kind="stable")
                index = np.take_along_axis(index, order, axis=1)[:, : hits.K]
            free = index < 0
            distance = None
            if hits.distance is not None:
                number = np.where(free, self.low, index)
                distance = pair_distance(q, self.points, number, self.tree.rule, quick)
                distance[free] = 0
            hits.fill(row, (~free).sum(axis=1), index, distance)

    def _width(self, candidates: int) -> int:
        return candidates + candidates // 4 + 8

    def _scan_is_quicker(self, candidates: Array | int) -> Array:
        """Whether K hits come sooner in input order, if hits are evenly spread over it."""
        size, K = self.tree.size, self.hits.K
        until = np.minimum(size, 2.0 * size * K / np.maximum(candidates, 1))
        return np.asarray((candidates > 2 * K) | (candidates > size // 4)) & (
            _SCAN * np.asarray(candidates) > until
        )

    def _list(self, query: Array, rows: Array, width: int) -> Array:
        """Search in the tree; rows that may have more than `width` candidates are told [m]."""
        tree, hits = self.tree, self.hits
        width = min(width, tree.size)
        far, number = tree.query(query, width, self.radius)
        missing = number == tree.size
        full: Array = ~missing[:, -1] & (width < tree.size)
        number[missing] = 0
        index = tree.index[number]
        index += self.low
        if self.ignore_same_index:
            missing |= index == rows[:, None]
        quick = plain(query)
        if hits.distance is None:
            inside = self._inside(query, far, number, quick) & ~missing
            counts = np.minimum(inside.sum(axis=1), hits.K)
            if hits.index is not None:
                index[~inside] = np.iinfo(np.int64).max
                index.sort(axis=1)
            hits.fill(rows, counts, index, None)
            return full
        distance = tree.distance(query, number, quick)
        inside = (distance < self.squared) & ~missing
        counts = np.minimum(inside.sum(axis=1), hits.K)
        kept = min(hits.K, int(counts.max(initial=0)))
        if distance.dtype == np.float32:
            # the index first, then the distance, which is only carried along
            keys = pack(index, distance)
            keys[~inside] = NONE
            keys.sort(axis=1)
            high, low = unpack(keys[:, :kept])
            index, distance = high.astype(np.int64), low.view(np.float32)
        else:
            index[~inside] = np.iinfo(np.int64).max
            order = index.argsort(axis=1)[:, :kept]
            index = np.take_along_axis(index, order, axis=1)
            distance = np.take_along_axis(distance, order, axis=1)
        free = np.arange(kept) >= counts[:, None]
        index[free], distance[free] = -1, 0
        hits.fill(rows, counts, index, distance)
        return full

    def _inside(self, query: Array, far: Array, number: Array, quick: bool) -> Array:
        """Which candidates are hits: by their distances in float64, by the rule where close."""
        tree = self.tree
        with np.errstate(over="ignore"):
            far = far**2
            inside: Array = tree.beyond(far) < self.squared
            close = ~inside & (far <= tree.beyond(self.squared))
        row, column = close.nonzero()
        exact = tree.distance(query[row], number[row, column][:, None], quick)
        inside[row, column] = exact[:, 0] < self.squared
        return inside
