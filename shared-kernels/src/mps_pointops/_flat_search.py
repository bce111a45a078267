"""Operators behind `flat.knn` and `flat.radius`: one kernel in Python for every device."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import as_int
from mps_pointops._edges import count_edges, edges
from mps_pointops._flat_names import Names, names_of
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._registry import register
from mps_pointops._rules import Rule
from mps_pointops._segments import Segments, segments
from mps_pointops.ops.ball_query.cpu import ball_count_cpu, ball_list_cpu, ball_query_cpu
from mps_pointops.ops.ball_query.mps import ball_count_mps, ball_query_mps
from mps_pointops.ops.knn.cpu import knn_cpu
from mps_pointops.ops.knn.mps import knn_mps

# Results with more slots than this are counted first, so that memory follows what is found.
_SLOTS_UNCOUNTED = 2**22


def _no_edges(y: Tensor, where: Segments) -> Tensor:
    where.facts.fetch()  # an order that is wrong is told even so
    return y.new_empty((2, 0), dtype=torch.int64)


def _both(names: Names, x: Tensor, y: Tensor, *, shift: bool = True) -> tuple[Tensor, Tensor]:
    """Coordinates of the points and of the queries."""
    if y is x:
        (x,) = coordinates(names.op, {names.x: x}, shift=shift)
        return x, x
    x, y = coordinates(names.op, {names.x: x, names.y: y}, shift=shift)
    return x, y


def _fake_edges(x: Tensor, *arguments: Any) -> Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((2, count), dtype=torch.int64)


def _knn(
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None,
    batch_y: Tensor | None,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    k: int,
    batch_size: int | None,
    rule: int,
    reverse: bool = False,
    caller: str = "flat.knn",
) -> Tensor:
    names = names_of(caller)
    op = names.op
    # angles, unlike distances, change when all points are moved
    x, y = _both(names, x, y, shift=rule != Rule.COSINE)
    rule = check_rule(op, rule, x.shape[1], cosine=True)
    told = (batch_x, batch_y, ptr_x, ptr_y, batch_size)
    k = as_int(op, "k", min(k, x.shape[0]))  # any k of the schema
    if k == 0 or y.shape[0] == 0:
        return _no_edges(y, segments(names, x, y, *told))
    where = segments(names, x, y, *told, k=k, rule=rule)
    where.facts.fetch()
    most = where.counts.most
    search = knn_cpu if y.device.type == "cpu" else knn_mps  # without a call of an operator
    _, index = search(y, x, where.first, where.last, where.clouds, most, False, rule)
    return edges(index, where.counts, reverse=reverse)


def _radius(
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None,
    batch_y: Tensor | None,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    r: float,
    max_num_neighbors: int | None,
    batch_size: int | None,
    ignore_same_index: bool,
    rule: int,
    reverse: bool = False,
    caller: str = "flat.radius",
) -> Tensor:
    names = names_of(caller)
    op = names.op
    x, y = _both(names, x, y)
    rule = check_rule(op, rule, x.shape[1])
    where = segments(names, x, y, batch_x, batch_y, ptr_x, ptr_y, batch_size)
    places = x.shape[0]
    if max_num_neighbors is not None:
        places = as_int(op, "max_num_neighbors", min(max_num_neighbors, places))
    if places == 0 or y.shape[0] == 0:
        return _no_edges(y, where)
    # nothing is closer than a radius that is no number
    limits = (0.0 if math.isnan(r) else abs(r), False, ignore_same_index, rule)
    data = (y, x, where.first, where.last, 1)
    on_cpu = y.device.type == "cpu"
    search = ball_query_cpu if on_cpu else ball_query_mps  # without a call of an operator
    if y.shape[0] * places <= _SLOTS_UNCOUNTED:
        _, index = search(*data, places, *limits)
        counts = count_edges(where.facts, index)
        where.facts.fetch()
    else:
        count = ball_count_cpu if on_cpu else ball_count_mps
        counts = count_edges(where.facts, count(*data, places, *limits))
        where.facts.fetch()
        if on_cpu:
            return ball_list_cpu(*data, counts, *limits, reverse=reverse)
        _, index = search(*data, counts.most, *limits)
    return edges(index, counts, reverse=reverse)


# Batch vectors and ptrs: none, or batch_x and batch_y, or ptr_x and ptr_y. `rule`: `_rules.Rule`.
# `reverse`: neighbours in row 0, queries in row 1. `caller`: what messages call the function.
flat_knn = register(
    "flat_knn(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y, Tensor? ptr_x, Tensor? ptr_y,"
    ' SymInt k, SymInt? batch_size, int rule, bool reverse=False, str caller="flat.knn")'
    " -> Tensor",
    cpu=_knn,
    mps=_knn,
    fake=_fake_edges,
)
# Any `r`: a negative one counts as its size, with NaN nothing is inside.
flat_radius = register(
    "flat_radius(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y, Tensor? ptr_x,"
    " Tensor? ptr_y, float r, SymInt? max_num_neighbors, SymInt? batch_size,"
    ' bool ignore_same_index, int rule, bool reverse=False, str caller="flat.radius")'
    " -> Tensor",
    cpu=_radius,
    mps=_radius,
    fake=_fake_edges,
)
