"""k nearest neighbours by squared distance on CPU tensors.

Large clouds of few coordinates are searched in a tree; small clouds, all together, and high
dimensions by every pair, in blocks of bounded memory. The result does not depend on which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mps_pointops._cpu.nearest import nearest, rows_together
from mps_pointops._cpu.pairs import Array
from mps_pointops._cpu.rows import Runs, count_in_cloud, rows_a_task, runs, together
from mps_pointops._cpu.tree import LARGEST_DIM, Tree, Trees, finite_rows
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.pairwise import by_pairs


def nearest_points(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    rule: Rule,
    trees: Trees | None = None,
) -> tuple[Tensor, Tensor]:
    """Squared distances and indices [M, k]; arguments as the schema in `knn.py`, detached.

    `trees`: those of `ref`, if they are kept.
    """
    rows = query.shape[0]
    distance = query.new_full((rows, k), torch.inf)
    index = query.new_full((rows, k), -1, dtype=torch.int64)
    if rows == 0 or k == 0 or ref.shape[0] == 0:
        return distance, index
    found = runs(rows, ref.shape[0], first, last, clouds)
    treed = _worth_a_tree(found, ref.shape[1], k, trees is not None)
    pairwise = found.only(~treed)
    if treed.any():
        _by_tree(query, ref, found.only(treed), k, rule, trees, distance, index)
    if len(pairwise):
        by_pairs(query, ref, pairwise, k, rule, distance, index)
    if first is None and clouds > 1:
        index = count_in_cloud(index, clouds, ref.shape[0] // clouds)
    return distance, index


def _worth_a_tree(found: Runs, dim: int, k: int, kept: bool) -> Array:
    """Which runs a tree answers sooner than every pair does, as measured.

    `kept`: whether the tree is not made for this call alone.
    """
    if dim > LARGEST_DIM:
        return np.zeros(len(found), np.bool_)
    rows, sizes = found.rows, found.sizes
    tree = 50_000 + rows * (2_000 + 250 * k)  # nanoseconds
    if not kept:
        tree += 200 * sizes
    worth: Array = (tree < 20 * rows * sizes) & (sizes > 2 * k)
    return worth


def _by_tree(
    query: Tensor,
    ref: Tensor,
    found: Runs,
    k: int,
    rule: Rule,
    trees: Trees | None,
    distance: Tensor,
    index: Tensor,
) -> None:
    """Search runs in trees."""
    q, p, d, i = query.numpy(), ref.numpy(), distance.numpy(), index.numpy()
    has_any = finite_rows(q)
    tasks: list[Callable[[], None]] = []

    def search(tree: Tree, rows: Array, low: int) -> None:
        count = min(k, len(tree.index))
        found_d, found_i = nearest(tree, q[rows], count)
        d[rows, :count], i[rows, :count] = found_d, found_i + low

    for begin, end, low, high in np.stack(found.fields, 1).tolist():
        if trees:
            tree = trees.tree(low, high, rule, collapse=True)
        else:
            tree = Tree(p[low:high], rule, collapse=True)
        if len(tree.index) == 0:
            continue
        rows = begin + has_any[begin:end].nonzero()[0]
        rows = rows[tree.order(q[rows])]
        step = rows_a_task(len(rows), rows_together(tree, k))
        for at in range(0, len(rows), step):
            tasks.append(partial(search, tree, rows[at : at + step], low))
    together(tasks)
