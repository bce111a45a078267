"""Ragged calls: points [N, D] of several clouds, told apart by sorted batch vectors.

Signatures and counts follow torch_cluster; the kernels are those of the dense calls. Indices count
in the whole input. A batch vector may have gaps: missing numbers are empty clouds. Each call reads
the device at most once, for the size of its result and the order of its batch vectors together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float,
    as_float32,
    as_int,
    check_batch,
    check_pair,
    check_points,
    check_same_device,
    fail_type,
)
from mps_pointops._picks import Ratio, plan_picks
from mps_pointops._ragged import Segments, available, edges, fetch, segments
from mps_pointops._rules import as_rule, as_ties
from mps_pointops.ops.ball_query.ball_query import ball_count, ball_search
from mps_pointops.ops.fps.fps import fps as fps_core
from mps_pointops.ops.knn.knn import knn_search

__all__ = ["fps", "knn", "radius"]

# Results with more slots than this are counted first, so that memory follows what is found.
_SLOTS_UNCOUNTED = 2**22


def fps(
    x: Tensor,
    batch: Tensor | None = None,
    ratio: float | Tensor | None = None,
    random_start: bool = True,
    ptr: Tensor | Sequence[int] | None = None,
    *,
    batch_size: int | None = None,
    rule: str = "separate",
    ties: str = "lowest_index",
) -> Tensor:
    """Farthest point sampling of a part of every cloud.

    Args:
        x: Points [N, D], any D >= 1; float32, float16 or bfloat16 (widened to float32).
        batch: Cloud of every point [N], sorted, int64 or int32; None: one cloud.
        ratio: Part of each cloud to pick, a number, a tensor of one number, or one number per
            cloud [B]; None: 0.5. `ceil(n * ratio)` points of a cloud of n are picked, computed
            in the dtype of `ratio`, which for a number is that of `x`: 25 points at 0.6 give 16.
        random_start: First pick drawn from torch's generator of the device; else the first point.
        ptr: Where clouds begin [B + 1], from 0 to N, instead of `batch`.
        batch_size: Number of clouds, if known; at least the largest of `batch` + 1.
        rule: Rounding of squared distances: 'separate' or 'fma_xyz'.
        ties: Order among equally far points: 'lowest_index' or 'bit_reversed'.

    Returns:
        Indices into `x`, int64 [S], cloud by cloud in the order of picking. For order, ties and
        points that are not finite see `furthest_point_sample`.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes, `batch` not sorted, a `ptr` that does not run from 0 to N, a
            negative or non-finite `ratio`, or one of the wrong length.
    """
    op = "flat.fps"
    points = check_points(op, "x", x, rank=2)
    if batch is not None:
        batch = check_batch(op, "batch", batch, points, "x")
    if batch_size is not None:
        batch_size = as_int(op, "batch_size", batch_size)
    if isinstance(ratio, Tensor):
        if not ratio.is_floating_point() or ratio.dim() > 1:
            wanted = "a number or a float tensor of shape [] or [B]"
            fail_type(op, "ratio", wanted, f"{ratio.dtype} of shape {list(ratio.shape)}")
        if ratio.dim() == 1 and ratio.shape[0] == 1:
            ratio = ratio[0]
        if ratio.dim():
            check_same_device(op, "ratio", ratio, "x", points)
    else:
        ratio = as_float(op, "ratio", 0.5 if ratio is None else ratio)
    picks = plan_picks(op, points, batch, ptr, Ratio(op, ratio, points), batch_size)
    if picks.total == 0:
        return points.new_empty((0,), dtype=torch.int64)
    start = picks.starts(random_start)
    return fps_core(  # type: ignore[no-any-return]
        as_float32(points),
        picks.ptr,
        picks.out_ptr,
        start,
        picks.clouds,
        picks.total,
        picks.largest,
        picks.most,
        0,
        False,
        as_rule(op, rule, points.shape[1]).value,
        as_ties(op, ties).value,
    )


def _pair(
    op: str, x: Tensor, y: Tensor, batch_x: Tensor | None, batch_y: Tensor | None
) -> tuple[Tensor, Tensor, Segments]:
    """Checked float32 points and, per query, the part of `x` that belongs to its cloud."""
    x, y = check_pair(op, "x", x, "y", y, rank=2)
    if batch_x is not None:
        batch_x = check_batch(op, "batch_x", batch_x, x, "x")
    if batch_y is not None:
        batch_y = check_batch(op, "batch_y", batch_y, y, "y")
    return as_float32(x), as_float32(y), segments(x, y, batch_x, batch_y)


def _no_edges(op: str, y: Tensor, where: Segments) -> Tensor:
    if where.batches:  # an order that is wrong is told even so
        where.check(op, fetch(where.facts()))
    return y.new_empty((2, 0), dtype=torch.int64)


def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    *,
    rule: str = "separate",
) -> Tensor:
    """Edges from every query to its k nearest reference points in the same cloud.

    Args:
        x: Reference points [N, D], any D >= 1; float32, float16 or bfloat16.
        y: Queries [M, D], same device.
        k: Neighbours per query, >= 0. A cloud with fewer points gives all it has.
        batch_x: Cloud of every row of `x` [N], sorted, int64 or int32; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.
        rule: Rounding of squared distances: 'separate', 'fma_xyz' or (D = 3) 'fma_yxz'.

    Returns:
        Edges [2, E], int64: row 0 the index into `y`, ascending; row 1 the index into `x`, per
        query by squared distance, then index. Points that are not finite have no edges.

    Raises:
        TypeError, ValueError: as `mps_pointops.knn`; also if a batch vector is not sorted.
    """
    op = "flat.knn"
    x, y, where = _pair(op, x, y, batch_x, batch_y)
    k = min(as_int(op, "k", k), x.shape[0])
    chosen = as_rule(op, rule, x.shape[1]).value
    if k == 0 or y.shape[0] == 0:
        return _no_edges(op, y, where)
    counts = available(x, y, where).clamp(max=k)
    total, most, *facts = fetch([counts.sum(), counts.max(), *where.facts()])
    where.check(op, facts)
    _, index = knn_search(y, x, where.first, where.last, 1, most, False, chosen)
    return edges(index, counts, total)


def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    max_num_neighbors: int = 32,
    *,
    ignore_same_index: bool = False,
    rule: str = "fma_xyz",
) -> Tensor:
    """Edges from every query to the reference points of its cloud closer than r.

    Args:
        x: Reference points [N, D], any D >= 1; float32, float16 or bfloat16.
        y: Queries [M, D], same device.
        r: Radius, finite and >= 0. A point is inside when its squared distance is below
            `fl32(r * r)` with the product in float64.
        batch_x: Cloud of every row of `x` [N], sorted, int64 or int32; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.
        max_num_neighbors: Edges per query at most, the first in the order of `x`.
        ignore_same_index: Leave out pairs of equal row number, before counting.
        rule: Rounding of squared distances: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

    Returns:
        Edges [2, E], int64: row 0 the index into `y`, ascending; row 1 the index into `x`,
        ascending per query.

    Raises:
        TypeError, ValueError: as `mps_pointops.ball_query`; also if a batch vector is not sorted.
    """
    op = "flat.radius"
    x, y, where = _pair(op, x, y, batch_x, batch_y)
    r = as_float(op, "r", r)
    places = min(as_int(op, "max_num_neighbors", max_num_neighbors), x.shape[0])
    chosen = as_rule(op, rule, x.shape[1]).value
    if places == 0 or y.shape[0] == 0:
        return _no_edges(op, y, where)

    limits = (r, False, bool(ignore_same_index), chosen)
    data = (y, x, where.first, where.last, 1)
    if y.shape[0] * places <= _SLOTS_UNCOUNTED:
        _, index = ball_search(*data, places, *limits)
        counts = (index >= 0).sum(dim=1)
        total, *facts = fetch([counts.sum(), *where.facts()])
        where.check(op, facts)
    else:
        counts = ball_count(*data, places, *limits)
        total, most, *facts = fetch([counts.sum(), counts.max(), *where.facts()])
        where.check(op, facts)
        _, index = ball_search(*data, most, *limits)
    return edges(index, counts, total)
