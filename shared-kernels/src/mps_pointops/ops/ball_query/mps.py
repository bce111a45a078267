"""Ball query on MPS: which kernel searches, and launches of `ball_query.metal`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mps_pointops._checks import plain
from mps_pointops._metal import Source, launch, search_blocks, searched
from mps_pointops._metal.choices import (
    BALL_SIMDGROUPS,
    BALL_TREE_PAIRS,
    BALL_TREE_PLACES,
    BALL_TREE_POINTS,
)
from mps_pointops.ops.ball_query.walk import walk
from mps_pointops.ops.ball_query.wanted import Wanted
from mps_pointops.spatial.build import build

SIMDGROUPS = 8  # of a threadgroup, where each has queries of its own
SOURCE = Source(
    __package__,
    "ball_query",
    {"RULE": (0, 1, 2), "DIM": (3, 0), "COUNT": (0, 1)},
    kernels=("ball_query", "ball_query_shared"),
)


def ball_mps(
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
    *,
    count: bool,
) -> tuple[Tensor | None, Tensor]:
    """Squared distances and indices, or None and counts.

    Other arguments as the schemas in `ball_query.py`.
    """
    query, ref = plain(query), plain(ref)
    limits = (radius, round_radius, ignore_same_index, rule)
    wanted = Wanted.of(query, K, *limits, count=count)
    _search(query, ref, first, last, clouds, wanted)
    return wanted.distance, wanted.index


def ball_query_mps(*arguments: Any) -> Any:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    return ball_mps(*arguments, count=False)


def ball_count_mps(*arguments: Any) -> Tensor:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    return ball_mps(*arguments, count=True)[1]


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
    wanted: Wanted,
) -> None:
    rows, dim = query.shape
    places, limit, distance, index = wanted.places, wanted.limit, wanted.distance, wanted.index
    if rows == 0 or places == 0:
        return
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    if suits_tree(rows, size, dim, places, count=distance is None):
        walk(build(ref, first, last, clouds), ref, query, first, last, clouds, wanted)
        return
    equal, size, shape, first, last = searched(query, ref.shape[0], first, last, clouds, index)
    team = 2 if dim == 3 else 1  # queries that share the reading of points
    simdgroups = simdgroups_of(-(-rows // team))
    kernel = SOURCE.kernel(
        wanted.rule,
        3 if dim == 3 else 0,
        int(distance is None),
        name="ball_query" if simdgroups == 1 else "ball_query_shared",
    )
    shape += [wanted.ignore_same_index, places]
    for begin, end in search_blocks(rows, size * dim, exact=equal):
        teams = -(-(end - begin) // team)
        launch(
            kernel,
            query,
            ref if ref.numel() else query,  # nothing is read from an empty set
            first,
            last,
            query if distance is None else distance,
            index,
            [*shape, begin, end],
            [limit.squared, limit.scale],
            groups=-(-teams // SIMDGROUPS) if simdgroups == 1 else teams,
            group_size=32 * (SIMDGROUPS if simdgroups == 1 else simdgroups),
        )
