"""k nearest neighbours: public function and operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float32,
    as_int,
    check_pair,
    fail_value,
)
from mps_pointops._registry import register
from mps_pointops._rules import as_rule
from mps_pointops.ops.knn.cpu import knn_cpu
from mps_pointops.ops.knn.mps import knn_mps

_OP = "knn"


def knn(query: Tensor, ref: Tensor, k: int, *, rule: str = "separate") -> tuple[Tensor, Tensor]:
    """The k points of `ref` nearest to every point of `query`.

    Args:
        query: Clouds of queries [B, M, D], any D >= 1; float32, float16 or bfloat16 (widened to
            float32), on cpu or mps.
        ref: Clouds of reference points [B, N, D], same device.
        k: Neighbours per query, 0 <= k <= N. There is no other limit.
        rule: Rounding of squared distances: 'separate', 'fma_xyz' or (D = 3) 'fma_yxz'; 'cosine'
            for the distance `1 - q.r / (|q| |r|)` instead.

    Returns:
        Euclidean (or cosine) distances [B, M, k], float32, ascending, and indices into N
        [B, M, k], int64. Order: squared (or cosine) distance, then index; ties go to the smaller
        index. A point with a NaN or infinite coordinate is nobody's neighbour and has none; for
        the cosine nor has a zero vector; slots left over are (inf, -1).

    Raises:
        TypeError: an argument is not a tensor of those dtypes, or `k` is no integer.
        ValueError: wrong shapes, sizes that differ, different devices, `k` < 0 or `k` > N.

    There is no gradient: distances are detached. Contract: `ops/knn/README.md`.
    """
    query, ref = check_pair(_OP, "query", query, "ref", ref, rank=3)
    clouds, rows, dim = query.shape
    size = ref.shape[1]
    k = as_int(_OP, "k", k)
    if k > size:
        fail_value(_OP, "k", f"at most the number of reference points ({size})", str(k))
    distance, index = knn_search(
        as_float32(query).view(clouds * rows, dim),
        as_float32(ref).view(clouds * size, dim),
        None,
        None,
        clouds,
        k,
        True,
        as_rule(_OP, rule, dim, cosine=True).value,
    )
    return distance.view(clouds, rows, k), index.view(clouds, rows, k)


def _fake(query: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    shape = (query.shape[0], arguments[4])
    return query.new_empty(shape), query.new_empty(shape, dtype=torch.int64)


# The ragged core: query i looks at `ref[first[i]:last[i]]`, indices count in the whole input.
# Without first the rows are cut into `clouds` equal parts and indices count in the part; with it
# `clouds` is about how many there are, for the choice of a kernel.
knn_search = register(
    "knn(Tensor query, Tensor ref, Tensor? first, Tensor? last, SymInt clouds, SymInt k,"
    " bool euclidean, int rule) -> (Tensor, Tensor)",
    cpu=knn_cpu,
    mps=knn_mps,
    fake=_fake,
)
