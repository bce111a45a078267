"""Operator of kNN graphs without loops, as torch_cluster builds them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import as_int
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._ragged import Segments, available, edges, segments
from mps_pointops._registry import register
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.knn import knn_search

# More slots than this are counted first, at the price of a second read-back: most of them are empty
# where the clouds are smaller than k.
_SLOTS_UNCOUNTED = 2**24


def _others(x: Tensor, where: Segments, places: int, rule: int) -> tuple[Tensor, Tensor]:
    """The first `places` neighbours of every point without itself, and their number [N]."""
    _, index = knn_search(x, x, where.first, where.last, 1, places, False, rule)
    row = torch.arange(index.shape[0], device=index.device).unsqueeze(1)
    after = (index == row).cumsum(1) > 0
    # from its own place on, the list moves up by one
    following = torch.cat((index[:, 1:], torch.full_like(row, -1)), dim=1)
    others = torch.where(after, following, index)
    return others, (others >= 0).sum(dim=1)


def _knn_graph(
    x: Tensor, batch: Tensor | None, k: int, batch_size: int | None, rule: int
) -> Tensor:
    op = "flat.knn_graph"
    (points,) = coordinates(op, shift=rule != Rule.COSINE, x=x)
    rule = check_rule(op, rule, points.shape[1], cosine=True)
    where = segments(op, points, points, batch, batch, batch_size=batch_size)
    k = as_int(op, "k", k)
    size = points.shape[0]
    places = min(k + 1, size)
    if k == 0 or size == 0:
        where.facts.fetch()  # an order that is wrong is told even so
        return x.new_empty((2, 0), dtype=torch.int64)
    if size * places > _SLOTS_UNCOUNTED:
        counts = available(points, points, where, rule).clamp(max=places)
        (most,) = where.facts.fetch(counts.max())
        places = min(places, most)
    others, counts = _others(points, where, places, rule)
    (total,) = where.facts.fetch(counts.sum())
    return edges(others, counts, total)


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
