"""Exact squared distances of chosen pairs, and their order, at the speed of NumPy.

The meaning is `_arithmetic.squared_distance`. A fused step is a float64 sum here: the product of
two floats is exact in float64, so only two roundings can differ from one, and they do only if the
float64 sum lies exactly between two floats. Such pairs are worked out again by the rule's own text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule

Array = NDArray[Any]

NONE = np.uint64(2**64 - 1)  # above every key
_HALF = np.uint64(32)
# coordinates of pairs that are copied together
_COORDINATES = 2**21
_ROOT = 2.0**-63  # the square of a smaller float32 number is flushed
TINY = 2.0**-126 - 2.0**-151  # and so is a smaller sum
# the bits of a float64 that float32 has not, and their value half way between two floats
_REST, _MIDDLE = 0x1FFFFFFF, 0x10000000


def plain(points: Array) -> bool:
    """Whether points differ by zero or 2**-62 at least: no square is subnormal."""
    size = np.abs(points)
    return not bool(((size < 2.0**-38) & (size != 0)).any())


def pair_distance(query: Array, points: Array, number: Array, rule: Rule, quick: bool) -> Array:
    """Squared distances [m, w] of queries [m, D] and the points [n, D] of numbers [m, w].

    All in float32 or all in float64, finite. `quick`: both sets are `plain`.
    """

    def difference(d: int) -> Array:
        t: Array = points[:, d].take(number)
        t -= query[:, d, None]
        return t

    return sum_of_squares(difference, points.shape[1], rule, quick)


def listed_distance(query: Array, points: Array, row: Array, number: Array, rule: Rule) -> Array:
    """Squared distances [m] of the queries of rows [m] and the points of numbers [m].

    Else as `pair_distance`. Memory does not grow with D.
    """
    found = np.empty(len(row), points.dtype)
    dim = points.shape[1]
    step = max(1, _COORDINATES // dim)
    for begin in range(0, len(row), step):
        here = slice(begin, begin + step)
        with np.errstate(all="ignore"):
            difference = points.take(number[here], axis=0)
            difference -= query.take(row[here], axis=0)
        size = np.abs(difference)
        quick = not bool(((size < 2.0**-62) & (size != 0)).any())
        found[here] = sum_of_squares(partial(_column, difference.T.copy()), dim, rule, quick)
    return found


def _column(columns: Array, d: int) -> Array:
    column: Array = columns[d].copy()
    return column


def sum_of_squares(difference: Callable[[int], Array], dim: int, rule: Rule, quick: bool) -> Array:
    """Squared distances of pairs whose difference in coordinate d is a new array `difference(d)`.

    `quick`: no difference but zero is smaller than 2**-62.
    """
    order = (1, 0, 2) if rule is Rule.FMA_YXZ else range(dim)
    total = np.empty(0)
    odd: Array | None = None
    with np.errstate(all="ignore"):
        for step, d in enumerate(order):
            t = difference(d)
            wide = t.dtype == np.float64
            fused = step > 0 and not wide and rule is not Rule.SEPARATE
            if not (quick or wide or fused):
                t[np.abs(t) < _ROOT] = 0  # its square is flushed
            if step == 0:
                total = t * t
            elif not fused:
                t *= t
                total += t
            else:
                exact = t.astype(np.float64)
                exact *= exact
                exact += total
                middle = (exact.view(np.int64) & _REST) == _MIDDLE
                odd = middle if odd is None else odd | middle
                if not quick:
                    exact[exact < TINY] = 0  # subnormal after rounding to 24 bits
                total = exact.astype(np.float32)
        if odd is not None and odd.any():
            some = torch.from_numpy(np.stack([difference(d)[odd] for d in range(dim)], axis=-1))
            total[odd] = squared_distance(some, torch.zeros_like(some), rule).numpy()
    return total


def pack(high: Array, low: Array) -> Array:
    """Keys in the order (high, low): the bits of float32 numbers >= 0, or indices below 2**32."""
    keys = (high.view(np.uint32) if high.dtype == np.float32 else high).astype(np.uint64)
    keys <<= _HALF
    keys |= (low.view(np.uint32) if low.dtype == np.float32 else low).astype(np.uint64)
    return keys


def unpack(keys: Array) -> tuple[Array, Array]:
    """High and low parts of keys, as uint32."""
    return (keys >> _HALF).astype(np.uint32), keys.astype(np.uint32)


def ordered(distance: Array, index: Array, missing: Array | None = None) -> tuple[Array, Array]:
    """Every row of distances and indices [m, w] in the order (distance, index).

    `missing` [m, w]: places that hold no pair; they come last, as (inf, -1).
    """
    if distance.dtype == np.float32:
        keys = pack(distance, index)
        if missing is not None:
            keys[missing] = NONE
        descends = (keys[:, 1:] < keys[:, :-1]).any(axis=1)
        if descends.all():
            keys.sort(axis=1)
        elif descends.any():
            keys[descends] = np.sort(keys[descends], axis=1)
        high, low = unpack(keys)
        distance, index = high.view(np.float32), low.astype(np.int64)
        if missing is not None:
            gone = keys == NONE
            distance[gone], index[gone] = np.inf, -1
        return distance, index
    if missing is not None:  # NaN comes last
        distance = np.where(missing, np.nan, distance)
        index = np.where(missing, -1, index)
    order = np.lexsort((index, distance), axis=1)
    distance = np.take_along_axis(distance, order, axis=1)
    index = np.take_along_axis(index, order, axis=1)
    return (distance if missing is None else np.where(index < 0, np.inf, distance)), index
