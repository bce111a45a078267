"""Segments of rows, their reduction in a fixed order, and its adjoint.

Values are rows [positions, K]. A segment is a set of positions; sums run through it in ascending
order, so results do not depend on timing, unlike those of atomics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mps_pointops._integers import quotients
from mps_pointops._metal import Source, blocks, launch
from mps_pointops.ops.inverse_index.inverse_index import positions_of

SUM, PRODUCT, SMALLEST, LARGEST = range(4)
_OPTIONS = {
    "RULE": (0,),
    "DIM": (3,),
    "TYPE": (0, 1, 2),
    "OP": (SUM, PRODUCT, SMALLEST, LARGEST),
    "ORDERED": (0, 1),
}
SOURCE = Source(__package__, "reduce", _OPTIONS)
_GROUP_SIZE = 256
_WINDOW = 2**20  # positions of a segment in one dispatch
_RESULTS_PER_DISPATCH = 2**28

# computed in; sums of narrow integers wrap, which converting back does too
_COMPUTED_IN = {
    torch.float32: (0, torch.float32),
    torch.float16: (0, torch.float32),
    torch.bfloat16: (0, torch.float32),
    torch.int8: (1, torch.int32),
    torch.uint8: (1, torch.int32),
    torch.int16: (1, torch.int32),
    torch.int32: (1, torch.int32),
    torch.int64: (2, torch.int64),
}


@dataclass
class Segments:
    """Which positions belong together.

    Attributes:
        rows: Independent rows R; positions and segments of a row come after those of the last.
        length: Positions of a row, E.
        count: Segments of a row, N.
        begin: Where the positions of a segment begin [R * N], int64.
        end: Where they end [R * N], int64.
        order: Positions by segment [R * E], int32; None: as they are.
        target: Segment of every position [R * E], int64; R * N: none.
    """

    rows: int
    length: int
    count: int
    begin: Tensor
    end: Tensor
    order: Tensor | None
    target: Tensor

    @property
    def sizes(self) -> Tensor:
        """Positions in every segment [R * N], int64."""
        return (self.end - self.begin).clamp(min=0)


def of_index(index: Tensor, count: int) -> Segments:
    """Segments from the segment of every position, `index` [R, E], in any order.

    Numbers outside 0 ... count - 1 belong to none.
    """
    rows, length = index.shape
    order, first = positions_of(index.detach(), count)
    target = _targets(index.detach(), count)
    return Segments(rows, length, count, first[:-1], first[1:], order, target)


def _targets(index: Tensor, count: int) -> Tensor:
    rows = index.shape[0]
    base = torch.arange(rows, device=index.device, dtype=torch.int64).unsqueeze(1) * count
    inside = (index >= 0) & (index < count)
    return torch.where(inside, index + base, rows * count).flatten()


def of_pointer(pointer: Tensor, length: int) -> Segments:
    """Segments from where they begin and end, `pointer` [R, N + 1], ascending."""
    pointer = pointer.detach().to(torch.int64).clamp(0, length).contiguous()
    rows, count = pointer.shape[0], pointer.shape[1] - 1
    row = torch.arange(rows, device=pointer.device, dtype=torch.int64).unsqueeze(1)
    begin, end = pointer[:, :-1] + row * length, pointer[:, 1:] + row * length
    position = torch.arange(length, device=pointer.device, dtype=torch.int64)
    target = torch.searchsorted(pointer, position.expand(rows, length).contiguous(), right=True) - 1
    inside = (target >= 0) & (target < count)
    target = torch.where(inside, target + row * count, rows * count).flatten()
    begin, end = begin.flatten().contiguous(), end.flatten().contiguous()
    return Segments(rows, length, count, begin, end, None, target)


def reduce(values: Tensor, segments: Segments, op: int) -> tuple[Tensor, Tensor]:
    """Reduce rows [R * E, K] to [R * N, K], and where the smallest or largest was (else empty).

    Floats are computed in float32 and returned so, integers in theirs. NaN is neither smallest nor
    largest. Segments of nothing: 0 for a sum, 1 for a product, 0 at position -1 for the others.
    """
    kind, computed_in = _COMPUTED_IN[values.dtype]
    values = values.detach().to(computed_in).contiguous()
    positions, channels = values.shape
    shape = (segments.rows * segments.count, channels)
    out = values.new_empty(shape)
    arg = torch.empty(shape if op >= SMALLEST else (1,), dtype=torch.int64, device=values.device)
    if out.numel() == 0:
        return out, arg
    if values.numel() == 0:
        return out.fill_(op == PRODUCT), arg.fill_(-1)
    order = segments.order
    kernel = SOURCE.kernel(0, 3, kind, op, int(order is not None))
    if order is None:
        order = torch.empty(1, dtype=torch.int32, device=values.device)
    # a window waits for the one before: they belong in different command buffers
    for begin, _ in blocks(segments.length, 1, _WINDOW):
        for first, last in blocks(out.numel(), 1, _RESULTS_PER_DISPATCH):
            launch(
                kernel,
                values,
                order,
                segments.begin,
                segments.end,
                out,
                arg,
                [channels, positions, begin, _WINDOW, first, last],
                groups=-(-(last - first) // _GROUP_SIZE),
                group_size=_GROUP_SIZE,
            )
    return out, arg


def total(values: Tensor, segments: Segments) -> Tensor:
    """Sums [R * N, K] of rows [R * E, K], in the dtype of the values. Differentiable."""
    return _Sum.apply(values, segments)  # type: ignore[no-any-return]


def take(values: Tensor, segments: Segments, missing: float = 0.0) -> Tensor:
    """The row of its segment for every position: [R * N, K] to [R * E, K]. Adjoint of `total`."""
    return _Take.apply(values, segments, missing)  # type: ignore[no-any-return]


def pick(values: Tensor, index: Tensor, count: int, missing: float = 0.0) -> Tensor:
    """Rows [R * E, K] of `values` [R * N, K] by `index` [R, E]; sorts it for a gradient only."""
    if values.requires_grad and torch.is_grad_enabled():
        return take(values, of_index(index, count), missing)
    none = torch.empty(0, dtype=torch.int64, device=index.device)
    rows, length = index.shape
    return take(
        values, Segments(rows, length, count, none, none, None, _targets(index, count)), missing
    )


def product(values: Tensor, segments: Segments) -> Tensor:
    """Products [R * N, K] of rows. Differentiable: 0 where a value is 0, as pyg-lib has it."""
    return _Product.apply(values, segments)  # type: ignore[no-any-return]


def extreme(values: Tensor, segments: Segments, op: int) -> tuple[Tensor, Tensor]:
    """Smallest or largest of every segment and its position in the row (E: nothing there).

    Equal values: the first. The gradient goes to the value that was taken.
    """
    with torch.no_grad():
        out, arg = reduce(values, segments, op)
        found = arg >= 0
        row = quotients(segments.rows, segments.count, arg.device)
        place = torch.where(found, arg - (row * segments.length).unsqueeze(1), segments.length)
    if values.requires_grad and torch.is_grad_enabled():
        if values.shape[0]:
            out = torch.where(found, values.gather(0, arg.clamp(min=0)), 0)
        else:
            out = out + values.sum(0)  # nothing, but a part of the graph
    return out.to(values.dtype), place


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: Segments) -> Tensor:
        ctx.segments = segments
        return reduce(values, segments, SUM)[0].to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return take(grads[0], ctx.segments), None


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: Segments, missing: float) -> Tensor:
        ctx.segments = segments
        target = segments.target
        if values.shape[0] == 0:
            return values.new_full((target.shape[0], values.shape[1]), missing)
        picked = values.index_select(0, target.clamp(max=values.shape[0] - 1))
        return picked.masked_fill((target >= values.shape[0]).unsqueeze(1), missing)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return total(grads[0], ctx.segments), None, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, segments: Segments) -> Tensor:
        out = reduce(values, segments, PRODUCT)[0].to(values.dtype)
        ctx.segments = segments
        ctx.save_for_backward(values, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        values, out = ctx.saved_tensors
        others = take(grads[0] * out, ctx.segments) / values
        return torch.where(values != 0, others, 0), None
