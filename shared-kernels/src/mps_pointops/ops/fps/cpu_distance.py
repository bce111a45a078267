"""Squared distances of farthest point sampling on the CPU: NumPy, in place, axis by axis.

The rules are those of `_arithmetic`, for points whose coordinates are finite. A pick costs a few
passes over arrays that stay in the cache, so the passes are what this file saves.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mps_pointops._rules import Rule

Array = NDArray[Any]

_ROOT = 2.0**-63  # the square of a smaller float32 number is subnormal
_TINY = 2.0**-126 - 2.0**-151  # below this a result is subnormal after rounding to 24 bits
_GRAINY = 2.0**-38  # larger coordinates differ by zero or at least 2**-61: no square is subnormal
_SLAB = 4  # axes at once
_FEW = 1500  # points for whose distances a choice among them costs more than it saves
_BRIEF = 2**16  # coordinates whose fused distances are made in one go
_SHIFT = np.asarray(35)  # leaves the bits of a float64 that a float32 lacks
_HALF = -(2**63)  # what they are between two floats


class Workspace:
    """Scratch arrays of one shape, and the squared distances [...] made in them."""

    def __init__(self, distance: Distance, shape: tuple[int, ...]) -> None:
        slab = min(_SLAB, distance.dim)
        self._distance = distance
        self._difference = np.empty((slab, *shape), distance.dtype)
        self.total = np.empty(shape, distance.dtype)
        if distance.fused:
            self._square = np.empty((slab, *shape), np.float64)
            self._wide = np.empty(shape, np.float64)
            self._bits = np.empty(0 if distance.exact else shape, np.int64)
        else:
            self._square, self._wide, self._bits = self._difference, self.total, self.total
        self._list()

    def _list(self) -> None:
        # views cost as much as a pass over a small array
        self._squares = list(self._square)
        if self._distance.rule is Rule.FMA_YXZ and self._distance.fused:
            self._squares[:2] = self._squares[1::-1]

    def cut(self, rows: int) -> Workspace:
        """The first rows of it."""
        if rows == len(self.total):
            return self
        part = object.__new__(Workspace)
        part._distance, part.total = self._distance, self.total[:rows]
        part._difference, part._square = self._difference[:, :rows], self._square[:, :rows]
        part._wide, part._bits = self._wide[:rows], self._bits[:rows]
        part._list()
        return part

    def between(self, points: Array, centres: Array) -> Array:
        """Squared distances [...] of points [D, ...] to centres, broadcast: `total`."""
        if len(points) <= _SLAB:
            np.subtract(points, centres, out=self._difference)
            self._sum(self._difference, self._square, self._squares, True)
            return self.total
        for d in range(0, len(points), _SLAB):
            count = min(_SLAB, len(points) - d)
            part = self._difference[:count]
            np.subtract(points[d : d + count], centres[d : d + count], out=part)
            self._sum(part, self._square[:count], self._squares[:count], d == 0)
        return self.total

    def _sum(self, part: Array, square: Array, squares: list[Array], first: bool) -> None:
        if self._distance.fused:
            self._fuse(part, square, squares, first)
            return
        if self._distance.dusty:
            part[np.abs(part) < _ROOT] = 0
        np.multiply(part, part, out=part)
        total, at = self.total, 0
        if first and len(squares) > 1:
            np.add(squares[0], squares[1], out=total)
            at = 2
        elif first:
            np.copyto(total, squares[0])
            at = 1
        for row in squares[at:]:
            np.add(total, row, out=total)

    def _fuse(self, part: Array, square: Array, squares: list[Array], first: bool) -> None:
        """One fused multiply-add an axis: the square is exact in float64."""
        np.copyto(square, part)
        np.multiply(square, square, out=square)
        if first:
            self._round(squares[0])
        for row in squares[int(first) :]:
            np.copyto(self._wide, self.total)
            np.add(self._wide, row, out=self._wide)
            if not self._distance.exact:
                self._mend(row)
            self._round(self._wide)

    def _round(self, wide: Array) -> None:
        if self._distance.dusty:
            wide[wide < _TINY] = 0
        np.copyto(self.total, wide, casting="same_kind")

    def _mend(self, square: Array) -> None:
        """Rounding twice is wrong only where a sum, itself rounded, lies between two floats."""
        np.left_shift(self._wide.view(np.int64), _SHIFT, out=self._bits)
        if self._bits.item(self._bits.argmin()) != _HALF:  # in fewer steps than `min`
            return
        where = np.nonzero(self._bits == _HALF)
        a, b, total = square[where], self.total[where].astype(np.float64), self._wide[where]
        rest = total - a
        error = (a - (total - rest)) + (b - rest)
        moved = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
        self._wide[where] = np.where((error != 0) & np.isfinite(total), moved, total)


class Nearest:
    """Minimum distances [B, N] of points [D, B, N] to centres [D, B]; contiguous arrays."""

    def __init__(self, distance: Distance, points: Array, nearest: Array) -> None:
        self.distance, self.points, self.nearest = distance, points, nearest
        self.flat = points.reshape(len(points), -1)
        self.filtered = distance.filtered and nearest.size >= _FEW
        self.slack = np.asarray(distance.slack)  # an array costs a call less than a number
        self.work = Workspace(distance.plain() if self.filtered else distance, nearest.shape)

    def cut(self, rows: int) -> None:
        """Leave out all but the first rows."""
        self.points, self.nearest = self.points[:, :rows], self.nearest[:rows]
        self.work = self.work.cut(rows)

    def lower(self, centres: Array, lost: Array) -> None:
        """The minimum with the distances to centres; rows in `lost` stay as they are."""
        nearest = self.nearest
        d2 = self.work.between(self.points, centres[:, :, None])
        if len(lost):
            d2[lost] = np.inf
        if not self.filtered:
            np.minimum(nearest, d2, out=nearest)
            return
        # the fused distance only of points that it may bring nearer: few, after some picks
        np.multiply(d2, self.slack, out=d2)
        where = np.less(d2, nearest).reshape(-1).nonzero()[0]
        if len(where) == 0:
            return
        near = centres if len(nearest) == 1 else centres.take(where // nearest.shape[1], axis=1)
        points = self.flat.take(where, axis=1)
        exact = self.distance.fused_once(points - near) if points.size < _BRIEF else None
        if exact is None:
            exact = Workspace(self.distance, where.shape).between(points, near)
        flat = nearest.reshape(-1)  # a view: the rows left are the first ones
        flat[where] = np.minimum(flat.take(where), exact)


class Distance:
    """A rule for points [N, D] (NumPy, finite) and starts [B, D] that are finite."""

    def __init__(self, rule: Rule, points: Array, starts: Array) -> None:
        self.rule, self.dtype, self.dim = rule, points.dtype, points.shape[1]
        self.fused = rule is not Rule.SEPARATE and points.dtype == np.float32
        self.dusty = self.exact = self.filtered = False
        if points.dtype == np.float32:
            sizes = [np.abs(points), np.abs(starts)]
            largest = max((float(s.max()) for s in sizes if s.size), default=0.0)
            self.dusty = any(bool(((s < _GRAINY) & (s != 0)).any()) for s in sizes)
            # nothing is flushed and nothing overflows: all rules agree but for the slack
            self.filtered = self.fused and not self.dusty and largest < 2.0**60
            self.exact = self.filtered and self._is_exact(points, starts, largest)
        # how far a bound of another rounding may lie above a distance, relatively
        self.slack = points.dtype.type(1 - (2 * self.dim + 4) * 2.0**-24 if self.fused else 1)

    def plain(self) -> Distance:
        """The same with every step rounded."""
        other = copy(self)
        other.rule, other.fused, other.filtered = Rule.SEPARATE, False, False
        return other

    def fused_once(self, difference: Array) -> Array | None:
        """Squares of differences [D, n] summed by the rule in few calls, for few points.

        None: a sum may have been rounded twice. Only where `filtered` holds.
        """
        squares = difference.astype(np.float64)
        np.multiply(squares, squares, out=squares)
        first, sums = squares[0], squares[1:]
        if self.rule is Rule.FMA_YXZ:
            first, sums = squares[1], squares[::2]
        total: Array = first.astype(np.float32)
        for row in sums:
            np.add(row, total, out=row)
            total = row.astype(np.float32)
        if self.exact or len(sums) == 0:
            return total
        bits = np.left_shift(sums.view(np.int64), _SHIFT)
        return None if bits.item(bits.argmin()) == _HALF else total

    def _is_exact(self, points: Array, starts: Array, largest: float) -> bool:
        """Multiples of a 2**-24th of the largest: sums of their squares are exact in float64."""
        if largest < 2.0**-60 or self.dim > 6:
            return False
        grains = np.float32(2.0 ** (24 - int(np.frexp(largest)[1])))
        for values in (points, starts):
            scaled = values * grains
            if not bool((np.rint(scaled) == scaled).all()):
                return False
        return True

    def bound(self, low: Array, high: Array, picks: Array) -> Array:
        """Lower bounds [...] of the distances from picks to boxes, each [D, ...], broadcast.

        The distance to the nearest place of a box: rounding is monotone, so no margin is needed
        where the steps are those of the distance.
        """
        gap = np.maximum(picks, low)
        np.minimum(gap, high, out=gap)
        gap -= picks
        if self.dusty:
            gap[np.abs(gap) < _ROOT] = 0
        gap *= gap
        total: Array = gap[0]
        for row in gap[1:]:
            total += row
        if self.fused:
            total *= self.slack
        return total
