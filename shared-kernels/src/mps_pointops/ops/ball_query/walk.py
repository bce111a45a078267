"""Ball query in a tree on MPS: launches of `walk.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, launch, search_blocks
from mps_pointops._metal.choices import BALL_CUT, BALL_PROBE, BALL_REACH, BALL_WHOLE
from mps_pointops.ops.ball_query.threshold import Threshold, threshold
from mps_pointops.spatial.layout import Tree

WIDTH = 256  # places that a simdgroup keeps in registers; more take several passes
QUERIES_PER_GROUP = 4
SOURCE = Source(
    __package__,
    "walk",
    {"RULE": (0, 1, 2), "DIM": (3,), "COUNT": (0, 1)},
    kernels=("ball_walk",),
)


def tree_ball(
    tree: Tree,
    ref: Tensor,
    query: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    K: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel of `ball_query` on a tree of the points `ref` [N, D], contiguous float32.

    Other arguments and the result as the schema in `ball_query.py`.
    """
    query = query.detach().contiguous()
    distance = query.new_empty((query.shape[0], K))
    index = query.new_empty((query.shape[0], K), dtype=torch.int64)
    limit, same = threshold(radius, round_radius), int(ignore_same_index)
    walk(tree, ref, query, first, last, clouds, K, limit, same, rule, distance, index)
    return distance, index


def tree_ball_count(
    tree: Tree,
    ref: Tensor,
    query: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    K: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
) -> Tensor:
    """Operator kernel of `ball_count`, likewise."""
    query = query.detach().contiguous()
    counts = query.new_zeros(query.shape[0], dtype=torch.int64)
    limit, same = threshold(radius, round_radius), int(ignore_same_index)
    walk(tree, ref, query, first, last, clouds, K, limit, same, rule, None, counts)
    return counts


def walk(
    tree: Tree,
    ref: Tensor,
    query: Tensor,
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
    """Fill distances and indices, or only count if there are no distances to fill.

    `ref` are the points that `tree` was built of; `query`, too, is contiguous float32.
    """
    rows, dim = query.shape
    if rows == 0 or places == 0:
        return
    if dim < 3:  # as in the tree: what is added to a distance is zero
        ref = torch.cat((ref, ref.new_zeros(len(ref), 3 - dim)), dim=1)
        query = torch.cat((query, query.new_zeros(rows, 3 - dim)), dim=1)
    count = distance is None
    kernel = SOURCE.kernel(rule, 3, int(count))
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    shape = [dim, int(equal), rows // clouds if equal else rows, size, ignore_same_index]
    levels = tree.levels
    numbers = [number for level in levels for number in level] or [0, 0]
    choices = [max(0, len(levels) - 1), BALL_PROBE, BALL_REACH, BALL_CUT, BALL_WHOLE]
    for place in range(0, places, places if count else WIDTH):
        width = places if count else min(WIDTH, places - place)
        # few walks open a sixteenth of all boxes
        for begin, end in search_blocks(rows, size * dim // 16, exact=False):
            launch(
                kernel,
                query,
                ref if ref.numel() else query,  # nothing is read from an empty set
                tree.leaves if size else query,
                tree.boxes if size else query,
                index if first is None else first,  # equal clouds read neither
                index if last is None else last,
                query if distance is None else distance,
                index,
                [*shape, places, place, width, begin, end, *choices],
                numbers,
                [limit.squared, limit.scale],
                groups=-(-(end - begin) // QUERIES_PER_GROUP),
                group_size=32 * QUERIES_PER_GROUP,
            )
