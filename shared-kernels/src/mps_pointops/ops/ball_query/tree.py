"""Ball queries in a tree: candidates within a slightly larger ball, then the rule."""

from __future__ import annotations

import numpy as np

from mps_pointops._cpu.pairs import NONE, Array, pack, plain, unpack
from mps_pointops._cpu.tree import Tree
from mps_pointops.ops.ball_query.hits import Hits

# entries of a block of rows: what the processor's cache holds
_ENTRIES = 2**17
# rows of which the number of candidates is counted beforehand
_SAMPLE = 16
# looking at a point in input order costs this part of finding one in the tree
_SCAN = 20


class BallSearch:
    """Queries of one cloud.

    Args:
        tree: The cloud, without places that hold several points.
        low: Its first row in the input.
        squared: Squared radius; a pair with a smaller squared distance is a hit.
        ignore_same_index: Row i of the input is never a hit of query i.
        hits: Where results go.
    """

    def __init__(
        self, tree: Tree, low: int, squared: float, ignore_same_index: bool, hits: Hits
    ) -> None:
        self.tree, self.low, self.squared, self.hits = tree, low, squared, hits
        self.ignore_same_index = ignore_same_index
        self.radius = float(np.sqrt(tree.beyond(squared))) * (1 + 1e-12)

    def sample(self, query: Array) -> int:
        """How many candidates queries have, judged by some of them."""
        some = query[:: max(1, len(query) // _SAMPLE)]
        return int(self.tree.count(some, self.radius).max(initial=0))

    def rows_together(self, query: Array) -> int:
        """How many queries to search in one call."""
        return max(64, _ENTRIES // max(1, min(self._width(self.sample(query)), self.tree.size)))

    def search(self, query: Array, rows: Array) -> tuple[Array, Array]:
        """Search finite queries [m, D], which are rows [m] of the input.

        Returns the rows whose balls are so full that their first points are found sooner in input
        order, and how many candidates they have.
        """
        width = self._width(self.sample(query))
        left = np.arange(len(rows))
        if not self._scan_is_quicker(width):
            full = self._list(query, rows, min(width, self.tree.size))
            left = full.nonzero()[0]
        if len(left) == 0:
            return left, left
        counts = self.tree.count(query[left], self.radius)
        order = counts.argsort()
        left, counts = left[order], counts[order]
        slow = self._scan_is_quicker(counts)
        listed, widths = left[~slow], counts[~slow]
        begin = 0
        while begin < len(listed):
            sizes = widths[begin:] * np.arange(1, len(listed) - begin + 1)
            end = begin + max(1, int(np.searchsorted(sizes, 2 * _ENTRIES)))
            here = listed[begin:end]
            self._list(query[here], rows[here], max(1, int(widths[min(end, len(widths)) - 1])))
            begin = end
        full_rows = rows[left[slow]]
        self.hits.clear(full_rows)  # some of their hits were listed above
        return full_rows, counts[slow]

    def list_all(self, query: Array, rows: Array) -> None:
        """Search in the tree, however many candidates there are."""
        counts = self.tree.count(query, self.radius)
        for number, count in enumerate(counts.tolist()):
            one = slice(number, number + 1)
            self._list(query[one], rows[one], max(1, count))

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
        far, number = tree.query(query, width, self.radius)
        missing = number == tree.size
        full: Array = ~missing[:, -1] & (width < tree.size)
        number[missing] = 0
        index = tree.index[number]
        index += self.low
        if self.ignore_same_index:
            missing |= index == rows[:, None]
        quick = plain(query)
        if hits.index is None:
            inside = self._inside(query, far, number, quick) & ~missing
            hits.fill(rows, np.minimum(inside.sum(axis=1), hits.K), index, far)
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
