"""Operator of kNN graphs without loops, as torch_cluster builds them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import as_int
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._registry import register
from mps_pointops._rules import Rule
from mps_pointops._segments import count_edges, edges, segments
from mps_pointops.ops.knn.knn import knn_search

# Results with more slots than this are counted first where that is free, on the CPU, or where most
# slots may be empty: k is large and clouds are small. On MPS that is a second read-back if a cloud
# has more than k points: only the search tells whether a point is among its own neighbours.
_SLOTS_UNCOUNTED = 2**24
_USUAL_K = 128


def _knn_graph(
    x: Tensor, batch: Tensor | None, k: int, batch_size: int | None, rule: int
) -> Tensor:
    op = "flat.knn_graph"
    (points,) = coordinates(op, shift=rule != Rule.COSINE, x=x)
    rule = check_rule(op, rule, points.shape[1], cosine=True)
    size = points.shape[0]
    k = as_int(op, "k", min(k, size))  # any k of the schema
    places = min(k + 1, size)
    on_cpu = points.device.type == "cpu"
    countable = on_cpu or (k > _USUAL_K and batch is not None)
    first_count = countable and size * places > _SLOTS_UNCOUNTED
    where = segments(
        op,
        points,
        points,
        batch,
        batch,
        batch_size=batch_size,
        names=("batch", "batch"),
        k=places if first_count and k else None,
        rule=rule,
    )
    if k == 0 or size == 0 or first_count:
        where.facts.fetch()  # an order that is wrong is told even so
        if k == 0 or size == 0 or where.counts.most == 0:  # or no point takes part
            return x.new_empty((2, 0), dtype=torch.int64)
        places = where.counts.most
    _, index = knn_search(points, points, where.first, where.last, 1, places, False, rule)
    counts = count_edges(where.facts, index, graph=True)
    if first_count and not on_cpu and places <= k:
        counts.take_whole_clouds(where.counts)
    else:
        where.facts.fetch()
    return edges(index, counts)


def _fake(x: Tensor, *arguments: Any) -> Tensor:
    return x.new_empty((2, torch.library.get_ctx().new_dynamic_size()), dtype=torch.int64)


# Row 0 the point, row 1 its neighbour. k + 1 are searched and the point itself is left out, so a
# point that is not among them (more than k lie in its place) has k + 1 neighbours.
flat_knn_graph = register(
    "flat_knn_graph(Tensor x, Tensor? batch, SymInt k, SymInt? batch_size, int rule) -> Tensor",
    cpu=_knn_graph,
    mps=_knn_graph,
    fake=_fake,
)
