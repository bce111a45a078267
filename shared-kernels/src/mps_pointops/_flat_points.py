"""Coordinates of ragged calls: any numeric dtype and rank -> what the core operators search in."""

from __future__ import annotations

from functools import reduce
from math import prod

import torch
from torch import Tensor

from mps_pointops._checks import (
    DEVICES,
    MAX_POINTS,
    as_float32_or_64,
    check_points,
    check_same_device,
    check_same_size,
    fail_type,
    fail_value,
)
from mps_pointops._integers import extremes
from mps_pointops._rules import Rule, as_rule

_ANY_DIM = (Rule.SEPARATE.value, Rule.FMA_XYZ.value)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def coordinates(
    op: str, sets: dict[str, Tensor], *, any_rank: bool = False, shift: bool = True
) -> list[Tensor]:
    """Sets of points, by name, as contiguous coordinates [N, D] cut from the graph.

    One axis is a column; `any_rank`: axes after the first are joined, else there are at most two.
    float16 and bfloat16 become float32, exactly; float64, which the CPU alone has, stays, and the
    other set joins it. Integers are shifted by the smallest value that
    each coordinate has in any of the sets, in int64, and then become float32: distances do not
    change and ranges up to 2**24 stay exact. Without `shift` they become float32 as they are.
    Beside points, a set without any, such as `torch.empty(0)`, has their dimension and kind.
    """
    given = list(sets.values())
    if all(_is_ready(points, given[0]) for points in given):
        return given
    rows = {name: _rows(op, name, points, any_rank) for name, points in sets.items()}
    like = next((points for points in rows.values() if points.shape[0]), None)
    if like is not None:
        for name, points in rows.items():
            if not points.shape[0]:
                rows[name] = points.new_empty((0, like.shape[1]), dtype=like.dtype)
    first_name, first = next(iter(rows.items()))
    if len({id(points) for points in sets.values()}) == 1:  # one set under two names
        rows = dict.fromkeys(rows, first)
    for name, points in rows.items():
        check_same_device(op, name, points, first_name, first)
        check_same_size(op, name, "dimension D", points.shape[1], first_name, first.shape[1])
        if (points.dtype in _INTEGERS) != (first.dtype in _INTEGERS):
            hint = "convert one of them"
            fail_type(
                op, name, f"of the kind of {first_name} ({first.dtype})", str(points.dtype), hint
            )
    whole = first.dtype in _INTEGERS
    if whole:
        found = _shifted(list(rows.values())) if shift else [p.float() for p in rows.values()]
        rows = dict(zip(rows, found, strict=True))
    for name, points in rows.items():
        check_points(op, name, points, rank=2, double=True)
    return list(as_float32_or_64(*rows.values()))


def _is_ready(points: Tensor, first: Tensor) -> bool:
    """Whether points are right, and what is searched in, as they are; most are, and soon told."""
    return (
        points.dtype is torch.float32
        and points.layout is torch.strided
        and points.dim() == 2
        and points.shape[1] == first.shape[-1] >= 1
        and points.shape[0] <= MAX_POINTS
        and points.device == first.device
        and points.device.type in DEVICES
        and points.is_contiguous()
        and not points.requires_grad
    )


def _rows(op: str, name: str, points: Tensor, any_rank: bool) -> Tensor:
    """Points as [N, D]."""
    if points.dim() == 0 or (points.dim() > 2 and not any_rank):
        wanted = "(N, ...)" if any_rank else "(N, D) or (N,)"
        fail_value(op, name, f"of shape {wanted}", f"shape {list(points.shape)}")
    return points.detach().reshape(points.shape[0], prod(points.shape[1:]))


def _shifted(sets: list[Tensor]) -> list[Tensor]:
    given = sets[:1] if all(points is sets[0] for points in sets) else sets
    wide = [points.to(torch.int64) for points in given]
    lows = [extremes(points)[0] for points in wide if points.numel()]
    if not lows:
        return [points.to(torch.float32) for points in sets]
    low = reduce(torch.minimum, lows)
    found = []
    for points in wide:
        moved = points - low
        near = moved.to(torch.float32)
        if any(points.dtype == torch.int64 for points in given):
            # a difference of 2**63 or more wraps around
            near = torch.where(moved < 0, near + 2.0**64, near)
        found.append(near)
    return found * (len(sets) // len(found))


def check_rule(op: str, rule: int, dim: int, *, cosine: bool = False) -> int:
    """The number of a rule that has a meaning for points of `dim` coordinates.

    `cosine`: whether the operator has the cosine distance too.
    """
    if rule in _ANY_DIM:
        return rule
    try:
        name = Rule(rule).name.lower()
    except ValueError:
        fail_value(op, "rule", f"one of {[r.value for r in Rule]}", str(rule))
    return as_rule(op, name, dim, cosine=cosine).value
