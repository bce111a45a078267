"""Farthest point sampling of one large cloud on the CPU, in rounds.

A round takes the points of largest key (minimum distance so far, then the smaller rank), samples
among them alone while their best key beats the threshold that all others stay below, and then
brings the distances of all points up to date. Minimum distances only fall and keys are distinct,
so every pick is the one of a search over all points. The threshold may be any key; it bounds the
work only.

Points lie in tiles along a Morton curve. A tile whose box is farther from a pick than its largest
minimum distance is left alone; so are 32 tiles at once.
"""

from __future__ import annotations

import numpy as np

from mps_pointops.ops.fps.cpu_distance import Array, Distance, Workspace

_FAN = 32  # tiles of a block
_PAIRS = 2**15  # points looked at in one go: what stays in the cache
_BOUNDS = 2**16  # bounds of blocks in one go
_ROWS = 32  # points of a set whose distances to it are made in one go
# (shift, mask) that move the bits of a number to every second or third place
_PAIRS_OF_BITS = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)
_TRIPLES_OF_BITS = (
    (32, 0x001F00000000FFFF),
    (16, 0x001F0000FF0000FF),
    (8, 0x100F00F00F00F00F),
    (4, 0x10C30C30C30C30C3),
    (2, 0x1249249249249249),
)


