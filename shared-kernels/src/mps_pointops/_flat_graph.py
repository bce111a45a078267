"""Operator of kNN graphs without loops, as torch_cluster builds them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import as_int
from mps_pointops._edges import count_edges, edges
from mps_pointops._flat_names import names_of
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._registry import register
from mps_pointops._rules import Rule
from mps_pointops._segments import segments
from mps_pointops.ops.knn.cpu import knn_cpu
from mps_pointops.ops.knn.mps import knn_mps

# Results with more slots than this are counted first where that is free, on the CPU, or where most
# slots may be empty: k is large and clouds are small. On MPS that is a second read-back if a cloud
# has more than k points: room for the search follows the sizes of the clouds, which are read before
# it, and room for the edges whether points are among their own neighbours, which only the search
# tells. One read would take room for N * (k + 1) slots, or every search twice.
_SLOTS_UNCOUNTED = 2**24
_USUAL_K = 128


def _knn_graph(
    x: Tensor,
    batch: Tensor | None,
    k: int,
    batch_size: int | None,
    rule: int,
    reverse: bool = False,
) -> Tensor:
    names = names_of("knn_graph")
    op = names.op
    (points,) = coordinates(op, {names.x: x}, shift=rule != Rule.COSINE)
    rule = check_rule(op, rule, points.shape[1], cosine=True)
    size = points.shape[0]
    k = as_int(op, "k", min(k, size))  # any k of the schema
    places = min(k + 1, size)
    on_cpu = points.device.type == "cpu"
    countable = on_cpu or (k > _USUAL_K and batch is not None)
    first_count = countable and size * places > _SLOTS_UNCOUNTED
    where = segments(
        names,
        points,
        points,
        batch,
        batch,
        batch_size=batch_size,
        k=places if first_count and k else None,
        rule=rule,
    )
    if k == 0 or size == 0 or first_count:
        where.facts.fetch()  # an order that is wrong is told even so
        if k == 0 or size == 0 or where.counts.most == 0:  # or no point takes part
            return x.new_empty((2, 0), dtype=torch.int64)
        places = where.counts.most
    search = knn_cpu if on_cpu else knn_mps  # without a call of an operator
    _, index = search(points, points, where.first, where.last, 1, places, False, rule)
    counts = count_edges(where.facts, index, graph=True)
    if first_count and not on_cpu and places <= k:
        counts.take_whole_clouds(where.counts)
    else:
        where.facts.fetch()
    return edges(index, counts, reverse=reverse)


def _fake(x: Tensor, *arguments: Any) -> Tensor:
    return x.new_empty((2, torch.library.get_ctx().new_dynamic_size()), dtype=torch.int64)


# Row 0 the point, row 1 its neighbour, or the `reverse`. k + 1 are searched and the point itself is
# left out, so a point that is not among them (more than k lie in its place) has k + 1 neighbours.
flat_knn_graph = register(
    "flat_knn_graph(Tensor x, Tensor? batch, SymInt k, SymInt? batch_size, int rule,"
    " bool reverse=False) -> Tensor",
    cpu=_knn_graph,
    mps=_knn_graph,
    fake=_fake,
)
