"""Ball query on MPS: which kernel searches, and launches of `ball_query.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, launch, search_blocks
from mps_pointops._metal.choices import (
    BALL_SIMDGROUPS,
    BALL_TREE_PAIRS,
    BALL_TREE_PLACES,
    BALL_TREE_POINTS,
)
from mps_pointops._rules import distance_rule
from mps_pointops.ops.ball_query.threshold import Threshold, threshold
from mps_pointops.ops.ball_query.walk import walk
from mps_pointops.spatial.build import build

SIMDGROUPS = 8  # of a threadgroup, where each has queries of its own
SOURCE = Source(
    __package__,
    "ball_query",
    {"RULE": (0, 1, 2), "DIM": (3, 0), "COUNT": (0, 1)},
    kernels=("ball_query", "ball_query_shared"),
)


def ball_query_mps(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    K: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    distance_rule("ball_query", rule)
    distance = query.new_empty((query.shape[0], K))
    index = query.new_empty((query.shape[0], K), dtype=torch.int64)
    limit, same = threshold(radius, round_radius), int(ignore_same_index)
    _search(query, ref, first, last, clouds, K, limit, same, rule, distance, index)
    return distance, index


def ball_count_mps(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    K: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
) -> Tensor:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    distance_rule("ball_count", rule)
    counts = query.new_zeros(query.shape[0], dtype=torch.int64)
    limit, same = threshold(radius, round_radius), int(ignore_same_index)
    _search(query, ref, first, last, clouds, K, limit, same, rule, None, counts)
    return counts


def suits_tree(rows: int, size: int, dim: int, places: int, *, count: bool) -> bool:
    """Whether a tree of `size` points, built for `rows` queries alone, is quicker than a scan."""
    if dim > 3 or size < BALL_TREE_POINTS or rows * size < BALL_TREE_PAIRS:
        return False
    return count or places * places <= BALL_TREE_PLACES * size


def simdgroups_of(teams: int) -> int:
    """Simdgroups that scan for each of so many teams of queries: a power of two up to 32."""
    count = 1
    while count < 32 and teams * count * 2 <= BALL_SIMDGROUPS:
        count *= 2
    return count if count >= 8 else 1  # a few gain less than they lose at barriers


def _search(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    places: int,
    limit: Threshold,
    ignore_same_index: int,
    rule: int,
    distance: Tensor | None,
    index: Tensor,
) -> None:
    """Fill distances and indices, or only count if there are no distances to fill."""
    query, ref = query.detach().contiguous(), ref.detach().contiguous()
    rows, dim = query.shape
    if rows == 0 or places == 0:
        return
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    arguments = (query, first, last, clouds, places, limit, ignore_same_index, rule)
    if suits_tree(rows, size, dim, places, count=distance is None):
        walk(build(ref, first, last, clouds), ref, *arguments, distance, index)
        return
    team = 2 if dim == 3 else 1  # queries that share the reading of points
    simdgroups = simdgroups_of(-(-rows // team))
    kernel = SOURCE.kernel(
        rule,
        3 if dim == 3 else 0,
        int(distance is None),
        name="ball_query" if simdgroups == 1 else "ball_query_shared",
    )
    shape = [dim, int(equal), rows // clouds if equal else rows, size, ignore_same_index, places]
    for begin, end in search_blocks(rows, size * dim, exact=equal):
        teams = -(-(end - begin) // team)
        launch(
            kernel,
            query,
            ref if ref.numel() else query,  # nothing is read from an empty set
            index if first is None else first,  # equal clouds read neither
            index if last is None else last,
            query if distance is None else distance,
            index,
            [*shape, begin, end],
            [limit.squared, limit.scale],
            groups=-(-teams // SIMDGROUPS) if simdgroups == 1 else teams,
            group_size=32 * (SIMDGROUPS if simdgroups == 1 else simdgroups),
        )