def sample_in_rounds(points: Array, start: Array | None, picks: int, distance: Distance) -> Array:
    """Positions [picks] in points [n, D] after a start [D] that is finite, or None; n > 0."""
    tiles = _Tiles(points, distance, _tile_size(len(points), picks))
    out = np.zeros(picks, np.int64)
    set_size = min(1024, max(256, picks // 4))
    if start is not None:
        tiles.apply(start[:, None])
    done = 0
    while done < picks:
        places, limit, among = tiles.best(set_size)
        chosen = _sample_set(tiles, places, limit, among, out[done:])
        if chosen is None:  # every place is taken: the first point again and again
            break
        done += chosen.shape[1]
        if done < picks:
            tiles.apply(chosen)
    return out


def _tile_size(count: int, picks: int) -> int:
    return 128 if count >= 400_000 and picks < count // 16 else 64


def _sample_set(tiles: _Tiles, places: Array, limit: float, among: int, out: Array) -> Array | None:
    """Sample among the points at places, in order of rank, and write their ranks to `out`.

    A best of exactly `limit` still wins if it is one of the first `among`. Returns the coordinates
    [D, c] of the picks; None if all points are at distance zero.
    """
    columns, nearest = tiles.columns[:, places], tiles.nearest[places]
    count = len(places)
    rows = min(_ROWS, count)
    work = Workspace(tiles.distance, (rows, count))
    distances = list(work.total)
    slots: dict[int, int] = {}
    argmax, item, minimum = nearest.argmax, nearest.item, np.minimum
    chosen: list[int] = []
    while len(chosen) < len(out):
        j = int(argmax())
        best = item(j)
        if best <= limit and (best < limit or j >= among):
            break
        if best == 0:
            if not chosen:
                return None
            break
        slot = slots.get(j)
        if slot is None:  # distances of those that come next, j first, in one go
            likely = (-nearest).argsort(kind="stable")[:rows]
            work.between(columns[:, None], columns[:, likely, None])
            slots = dict(zip(likely.tolist(), range(rows), strict=True))
            slot = 0
        chosen.append(j)
        minimum(nearest, distances[slot], out=nearest)
    out[: len(chosen)] = tiles.rank[places[chosen]]
    return columns[:, chosen]


class _Tiles:
    """Points along a Morton curve, their minimum distances, and the best key of every tile."""

    def __init__(self, points: Array, distance: Distance, size: int) -> None:
        count = len(points)
        block = size * _FAN
        total = -(-count // block) * block
        self.distance, self.size, self.tiles = distance, size, total // size
        # within a tile by rank, so that the first of equal ones has the smallest
        self.rank = np.full(total, count, np.int64)
        self.rank[:count] = morton_order(points)
        self.tiled_rank = self.rank.reshape(self.tiles, size)
        self.tiled_rank.sort(axis=1)
        order = self.rank[:count]
        self.columns = np.empty((points.shape[1], total), points.dtype)
        for d, column in enumerate(self.columns):
            np.take(points[:, d], order, out=column[:count])
            column[count:] = column[count - 1]
        self.nearest = np.full(total, np.inf, points.dtype)
        self.nearest[count:] = -1  # filler
        tiled = self.columns.reshape(len(self.columns), self.tiles, size)
        self.low, self.high = tiled.min(axis=2), tiled.max(axis=2)
        shape = (len(self.columns), -1, _FAN)
        self.block_low = self.low.reshape(shape).min(axis=2)
        self.block_high = self.high.reshape(shape).max(axis=2)
        self.tiled = tiled
        self.tiled_nearest = self.nearest.reshape(self.tiles, size)
        self.farthest = np.empty(self.tiles, points.dtype)
        self.first = np.empty(self.tiles, np.int64)
        self._refresh(np.arange(self.tiles))
        self.work = Workspace(distance, (max(1, _PAIRS // size), size))

    def _refresh(self, which: Array) -> None:
        """The best key of tiles: the largest minimum distance, and the first rank that has it."""
        nearest = self.tiled_nearest.take(which, axis=0)
        place = nearest.argmax(axis=1)
        self.farthest[which] = nearest[np.arange(len(which)), place]
        self.first[which] = self.tiled_rank[which, place]

    def best(self, wanted: int) -> tuple[Array, float, int]:
        """Places of at most `wanted` points of best key, by rank, and the key below them.

        The key is a distance, and how many of the places have a rank before its own.
        """
        # a point's key is no better than its tile's
        limit, rank = _threshold(self.farthest, self.first, max(2, wanted // 4))
        better = (self.farthest > limit) | ((self.farthest == limit) & (self.first < rank))
        which = np.flatnonzero(better)
        nearest, ranks = self.tiled_nearest[which], self.tiled_rank[which]
        inside = np.nonzero((nearest > limit) | ((nearest == limit) & (ranks < rank)))
        values, ranks = nearest[inside], ranks[inside]
        places = which[inside[0]] * self.size + inside[1]
        if len(places) > wanted:
            limit, rank = _threshold(values, ranks, wanted)
            kept = np.flatnonzero((values > limit) | ((values == limit) & (ranks < rank)))
            ranks, places = ranks[kept], places[kept]
        by_rank = ranks.argsort()
        return places[by_rank], limit, int(np.searchsorted(ranks[by_rank], rank))

    def apply(self, picks: Array) -> None:
        """Bring minimum distances up to date with picks [D, c]."""
        step = max(32, _BOUNDS // self.block_low.shape[1])
        for begin in range(0, picks.shape[1], step):
            self._apply(picks[:, begin : begin + step])

    def _apply(self, picks: Array) -> None:
        tile, pick, waves = self._pairs(picks)
        step = len(self.work.total)
        for begin in range(0, len(tile), step):
            which = tile[begin : begin + step]
            end = begin + len(which)
            centres = picks[:, pick[begin:end], None]
            points = self.tiled.take(which, axis=1)
            distance = self.work.cut(len(which)).between(points, centres)
            inner = [wave - begin for wave in waves if begin < wave < end]
            for first, last in zip([0, *inner], [*inner, end - begin], strict=True):
                changed = which[first:last]
                nearest = self.tiled_nearest.take(changed, axis=0)
                np.minimum(nearest, distance[first:last], out=nearest)
                self.tiled_nearest[changed] = nearest
        if len(tile):
            self._refresh(tile[: waves[0]])

    def _pairs(self, picks: Array) -> tuple[Array, Array, list[int]]:
        """Tiles and picks that may change a distance in them, and where waves of them end.

        No tile comes twice in a wave; all tiles come in the first.
        """
        dim = len(picks)
        shape = (-1, _FAN)
        farthest = self.farthest.reshape(shape)
        low, high = self.block_low[:, :, None], self.block_high[:, :, None]
        bound = self.distance.bound(low, high, picks[:, None])
        block, pick = np.nonzero(bound < farthest.max(axis=1)[:, None])
        low, high = (s.reshape(dim, *shape).take(block, axis=1) for s in (self.low, self.high))
        bound = self.distance.bound(low, high, picks[:, pick, None])
        found = np.flatnonzero(bound < farthest.take(block, axis=0))
        row = found // _FAN
        tile, pick = block[row] * _FAN + found % _FAN, pick[row]
        order = tile.astype(np.uint16 if self.tiles <= 2**16 else np.int64).argsort(kind="stable")
        tile = tile[order]
        starts = np.flatnonzero(np.concatenate(([True], tile[1:] != tile[:-1])))
        counts = np.diff(starts, append=len(tile))
        wave = np.arange(len(tile)) - np.repeat(starts, counts)
        by_wave = wave.astype(np.uint16).argsort(kind="stable")
        ends = np.bincount(wave).cumsum().tolist()
        return tile[by_wave], pick[order[by_wave]], ends


def _threshold(values: Array, ranks: Array, wanted: int) -> tuple[float, int]:
    """The key that exactly `wanted` of the keys (value, then the smaller rank) beat."""
    if len(values) <= wanted:
        return -0.5, 0
    limit = np.partition(values, len(values) - 1 - wanted)[len(values) - 1 - wanted]
    tied = ranks[values == limit]
    over = wanted - int(np.count_nonzero(values > limit))
    return limit, int(np.partition(tied, over)[over])


def morton_order(points: Array) -> Array:
    """An order of points [n, D] that keeps close ones together.

    Cells are those of a box around the middle of the cloud, so that outliers leave its grain alone.
    """
    count, dim = points.shape
    sample = points[:: max(1, count // 1024)].astype(np.float64)
    near, far = np.quantile(sample, (0.02, 0.98), axis=0)
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    low, high = np.maximum(low, 3 * near - 2 * far), np.minimum(high, 3 * far - 2 * near)
    axes = np.argsort(low - high, kind="stable")[: min(3, dim)]
    index_bits = max(1, int(count - 1).bit_length())
    bits = min(20, (62 - index_bits) // len(axes))
    extent = float((high - low)[axes].max())
    key = np.zeros(count, np.int64)
    if extent > 0 and np.isfinite(extent):
        cells = 2.0**bits - 1
        for place, axis in enumerate(axes):
            column = (points[:, axis] - low[axis]) * (cells / extent)
            np.clip(column, 0, cells, out=column)
            key |= _spread(column.astype(np.int64), len(axes)) << place
    key <<= index_bits
    key |= np.arange(count)
    key.sort()
    key &= (1 << index_bits) - 1
    return key


def _spread(cell: Array, axes: int) -> Array:
    """Bits of numbers below 2**20 moved apart, one of every `axes`."""
    if axes == 1:
        return cell
    steps = _PAIRS_OF_BITS if axes == 2 else _TRIPLES_OF_BITS
    for shift, mask in steps:
        cell |= cell << shift
        cell &= mask
    return cell
