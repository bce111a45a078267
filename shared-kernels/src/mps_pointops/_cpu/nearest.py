"""The k nearest points of one cloud: candidates of the tree, the rule, a certificate, widening."""

from __future__ import annotations

import numpy as np

from mps_pointops._cpu.boxes import Measure
from mps_pointops._cpu.pairs import Array, ordered, plain
from mps_pointops._cpu.tree import Tree, expand

# entries of a block of rows: what the processor's cache holds
_ENTRIES = 2**17
# rows that need more than so many times the first width are searched in boxes
_WIDER = 8
_SAMPLE = 8  # rows that tell of the others how many they need


def first_width(tree: Tree, k: int) -> int:
    """How many places to look at first."""
    if tree.begins is not None:  # places, not points
        k = -(-2 * k * tree.size // int(tree.begins[-1]))
    return min(tree.size, k + max(4, k // 8))


def rows_together(tree: Tree, k: int) -> int:
    """How many queries to search in one call."""
    return max(64, _ENTRIES // max(first_width(tree, k), k))


def nearest(tree: Tree, query: Array, k: int) -> tuple[Array, Array]:
    """The first k points of the cloud in the order (squared distance, index).

    Args:
        tree: The cloud.
        query: Finite queries [m, D], in the dtype of the cloud.
        k: At most the number of points of the tree, and at least one.

    Returns:
        Squared distances [m, k] and rows of the input [m, k].
    """
    rows = np.arange(len(query))
    distance = np.empty((len(query), k), query.dtype)
    index = np.empty((len(query), k), np.int64)
    quick = plain(query)
    measure = Measure(tree.rule, quick and tree.plain)
    vast = tree.out_of_reach(query)
    if vast.any():
        distance[vast], index[vast] = tree.boxes().search(query[vast], k, measure)
        rows = rows[~vast]
    width, bound = first_width(tree, k), np.inf
    most, more = _WIDER * width, max(16, width // 4)
    while len(rows):
        found = tree.query(query[rows], width, bound)
        pick = _points if tree.begins is None else _points_of_places
        d, i, last = pick(tree, query[rows], k, *found, quick)
        with np.errstate(over="ignore"):
            limit = tree.beyond(last.astype(np.float64))
            sure = _is_beyond(found[0], limit) | (width == tree.size)
        distance[rows], index[rows] = d, i
        if sure.all():
            break
        rows, limit, last = rows[~sure], limit[~sure], last[~sure]
        usable = limit < np.inf
        bound = float(np.sqrt(limit[usable].max())) * (1 + 1e-12) if usable.all() else np.inf
        width += more
        more *= 2
        if most >= tree.size:
            width = tree.size
        elif width > most or _many_tie(tree, query[rows], limit, most):
            # very many are about as far as the last
            distance[rows], index[rows] = tree.boxes().search(query[rows], k, measure, last)
            break
    return distance, index


def _is_beyond(far: Array, limit: Array) -> Array:
    """Whether all places that were not found are beyond squared limits [m]."""
    beyond: Array = far[:, -1] ** 2 * (1 - 2.0**-38) > limit
    return beyond


def _many_tie(tree: Tree, query: Array, limit: Array, most: int) -> bool:
    """Whether most queries have more than `most` places within their limits, judged by some."""
    some = slice(None, None, max(1, len(query) // _SAMPLE))
    far, _ = tree.query(query[some], most)
    with np.errstate(over="ignore"):
        return bool(_is_beyond(far, limit[some]).mean() < 0.5)


def _points(
    tree: Tree, query: Array, k: int, far: Array, number: Array, quick: bool
) -> tuple[Array, Array, Array]:
    missing = None
    if far[:, -1].max() == np.inf:
        missing = number == tree.size
        number = np.where(missing, 0, number)
    distance = tree.distance(query, number, quick)
    distance, index = ordered(distance, tree.index[number], missing)
    return distance[:, :k], index[:, :k], distance[:, k - 1]


def _points_of_places(
    tree: Tree, query: Array, k: int, far: Array, number: Array, quick: bool
) -> tuple[Array, Array, Array]:
    """The same where places hold several points."""
    assert tree.counts is not None
    missing = number == tree.size
    number = np.where(missing, 0, number)
    distance = tree.distance(query, number, quick)
    distance[missing] = np.inf
    counts = np.where(missing, 0, np.minimum(tree.counts[number], k))
    # how far the k-th point is; infinite if these places do not hold so many
    order = distance.argsort(axis=1)
    enough = np.take_along_axis(counts, order, axis=1).cumsum(axis=1) >= k
    nth = np.take_along_axis(order, enough.argmax(axis=1)[:, None], axis=1)
    last = np.where(enough[:, -1], np.take_along_axis(distance, nth, axis=1)[:, 0], np.inf)
    counts[(distance > last[:, None]) | missing] = 0

    totals = counts.sum(axis=1)
    out = np.full((len(query), k), np.inf, query.dtype), np.full((len(query), k), -1)
    begin = 0
    while begin < len(query):  # ties may hold k points each
        sizes = np.maximum.accumulate(totals[begin:]) * np.arange(1, len(query) - begin + 1)
        end = begin + max(1, int(np.searchsorted(sizes, 4 * _ENTRIES)))
        here = slice(begin, end)
        d, i = _spread(tree, distance[here], number[here], counts[here])
        count = min(k, d.shape[1])
        out[0][here, :count], out[1][here, :count] = d[:, :count], i[:, :count]
        begin = end
    return *out, last


def _spread(tree: Tree, distance: Array, number: Array, counts: Array) -> tuple[Array, Array]:
    """The first points of places, `counts` [m, w] of each, in order."""
    assert tree.begins is not None
    totals = counts.sum(axis=1)
    flat = counts.ravel()
    members = tree.index[expand(tree.begins[number.ravel()], flat)]
    shape = (len(totals), int(totals.max()))
    row = np.repeat(np.arange(len(totals)), totals)
    slot = expand(np.zeros_like(totals), totals)
    d, i = np.zeros(shape, distance.dtype), np.zeros(shape, np.int64)
    missing = np.ones(shape, np.bool_)
    d[row, slot], i[row, slot] = np.repeat(distance.ravel(), flat), members
    missing[row, slot] = False
    return ordered(d, i, missing)
