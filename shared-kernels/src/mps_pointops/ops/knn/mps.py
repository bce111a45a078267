"""k nearest neighbours on MPS: which kernel searches."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._checks import plain
from mps_pointops._metal import choices
from mps_pointops._rules import Rule
from mps_pointops.ops.knn import few
from mps_pointops.ops.knn.brute import brute_knn
from mps_pointops.ops.knn.tree import tree_knn
from mps_pointops.spatial.build import build
from mps_pointops.spatial.layout import MAX_DIM


def knn_mps(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    euclidean: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `knn.py`."""
    query, ref = plain(query), plain(ref)
    rows, dim = query.shape
    if rows == 0 or k == 0:
        distance = torch.empty((rows, k), dtype=torch.float32, device=query.device)
        return distance, torch.empty((rows, k), dtype=torch.int64, device=query.device)
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    if rule != Rule.COSINE and few.suits(rows, size, dim, k):
        return few.few_nearest(query, ref, first, last, clouds, k, euclidean, rule)
    if rule != Rule.COSINE and suits_tree(rows, ref.shape[0] // clouds, dim, k):
        tree = build(ref, first, last, clouds)
        own = _same_points(query, ref)
        return tree_knn(tree, query, first, last, clouds, k, euclidean, rule, own=own)
    return brute_knn(query, ref, first, last, clouds, k, euclidean, rule)


def suits_tree(rows: int, size: int, dim: int, k: int) -> bool:
    """Whether a tree built for `rows` queries of `size` points is quicker than every pair."""
    return (
        dim <= MAX_DIM
        and size >= choices.KNN_TREE_POINTS
        and size >= k * choices.KNN_TREE_SHARE
        and rows * size >= choices.KNN_TREE_PAIRS
    )


def _same_points(query: Tensor, ref: Tensor) -> bool:
    """Whether the queries are the points themselves, which is searched sooner."""
    return (
        list(query.shape) == list(ref.shape)
        and int(query.storage_offset()) == int(ref.storage_offset())
        and query.untyped_storage().data_ptr() == ref.untyped_storage().data_ptr()
    )
