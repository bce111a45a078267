"""Farthest point sampling on CPU tensors: cloud by cloud, pick by pick, vectorised over points.

Points that may be picked are copied out in the order of their tie rank, one array a coordinate, so
that the first maximum is the pick and a pick costs a few passes over contiguous memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule, Ties, distance_rule
from mps_pointops.ops.fps.reference import tie_rank


def fps_cpu(
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
    order = distance_rule("fps", rule)
    out = points.new_empty(picks, dtype=torch.int64)
    if clouds == 0 or picks == 0:
        return out
    points = points.detach()
    if ptr is None or out_ptr is None or start is None:
        size, count = points.shape[0] // clouds, picks // clouds
        begins = [size * b for b in range(clouds + 1)]
        ends = [count * b for b in range(clouds + 1)]
        starts = [start_idx] * clouds
    else:
        begins, ends, starts = ptr.tolist(), out_ptr.tolist(), start.tolist()
    for b in range(clouds):
        cloud, chosen = points[begins[b] : begins[b + 1]], out[ends[b] : ends[b + 1]]
        if len(cloud) and len(chosen):
            _sample(cloud, chosen, starts[b], skip_near_origin, order, Ties(ties))
            if ptr is not None:
                chosen += begins[b]
    return out


def _sample(
    points: Tensor, out: Tensor, start: int, skip_near_origin: bool, rule: Rule, ties: Ties
) -> None:
    """Write the picks of one cloud [N, D] to `out`."""
    eligible = torch.isfinite(points).all(dim=1)
    if skip_near_origin:
        norm = squared_distance(points, torch.zeros_like(points), rule)
        eligible &= ~(norm.to(torch.float64) <= 1e-3)
    order = tie_rank(len(points), ties).argsort()
    order = order[eligible[order]]
    out[0] = start
    if len(order) == 0:
        out[1:] = 0
        return
    candidates = points[order]
    distance = _plain_distance(candidates, points[start], rule) or _Ruled(candidates, rule)
    nearest = points.new_full((len(order),), torch.inf)
    centre = points[start]
    for step in range(1, len(out)):
        if step > 1 or bool(torch.isfinite(centre).all()):
            torch.minimum(nearest, distance(centre), out=nearest)
        best = int(nearest.argmax())  # the first of equal ones
        centre = candidates[best]
        out[step] = order[best]


class _Ruled:
    """Distances of all candidates to a centre, under any rule."""

    def __init__(self, candidates: Tensor, rule: Rule) -> None:
        self.candidates, self.rule = candidates, rule

    def __call__(self, centre: Tensor) -> Tensor:
        return squared_distance(self.candidates, centre, self.rule)


class _Separate:
    """The same for rounding every step, where nothing is flushed: in place."""

    def __init__(self, columns: Tensor) -> None:
        self.columns = columns
        self.sum, self.square = torch.empty_like(columns[0]), torch.empty_like(columns[0])

    def __call__(self, centre: Tensor) -> Tensor:
        for d, (column, value) in enumerate(zip(self.columns, centre.tolist(), strict=True)):
            square = self.square if d else self.sum
            torch.sub(column, value, out=square)
            square.mul_(square)
            if d:
                self.sum.add_(square)
        return self.sum


def _plain_distance(candidates: Tensor, start: Tensor, rule: Rule) -> _Separate | None:
    """Coordinates of at least 2**-38 differ by zero or at least 2**-62: no square is subnormal."""
    if candidates.dtype == torch.float64:
        return _Separate(candidates.t().contiguous())
    if rule is not Rule.SEPARATE:
        return None
    sizes = torch.cat((candidates.abs().flatten(), start.abs()))
    if bool(((sizes < 2.0**-38) & (sizes != 0)).any()):
        return None
    return _Separate(candidates.t().contiguous())
