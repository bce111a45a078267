"""Operator behind `flat.fps`: one kernel in Python for every device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import check_batch, fail_value
from mps_pointops._flat_names import names_of
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._picks import Ratio, plan_picks
from mps_pointops._registry import register
from mps_pointops._rules import Ties
from mps_pointops.ops.fps.cpu import fps_cpu
from mps_pointops.ops.fps.mps import fps_mps

_TIES = [ties.value for ties in Ties]


def _fps(
    x: Tensor,
    batch: Tensor | None,
    ptr: Tensor | None,
    ratio: Tensor | None,
    random_start: bool,
    batch_size: int | None,
    rule: int,
    ties: int,
    caller: str = "flat.fps",
) -> Tensor:
    names = names_of(caller)
    op = names.op
    (points,) = coordinates(op, {names.x: x}, any_rank=True)
    rule = check_rule(op, rule, points.shape[1])
    if ties not in _TIES:
        fail_value(op, "ties", f"one of {_TIES}", str(ties))
    if batch is not None:
        batch = check_batch(op, "batch", batch, points, names.x)
    part = Ratio(names, ratio, x.dtype, points)
    picks = plan_picks(names, points, batch, ptr, part, batch_size)
    if picks.total == 0:
        return points.new_empty((0,), dtype=torch.int64)
    if picks.clouds == 1 and not random_start:
        ptr = out_ptr = start = None  # begins at its first point
    else:
        ptr, out_ptr, start = picks.place(random_start)
    sample = fps_cpu if points.device.type == "cpu" else fps_mps  # without a call of an operator
    return sample(
        points,
        ptr,
        out_ptr,
        start,
        picks.clouds,
        picks.total,
        picks.largest,
        picks.most,
        0,
        False,
        rule,
        ties,
    )


def _fake(x: Tensor, *arguments: Any) -> Tensor:
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64)


# `ptr` may be on the CPU, and so may `ratio`: what the host knows needs no read-back. A `ratio` of
# None is 0.5 in the dtype of `x`. `caller`: what messages call the function.
flat_fps = register(
    "flat_fps(Tensor x, Tensor? batch, Tensor? ptr, Tensor? ratio, bool random_start,"
    ' SymInt? batch_size, int rule, int ties, str caller="flat.fps") -> Tensor',
    cpu=_fps,
    mps=_fps,
    fake=_fake,
    tags=(torch.Tag.nondeterministic_seeded,),
)
