"""Farthest point sampling: public function and operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import as_float32, as_int, check_points, fail_value
from mps_pointops._registry import register
from mps_pointops._rules import as_rule, as_ties
from mps_pointops.ops.fps.cpu import fps_cpu
from mps_pointops.ops.fps.mps import fps_mps

_OP = "furthest_point_sample"


def furthest_point_sample(
    xyz: Tensor,
    npoint: int,
    start_idx: int = 0,
    skip_near_origin: bool = False,
    *,
    rule: str = "separate",
    ties: str = "lowest_index",
) -> Tensor:
    """Pick points one by one, each the farthest from those already picked.

    Args:
        xyz: Clouds [B, N, 3]; float32, float16 or bfloat16 (widened to float32), on cpu or mps.
            Points with a NaN or infinite coordinate are never picked, except as the start.
        npoint: Picks per cloud, >= 0. It may exceed N.
        start_idx: Index of the first pick in every cloud, 0 <= start_idx < N.
        skip_near_origin: Never pick a point with `x*x + y*y + z*z <= 1e-3` (float32 sum against
            the double 1e-3), except as the start.
        rule: Rounding of squared distances: 'separate', 'fma_xyz' or 'fma_yxz'.
        ties: Which of equally far points is taken: 'lowest_index', or 'bit_reversed', the order
            of pointnet2_ops on CUDA.

    Returns:
        Indices [B, npoint], int64, in the order of picking. Ties go to the smaller index. Once
        every place is taken, the remaining slots repeat the first point that may be picked
        (index 0, unless it is skipped or not finite; also 0 if no point may be picked).

    Raises:
        TypeError: `xyz` is not a tensor of those dtypes, or an integer argument is none.
        ValueError: wrong shape or device, a negative `npoint`, an empty cloud with `npoint` > 0,
            an unknown rule or tie order.
        IndexError: `start_idx` is not in the cloud.

    There is no gradient: indices are discrete. Contract: `ops/fps/README.md`.
    """
    points = check_points(_OP, "xyz", xyz, rank=3, dim=3)
    clouds, size, dim = points.shape
    npoint = as_int(_OP, "npoint", npoint)
    start_idx = as_int(_OP, "start_idx", start_idx)
    if size == 0 and npoint > 0 and clouds > 0:
        fail_value(_OP, "xyz", "clouds of at least one point", f"shape {list(points.shape)}")
    if start_idx >= max(size, 1):
        raise IndexError(f"{_OP}: start_idx must be below N ({size}), got {start_idx}")
    picks = fps(
        as_float32(points).view(clouds * size, dim),
        None,
        None,
        None,
        clouds,
        clouds * npoint,
        size,
        npoint,
        start_idx,
        bool(skip_near_origin),
        as_rule(_OP, rule, dim).value,
        as_ties(_OP, ties).value,
    )
    return picks.view(clouds, npoint)  # type: ignore[no-any-return]


def _fake(points: Tensor, *arguments: Any) -> Tensor:
    return points.new_empty((arguments[4],), dtype=torch.int64)


# The ragged core. Points `ptr[b]` up to `ptr[b + 1]` are cloud b; its picks are `out_ptr[b]` up to
# `out_ptr[b + 1]` of the result and count in the whole input; its first pick `start[b]` counts in
# the cloud. Without ptr the clouds are equal, begin at `start_idx`, and picks count in the cloud.
# `largest` and `most` are the points and the picks of the clouds with most.
fps = register(
    "fps(Tensor points, Tensor? ptr, Tensor? out_ptr, Tensor? start, SymInt clouds, SymInt picks,"
    " SymInt largest, SymInt most, SymInt start_idx, bool skip_near_origin, int rule, int ties)"
    " -> Tensor",
    cpu=fps_cpu,
    mps=fps_mps,
    fake=_fake,
)
