"""Ball query on CPU tensors.

Large clouds of few coordinates are searched in a tree; small clouds, all together, high dimensions
and very full balls in input order, in blocks of bounded memory. The result does not depend on
which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mps_pointops._cpu.pairs import Array
from mps_pointops._cpu.rows import Runs, count_in_cloud, rows_a_task, runs, together
from mps_pointops._cpu.tree import LARGEST_DIM, Tree, Trees, finite_rows
from mps_pointops._edges import Counts
from mps_pointops._rules import Rule, distance_rule
from mps_pointops.ops.ball_query.hits import Hits
from mps_pointops.ops.ball_query.scan import scan
from mps_pointops.ops.ball_query.threshold import Threshold, threshold
from mps_pointops.ops.ball_query.tree import BallSearch


def ball_query_cpu(
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
    trees: Trees | None = None,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `ball_query.py`.

    `trees`: those of `ref`, if they are kept.
    """
    hits = Hits.none(query, K)
    assert hits.distance is not None
    assert hits.index is not None
    limits = radius, round_radius, ignore_same_index, rule
    _search(query, ref, first, last, clouds, *limits, hits, trees)
    index = hits.index
    if first is None and clouds > 1 and K > 0:
        index = count_in_cloud(index, clouds, ref.shape[0] // clouds)
    return hits.distance, index


def ball_count_cpu(
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
    trees: Trees | None = None,
) -> Tensor:
    """Operator kernel; arguments as the schema in `ball_query.py`.

    `trees`: those of `ref`, if they are kept.
    """
    hits = Hits.uncounted(query, K)
    limits = radius, round_radius, ignore_same_index, rule
    _search(query, ref, first, last, clouds, *limits, hits, trees)
    return hits.counts


def ball_list_cpu(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    counts: Counts,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
    trees: Trees | None = None,
    *,
    reverse: bool = False,
) -> Tensor:
    """Pairs of a query and a hit [2, total], as `edges` lists those that `ball_query_cpu` finds.

    `counts` are those of `ball_count_cpu` with the same arguments; `reverse`: as `edges`. Hits are
    written into place: beside the result there is no memory that follows it.
    """
    pairs = query.new_empty((2, counts.total), dtype=torch.int64)
    row, index = (pairs[1], pairs[0]) if reverse else (pairs[0], pairs[1])
    number = torch.arange(len(query), device="cpu")
    # freed before memory of the other row is touched
    row.copy_(number.repeat_interleave(counts.rows, output_size=counts.total))
    hits = Hits.listed(index, counts.rows, counts.most)
    limits = radius, round_radius, ignore_same_index, rule
    _search(query, ref, first, last, clouds, *limits, hits, trees)
    return pairs


def _search(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
    hits: Hits,
    trees: Trees | None,
) -> None:
    query, ref, order = query.detach(), ref.detach(), distance_rule("ball_query", rule)
    limit = threshold(radius, round_radius, query.dtype)
    if len(query) == 0 or hits.K == 0 or len(ref) == 0 or limit.squared == 0:
        return
    found = runs(len(query), len(ref), first, last, clouds)
    treed = _worth_a_tree(found, ref.shape[1], hits.K, trees is not None)
    if not treed.all():
        scan(query, ref, found.only(~treed), limit, order, ignore_same_index, hits)
    if treed.any():
        _by_tree(query, ref, found.only(treed), limit, ignore_same_index, order, hits, trees)


def _worth_a_tree(found: Runs, dim: int, K: int, kept: bool) -> Array:
    """Which runs a tree answers sooner than looking at every pair does, as measured.

    `kept`: whether the tree is not made for this call alone.
    """
    if dim > LARGEST_DIM:
        return np.zeros(len(found), np.bool_)
    rows, sizes = found.rows, found.sizes
    tree = 50_000 + rows * (4_000 + 100 * min(K, 64))  # nanoseconds
    if not kept:
        tree += 200 * sizes
    worth: Array = tree < 20 * rows * sizes
    return worth


def _by_tree(
    query: Tensor,
    ref: Tensor,
    found: Runs,
    limit: Threshold,
    ignore_same_index: bool,
    rule: Rule,
    hits: Hits,
    trees: Trees | None,
) -> None:
    q, p = query.numpy(), ref.numpy()
    finite = finite_rows(q)
    tasks: list[Callable[[], None]] = []

    def search(ball: BallSearch, rows: Array, low: int, high: int) -> None:
        until = ball.search(q[rows], rows)
        if until == 0:
            return
        runs_of_rows = Runs(rows, rows + 1, *(np.full(len(rows), end) for end in (low, high)))
        first = int(np.clip(1.5 * until, 32, 4096))
        late = scan(
            query, ref, runs_of_rows, limit, rule, ignore_same_index, hits, first, 8 * until
        )
        ball.search_in_boxes(q[late], late)

    for begin, end, low, high in np.stack(found.fields, 1).tolist():
        if trees:
            tree = trees.tree(low, high, rule, collapse=False)
        else:
            tree = Tree(p[low:high], rule, collapse=False)
        rows = begin + finite[begin:end].nonzero()[0]
        if tree.size == 0 or len(rows) == 0:
            continue
        rows = rows[tree.order(q[rows])]
        ball = BallSearch(tree, p, low, limit, ignore_same_index, hits)
        vast = tree.out_of_reach(q[rows])
        if vast.any():
            tasks.append(partial(ball.search_in_boxes, q[rows[vast]], rows[vast]))
            rows = rows[~vast]
        step = rows_a_task(len(rows), ball.rows_together(q[rows]))
        for at in range(0, len(rows), step):
            tasks.append(partial(search, ball, rows[at : at + step], low, high))
    together(tasks)
