"""Farthest point sampling of many small clouds on the CPU: one pick of every cloud in a step.

Clouds of similar size lie beside each other in one array, filled up to the largest, so that a step
is a few passes over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mps_pointops.ops.fps.cpu_distance import Array, Distance, Nearest

_BLOCK = 2**15  # points of clouds that are sampled together: what stays in the cache


def sample_in_lockstep(
    points: Array, ends: Array, starts: Array, finite: Array, picks: Array, distance: Distance
) -> Iterator[tuple[Array, Array]]:
    """Clouds `points[ends[b]:ends[b + 1]]` of points [n, D], none of them empty.

    Args:
        points: In the order in which ties are decided.
        ends: Where clouds begin [B + 1].
        starts: First picks [B, D].
        finite: Whether a start is finite [B]; one that is not changes no distance.
        picks: Picks after the start [B].
        distance: The rule.

    Yields:
        Cloud numbers [C] and positions [C, m] in their clouds, m the most picks of one of them;
        for the others the positions after their picks mean nothing.
    """
    sizes = np.diff(ends)
    for members in _groups(sizes, picks):
        yield members, _sample(points, ends, sizes, members, starts, finite, picks, distance)


def _groups(sizes: Array, picks: Array) -> Iterator[Array]:
    """Clouds of similar size whose points, filled up, make a block; most picks first."""
    order = np.argsort(-sizes, kind="stable")
    order = order[picks[order] > 0]
    first = 0
    while first < len(order):
        largest = int(sizes[order[first]])
        similar = int(np.searchsorted(-sizes[order], -(largest // 2), side="right"))
        last = min(max(similar, first + 1), first + max(1, _BLOCK // largest))
        members = order[first:last]
        yield members[np.argsort(-picks[members], kind="stable")]
        first = last


def _sample(
    points: Array,
    ends: Array,
    sizes: Array,
    members: Array,
    starts: Array,
    finite: Array,
    picks: Array,
    distance: Distance,
) -> Array:
    rows, width = len(members), int(sizes[members].max())
    column = np.arange(width)
    inside = column < sizes[members, None]
    where = np.where(inside, ends[members, None] + column, ends[members, None])
    columns = np.empty((points.shape[1], rows, width), points.dtype)
    for d, axis in enumerate(columns):
        np.take(points[:, d], where, out=axis)
    nearest = np.where(inside, points.dtype.type(np.inf), points.dtype.type(-1))
    counts = picks[members]
    out = np.zeros((int(counts[0]), rows), np.int64)
    centres = np.where(finite[members, None], starts[members], points.dtype.type(0)).T.copy()
    lost = np.flatnonzero(~finite[members])
    offsets = np.arange(rows) * width
    state = Nearest(distance, columns, nearest)
    for step in range(len(out)):
        if counts[rows - 1] <= step:  # clouds at the end have their picks
            rows = int(np.count_nonzero(counts > step))
            state.cut(rows)
            centres = centres[:, :rows]
        state.lower(centres, lost if step == 0 else lost[:0])
        best = state.nearest.argmax(axis=1)  # the first of equal ones
        out[step, :rows] = best
        centres = state.flat.take(best + offsets[:rows], axis=1)
    result: Array = out.T
    return result
