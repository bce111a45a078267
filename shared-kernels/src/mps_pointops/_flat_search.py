"""Operators behind `flat.knn` and `flat.radius`: one kernel in Python for every device."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import as_int
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._registry import register
from mps_pointops._rules import Rule
from mps_pointops._segments import Segments, count_edges, edges, segments
from mps_pointops.ops.ball_query.ball_query import ball_count, ball_search
from mps_pointops.ops.knn.knn import knn_search

# Results with more slots than this are counted first, so that memory follows what is found.
_SLOTS_UNCOUNTED = 2**22


def _no_edges(y: Tensor, where: Segments) -> Tensor:
    where.facts.fetch()  # an order that is wrong is told even so
    return y.new_empty((2, 0), dtype=torch.int64)


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
) -> Tensor:
    op = "flat.knn"
    # angles, unlike distances, change when all points are moved
    x, y = coordinates(op, shift=rule != Rule.COSINE, x=x, y=y)
    rule = check_rule(op, rule, x.shape[1], cosine=True)
    told = (batch_x, batch_y, ptr_x, ptr_y, batch_size)
    k = as_int(op, "k", min(k, x.shape[0]))  # any k of the schema
    if k == 0 or y.shape[0] == 0:
        return _no_edges(y, segments(op, x, y, *told))
    where = segments(op, x, y, *told, k=k, rule=rule)
    where.facts.fetch()
    most = where.counts.most
    _, index = knn_search(y, x, where.first, where.last, where.clouds, most, False, rule)
    return edges(index, where.counts)


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
) -> Tensor:
    op = "flat.radius"
    x, y = coordinates(op, x=x, y=y)
    rule = check_rule(op, rule, x.shape[1])
    where = segments(op, x, y, batch_x, batch_y, ptr_x, ptr_y, batch_size)
    places = x.shape[0]
    if max_num_neighbors is not None:
        places = as_int(op, "max_num_neighbors", min(max_num_neighbors, places))
    if places == 0 or y.shape[0] == 0:
        return _no_edges(y, where)
    # nothing is closer than a radius that is no number
    limits = (0.0 if math.isnan(r) else abs(r), False, ignore_same_index, rule)
    data = (y, x, where.first, where.last, 1)
    if y.shape[0] * places <= _SLOTS_UNCOUNTED:
        _, index = ball_search(*data, places, *limits)
        counts = count_edges(where.facts, index)
        where.facts.fetch()
    else:
        counts = count_edges(where.facts, ball_count(*data, places, *limits))
        where.facts.fetch()
        _, index = ball_search(*data, counts.most, *limits)
    return edges(index, counts)


# Batch vectors and ptrs: none, or batch_x and batch_y, or ptr_x and ptr_y. `rule`: `_rules.Rule`.
flat_knn = register(
    "flat_knn(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y, Tensor? ptr_x, Tensor? ptr_y,"
    " SymInt k, SymInt? batch_size, int rule) -> Tensor",
    cpu=_knn,
    mps=_knn,
    fake=_fake_edges,
)
# Any `r`: a negative one counts as its size, with NaN nothing is inside.
flat_radius = register(
    "flat_radius(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y, Tensor? ptr_x,"
    " Tensor? ptr_y, float r, SymInt? max_num_neighbors, SymInt? batch_size,"
    " bool ignore_same_index, int rule) -> Tensor",
    cpu=_radius,
    mps=_radius,
    fake=_fake_edges,
)
