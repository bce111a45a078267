"""Three nearest neighbours: public function."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float32,
    check_pair,
)
from mps_pointops._registry import register
from mps_pointops._rules import as_rule
from mps_pointops.ops.knn import few
from mps_pointops.ops.knn.cpu import knn_cpu
from mps_pointops.ops.knn.mps import knn_mps

_OP = "three_nn"


def three_nn(
    unknown: Tensor, known: Tensor, *, rule: str = "fma_yxz", squared: bool = False
) -> tuple[Tensor, Tensor]:
    """The three points of `known` nearest to every point of `unknown`.

    Args:
        unknown: Points [B, n, 3]; float32, float16 or bfloat16 (widened to float32), on cpu or
            mps.
        known: Points [B, m, 3], same device; m may be smaller than three.
        rule: Rounding of squared distances: 'fma_yxz', 'fma_xyz' or 'separate'.
        squared: Return squared distances instead of their roots.

    Returns:
        Euclidean (or squared) distances [B, n, 3], float32, ascending, and indices into m
        [B, n, 3], int64. Order: squared distance, then index. Missing neighbours (m < 3, or
        points with a NaN or infinite coordinate) are (inf, 0), so that weights made of inverse
        distances are zero.

    Raises:
        TypeError: an argument is not a tensor of those dtypes.
        ValueError: wrong shapes, sizes that differ, different devices, an unknown rule.

    There is no gradient: distances are detached. Contract: `ops/three_nn/README.md`.
    """
    unknown, known = check_pair(_OP, "unknown", unknown, "known", known, rank=3, dim=3)
    clouds, rows, dim = unknown.shape
    size = known.shape[1]
    distance, index = _three_nn(
        as_float32(unknown).view(clouds * rows, dim),
        as_float32(known).view(clouds * size, dim),
        clouds,
        not squared,
        as_rule(_OP, rule, dim).value,
    )
    return distance.view(clouds, rows, 3), index.view(clouds, rows, 3)


def _cpu(
    unknown: Tensor, known: Tensor, clouds: int, euclidean: bool, rule: int
) -> tuple[Tensor, Tensor]:
    places = min(3, known.shape[0] // max(clouds, 1))
    distance, index = knn_cpu(unknown, known, None, None, clouds, places, euclidean, rule)
    return _completed(distance, index)


def _mps(
    unknown: Tensor, known: Tensor, clouds: int, euclidean: bool, rule: int
) -> tuple[Tensor, Tensor]:
    size = known.shape[0] // max(clouds, 1)
    if few.suits(len(unknown), size, 3, 3):
        unknown, known = unknown.contiguous(), known.contiguous()
        return few.few_nearest(unknown, known, None, None, clouds, 3, euclidean, rule, 0)
    return _completed(*knn_mps(unknown, known, None, None, clouds, 3, euclidean, rule))


def _completed(distance: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """With (inf, 0) for neighbours that are missing."""
    rows, places = index.shape
    if places < 3:
        distance = torch.cat((distance, distance.new_full((rows, 3 - places), torch.inf)), dim=1)
        index = torch.cat((index, index.new_zeros((rows, 3 - places))), dim=1)
    return distance, index.clamp(min=0)


def _fake(unknown: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    shape = (unknown.shape[0], 3)
    return unknown.new_empty(shape), unknown.new_empty(shape, dtype=torch.int64)


# Points [B * n, 3] and [B * m, 3], float32, in `clouds` equal parts.
_three_nn = register(
    "three_nn(Tensor unknown, Tensor known, SymInt clouds, bool euclidean, int rule)"
    " -> (Tensor, Tensor)",
    cpu=_cpu,
    mps=_mps,
    fake=_fake,
)
