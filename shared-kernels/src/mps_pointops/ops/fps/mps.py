"""Farthest point sampling on MPS: launch of `fps.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import (
    STEPS_PER_DISPATCH,
    STEPS_PER_THREADGROUP,
    THREADS_PER_DISPATCH,
    Source,
    blocks,
    launch,
)
from mps_pointops._rules import distance_rule

SOURCE = Source(__package__, "fps", {"RULE": (0, 1, 2), "DIM": (3, 0), "TIES": (0, 1)})


def fps_mps(
    points: Tensor,
    ptr: Tensor | None,
    out_ptr: Tensor | None,
    start: Tensor | None,
    clouds: int,
    picks: int,
    largest: int,
    most: int,
    start_idx: int,
    skip_near_origin: bool,
    rule: int,
    ties: int,
) -> Tensor:
    """Operator kernel; arguments as the schema in `fps.py`."""
    distance_rule("fps", rule)
    total, dim = points.shape
    points = points.detach().contiguous()
    out = torch.empty(picks, dtype=torch.int64, device=points.device)
    if clouds == 0 or picks == 0:
        return out
    kernel = SOURCE.kernel(rule, 3 if dim == 3 else 0, ties)
    nearest = torch.empty(total, dtype=torch.int32, device=points.device)
    shape = [dim, int(ptr is None), largest, most, start_idx, int(skip_near_origin)]
    group_size = min(1024, (largest + 31) // 32 * 32)
    # a threadgroup bounds the picks of one dispatch, and so do all of them together
    steps = max(largest * dim, total * dim * STEPS_PER_THREADGROUP // STEPS_PER_DISPATCH)
    for first, last in blocks(most, steps, STEPS_PER_THREADGROUP):
        for cloud, end in blocks(clouds, group_size, THREADS_PER_DISPATCH):
            launch(
                kernel,
                points,
                # equal clouds read none of these three: any int64 tensor may stand there
                out if ptr is None else ptr,
                out if out_ptr is None else out_ptr,
                out if start is None else start,
                nearest,
                out,
                [*shape, first, last, cloud],
                groups=end - cloud,
                group_size=group_size,
            )
    return out
