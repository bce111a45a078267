"""Ball query: public function, operator and gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float,
    as_int,
    check_pair,
    refuse_forward_mode,
)
from mps_pointops._integers import quotients, repeated
from mps_pointops._registry import register, register_gradient
from mps_pointops._rules import as_rule
from mps_pointops.ops.ball_query.cpu import ball_count_cpu, ball_query_cpu
from mps_pointops.ops.ball_query.mps import ball_count_mps, ball_query_mps
from mps_pointops.ops.gather.gather import gather, scatter

_OP = "ball_query"


def ball_query(
    query: Tensor, ref: Tensor, radius: float, K: int, *, rule: str = "fma_xyz"
) -> tuple[Tensor, Tensor]:
    """The first K points of `ref`, in input order, strictly inside a ball around every query.

    Args:
        query: Centres [B, M, D], any D >= 1; float32, float16 or bfloat16 (widened to float32),
            on cpu or mps.
        ref: Reference points [B, N, D], same device.
        radius: Radius of the balls, finite and >= 0.
        K: Slots per query, >= 0. It may exceed N.
        rule: Rounding of squared distances: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

    Returns:
        Squared distances [B, M, K], float32, and indices into N [B, M, K], int64. A point is
        inside when its squared distance is below `fl32(fl32(radius) * fl32(radius))`; radii
        whose square is not an ordinary float32 number are compared in a scale of their own.
        Slots without a point hold distance 0 and index -1. Points with a NaN or infinite
        coordinate are never inside.

    Raises:
        TypeError: an argument is not a tensor of those dtypes, `K` is no integer, `radius` no
            number.
        ValueError: wrong shapes, sizes that differ, different devices, a negative, infinite or
            NaN `radius`, a negative `K`.

    Squared distances have a gradient (of any order) in both coordinate tensors, for the points
    that were chosen. Contract: `ops/ball_query/README.md`.
    """
    query, ref = check_pair(_OP, "query", query, "ref", ref, rank=3)
    clouds, rows, dim = query.shape
    radius = as_float(_OP, "radius", radius)
    K = as_int(_OP, "K", K)
    refuse_forward_mode(_OP, query, ref)
    distance, index = ball_search(
        query.to(torch.float32).reshape(clouds * rows, dim),
        ref.to(torch.float32).reshape(clouds * ref.shape[1], dim),
        None,
        None,
        clouds,
        K,
        radius,
        True,
        False,
        as_rule(_OP, rule, dim).value,
    )
    return distance.view(clouds, rows, K), index.view(clouds, rows, K)


def _fake(query: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    shape = (query.shape[0], arguments[4])
    return query.new_empty(shape), query.new_empty(shape, dtype=torch.int64)


# The ragged core: query i looks at `ref[first[i]:last[i]]`, indices count in the whole input.
# Without first the rows are cut into `clouds` equal parts and indices count in the part.
# `round_radius`: see threshold.py. `ignore_same_index`: row i of `ref` is never a hit of query i.
ball_search = register(
    "ball_query(Tensor query, Tensor ref, Tensor? first, Tensor? last, SymInt clouds, SymInt K,"
    " float radius, bool round_radius, bool ignore_same_index, int rule) -> (Tensor, Tensor)",
    cpu=ball_query_cpu,
    mps=ball_query_mps,
    fake=_fake,
)


def _fake_count(query: Tensor, *arguments: Any) -> Tensor:
    return query.new_empty((query.shape[0],), dtype=torch.int64)


# How many slots of each query `ball_search` would fill.
ball_count = register(
    "ball_count(Tensor query, Tensor ref, Tensor? first, Tensor? last, SymInt clouds, SymInt K,"
    " float radius, bool round_radius, bool ignore_same_index, int rule) -> Tensor",
    cpu=ball_count_cpu,
    mps=ball_count_mps,
    fake=_fake_count,
)


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    """What the gradient needs of the operator's first five arguments and of its result."""
    query, ref, first, _, clouds = inputs[:5]
    index = output[1]
    ctx.mark_non_differentiable(index)
    ctx.save_for_backward(query, ref, index)
    ctx.clouds = None if first is not None else clouds


def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    """d|q - p|^2 = 2 (q - p) . (dq - dp), for the chosen pairs.

    Sums go through the operators of the room `gather`, whose order is fixed.
    """
    query, ref, index = ctx.saved_tensors
    rows, slots = index.shape
    size, dim = ref.shape
    if size == 0 or rows == 0 or slots == 0:
        return torch.zeros_like(query), torch.zeros_like(ref), *[None] * 8
    hit = index >= 0
    row = torch.arange(rows, device=index.device).unsqueeze(1)
    chosen = index
    if ctx.clouds and ctx.clouds > 1:  # indices count in the cloud
        cloud = quotients(ctx.clouds, rows // ctx.clouds, index.device)
        chosen = index + cloud.unsqueeze(1) * (size // ctx.clouds)
    # a slot without a point adds zero somewhere: spread, so that no sum grows long
    chosen = torch.where(hit, chosen, repeated(rows, size, index.device).unsqueeze(1))
    points = gather(ref.t().unsqueeze(0), chosen.view(1, -1)).view(dim, rows, slots)
    # a padded slot may point at a point, and carry a gradient, that is not finite
    difference = torch.where(hit, query.t().unsqueeze(2) - points, 0.0)
    pull = torch.where(hit, 2.0 * grad * difference, 0.0).reshape(1, dim, -1)
    grad_query = grad_ref = None
    if ctx.needs_input_grad[0]:
        target = row.expand(rows, slots).reshape(1, -1)
        grad_query = scatter(pull, target, None, rows)[0].t()
    if ctx.needs_input_grad[1]:
        grad_ref = scatter(-pull, chosen.view(1, -1), None, size)[0].t()
    return grad_query, grad_ref, *[None] * 8


register_gradient("ball_query", backward, setup_context)
