"""Farthest point sampling on CPU tensors: cloud by cloud, pick by pick, vectorised over points."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.reference import furthest_point_sample_reference


def fps_cpu(
    points: Tensor,
    ptr: Tensor | None,
    out_ptr: Tensor | None,
    start: Tensor | None,
    clouds: int,
    picks: int,
    start_idx: int,
    skip_near_origin: bool,
    rule: int,
    ties: int,
) -> Tensor:
    """Operator kernel; arguments as the schema in `fps.py`."""
    out = torch.empty(picks, dtype=torch.int64)
    if clouds == 0 or picks == 0:
        return out
    points = points.detach()
    if ptr is None or out_ptr is None or start is None:
        size, count = points.shape[0] // clouds, picks // clouds
        begins, ends = (
            [size * b for b in range(clouds + 1)],
            [count * b for b in range(clouds + 1)],
        )
        starts = [start_idx] * clouds
    else:
        begins, ends, starts = ptr.tolist(), out_ptr.tolist(), start.tolist()
    for b in range(clouds):
        begin, end = begins[b], begins[b + 1]
        count = ends[b + 1] - ends[b]
        if begin == end or count == 0:
            continue
        chosen = furthest_point_sample_reference(
            points[begin:end],
            count,
            starts[b],
            skip_near_origin,
            Rule(rule),
            Ties(ties),
        )
        out[ends[b] : ends[b + 1]] = chosen if ptr is None else chosen + begin
    return out
