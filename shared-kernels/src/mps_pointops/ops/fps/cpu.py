"""Farthest point sampling on CPU tensors.

Points that may be picked are brought into the order of their tie rank, so that the first maximum
is the pick. Small clouds go side by side (`cpu_lockstep`), large ones one by one (`cpu_rounds`).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule, Ties, distance_rule
from mps_pointops.ops.fps.cpu_distance import Array, Distance
from mps_pointops.ops.fps.cpu_lockstep import sample_in_lockstep
from mps_pointops.ops.fps.cpu_rounds import sample_in_rounds
from mps_pointops.ops.fps.reference import tie_rank

# rounds pay for clouds and picks of at least these numbers, and up to this many axes
_POINTS, _PICKS, _AXES = 4096, 64, 8


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
    out = points.new_zeros(picks, dtype=torch.int64)
    if clouds == 0 or picks == 0:
        return out
    points = points.detach()
    if ptr is None or out_ptr is None or start is None:
        begins = np.arange(clouds + 1) * (points.shape[0] // clouds)
        out_begins = np.arange(clouds + 1) * (picks // clouds)
        starts, shift = np.full(clouds, start_idx), begins[:-1]
    else:
        begins, out_begins, starts = ptr.numpy(), out_ptr.numpy(), start.numpy()
        shift = np.zeros(clouds, np.int64)
    counts = np.where(np.diff(begins) > 0, np.diff(out_begins), 0)
    with np.errstate(all="ignore"):  # distances may overflow
        eligible = _eligible(points, skip_near_origin, order)
        index, ends = _by_rank(begins, eligible, Ties(ties))
        rows = points.numpy()
        candidates = rows if index is None else rows[index]
        centres = rows[np.where(counts > 0, begins[:-1] + starts, 0)]
        finite = np.isfinite(centres).all(axis=1)
        distance = Distance(order, candidates, centres[finite])
        found = out.numpy()
        begun = counts > 0
        found[out_begins[:-1][begun]] = (begins[:-1] + starts - shift)[begun]
        further = np.maximum(counts - 1, 0)
        sizes = np.diff(ends)
        for b in np.flatnonzero((sizes == 0) & (further > 0)).tolist():  # none may be picked
            found[out_begins[b] + 1 : out_begins[b + 1]] = begins[b] - shift[b]
        further[sizes == 0] = 0
        large = (sizes >= _POINTS) & (further >= _PICKS) & (points.shape[1] <= _AXES)
        for b in np.flatnonzero(large).tolist():
            centre = centres[b] if finite[b] else None
            cloud = slice(ends[b], ends[b + 1])
            best = sample_in_rounds(candidates[cloud], centre, int(further[b]), distance)
            best += ends[b]
            best = best if index is None else index[best]
            np.subtract(best, shift[b], out=found[out_begins[b] + 1 : out_begins[b + 1]])
        further[large] = 0
        groups = sample_in_lockstep(candidates, ends, centres, finite, further, distance)
        for members, best in groups:
            best += ends[members, None]
            best = (best if index is None else index[best]) - shift[members, None]
            step = np.arange(best.shape[1])
            taken = step < further[members, None]
            found[(out_begins[members, None] + 1 + step)[taken]] = best[taken]
    return out


def _eligible(points: Tensor, skip_near_origin: bool, rule: Rule) -> Array | None:
    """Which points may be picked [N]; None: all."""
    finite = torch.isfinite(points.sum(dim=1))
    if not bool(finite.all()):  # a sum may overflow
        finite = torch.isfinite(points).all(dim=1)
    if skip_near_origin:
        norm = squared_distance(points, torch.zeros_like(points), rule)
        finite &= ~(norm.to(torch.float64) <= 1e-3)
    return None if bool(finite.all()) else finite.numpy()


def _by_rank(begins: Array, eligible: Array | None, ties: Ties) -> tuple[Array | None, Array]:
    """Points that may be picked, cloud by cloud, in the order of their tie rank, and their ends.

    None: all points, as they come.
    """
    if ties is Ties.LOWEST_INDEX:
        if eligible is None:
            return None, begins
        index = np.flatnonzero(eligible)
    else:
        orders: dict[int, Array] = {}
        parts = []
        for begin, size in zip(begins[:-1].tolist(), np.diff(begins).tolist(), strict=True):
            if size not in orders:
                orders[size] = tie_rank(size, ties).argsort().numpy()
            parts.append(orders[size] + begin)
        index = np.concatenate(parts)
        if eligible is not None:
            index = index[eligible[index]]
    if eligible is None:
        return index, begins
    return index, np.concatenate(([0], np.cumsum(eligible)))[begins]
