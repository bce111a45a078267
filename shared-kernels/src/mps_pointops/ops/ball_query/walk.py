"""Ball query in a tree on MPS: launches of `walk.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._checks import plain
from mps_pointops._metal import Source, launch, search_blocks, searched
from mps_pointops._metal.choices import BALL_CUT, BALL_PROBE, BALL_REACH, BALL_WHOLE
from mps_pointops.ops.ball_query.wanted import Wanted
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
    *,
    count: bool,
) -> tuple[Tensor | None, Tensor]:
    """As `ball_mps`, on a tree of the points `ref` [N, D], contiguous float32."""
    query = plain(query)
    limits = (radius, round_radius, ignore_same_index, rule)
    wanted = Wanted.of(query, K, *limits, count=count)
    walk(tree, ref, query, first, last, clouds, wanted)
    return wanted.distance, wanted.index


def walk(
    tree: Tree,
    ref: Tensor,
    query: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    wanted: Wanted,
) -> None:
    """Fill what is wanted.

    `ref` are the points that `tree` was built of; `query`, too, is contiguous float32.
    """
    rows, dim = query.shape
    places, limit, distance, index = wanted.places, wanted.limit, wanted.distance, wanted.index
    if rows == 0 or places == 0:
        return
    count = distance is None
    kernel = SOURCE.kernel(wanted.rule, 3, int(count))
    _, size, shape, first, last = searched(query, ref.shape[0], first, last, clouds, index)
    if dim < 3:  # as in the tree: what is added to a distance is zero
        ref = torch.cat((ref, ref.new_zeros(len(ref), 3 - dim)), dim=1)
        query = torch.cat((query, query.new_zeros(rows, 3 - dim)), dim=1)
    shape += [wanted.ignore_same_index, places]
    levels = tree.levels
    numbers = [number for level in levels for number in level] or [0, 0]
    # a scan of no rows at a time would not end
    choices = [max(0, len(levels) - 1), max(1, BALL_PROBE), BALL_REACH, BALL_CUT, BALL_WHOLE]
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
                first,
                last,
                query if distance is None else distance,
                index,
                [*shape, place, width, begin, end, *choices],
                numbers,
                [limit.squared, limit.scale],
                groups=-(-(end - begin) // QUERIES_PER_GROUP),
                group_size=32 * QUERIES_PER_GROUP,
            )
