"""Three nearest neighbours: public function."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float32,
    check_pair,
)
from mps_pointops._rules import as_rule
from mps_pointops.ops.knn.knn import knn_search

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
    distance, index = knn_search(
        as_float32(unknown).view(clouds * rows, dim),
        as_float32(known).view(clouds * size, dim),
        None,
        None,
        clouds,
        min(3, size),
        not squared,
        as_rule(_OP, rule, dim).value,
    )
    if size < 3:
        absent = (clouds * rows, 3 - size)
        distance = torch.cat((distance, distance.new_full(absent, torch.inf)), dim=1)
        index = torch.cat((index, index.new_zeros(absent)), dim=1)
    return distance.view(clouds, rows, 3), index.clamp(min=0).view(clouds, rows, 3)
