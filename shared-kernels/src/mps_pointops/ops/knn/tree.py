"""k nearest neighbours in a tree on MPS: launches of `tree.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._checks import plain
from mps_pointops._metal import QUERIES_PER_GROUP, Source, launch, search_blocks, searched
from mps_pointops.spatial.layout import Tree

# places a simdgroup keeps in registers, in 32s; a larger k takes several passes
ROWS = (1, 4, 16)
SOURCE = Source(
    __package__,
    "tree",
    {"RULE": (0, 1, 2), "DIM": (3,), "ROWS": ROWS},
    "simd32",
    "tree_walk",
    kernels=("tree_knn",),
)


def tree_knn(
    tree: Tree,
    query: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    euclidean: bool,
    rule: int,
    *,
    own: bool = False,
) -> tuple[Tensor, Tensor]:
    """Operator kernel of `knn` on a tree of the reference points; not for the cosine.

    Arguments as the schema in `knn.py`. `own`: the queries are the points of the tree.
    """
    query = plain(query)
    rows = query.shape[0]
    distance = torch.empty((rows, k), dtype=torch.float32, device=query.device)
    index = torch.empty((rows, k), dtype=torch.int64, device=query.device)
    if rows == 0 or k == 0:
        return distance, index
    if tree.size == 0:
        return distance.fill_(torch.inf), index.fill_(-1)
    levels = [number for level in tree.levels for number in level]
    _, size, shape, first, last = searched(query, tree.size, first, last, clouds, index)
    shape += [int(euclidean), k]
    most = ROWS[-1] * 32
    # read only where there are several passes
    taken = torch.empty((rows if k > most else 1, 2), dtype=torch.int32, device=query.device)
    for place in range(0, k, most):
        width = min(most, k - place)
        kernel = SOURCE.kernel(rule, 3, next(r for r in ROWS if r * 32 >= width))
        for begin, end in search_blocks(rows, _steps(size, k), exact=False):
            launch(
                kernel,
                query,
                tree.leaves,
                tree.boxes,
                first,
                last,
                distance,
                index,
                taken,
                [*shape, place, width, begin, end, len(levels) // 2, int(own)],
                levels,
                groups=-(-(end - begin) // QUERIES_PER_GROUP),
                group_size=32 * QUERIES_PER_GROUP,
            )
    return distance, index


def _steps(size: int, k: int) -> int:
    """Work of a query in coordinates of pairs, generously."""
    return 3 * min(size, 64 * (k + 32))
