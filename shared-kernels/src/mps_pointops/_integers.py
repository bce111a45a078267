"""Integer arithmetic that some releases of torch get wrong on MPS, made of what none does.

- Smallest and largest int64 (`amin`, `amax`, `aminmax`): torch 2.13 gives 0 where all values are
  above, or below, it.
- `//`, `%` and `div` with a rounding mode: torch 2.7 computes them in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import THREADS_PER_DISPATCH, Source, blocks, launch

_SOURCE = Source(
    "mps_pointops._metal",
    "integers",
    {"RULE": (0,), "DIM": (3,), "WIDE": (0, 1)},
    kernels=("extremes", "floor_quotients"),
)
_THREADS = 256  # as in integers.metal
# Rows that a threadgroup looks at, at least, and parts of the rows at most.
_ROWS, _PARTS = 4096, 256


def _columns(numbers: Tensor, zero: bool) -> Tensor:
    """Smallest and largest value of each column of [N, D], N from 1, int64 or int32: [2, D]."""
    rows, dim = numbers.shape
    span = max(_ROWS, -(-rows // _PARTS))
    parts = -(-rows // span)
    found = torch.empty((2 * parts, dim), dtype=torch.int64, device=numbers.device)
    kernel = _SOURCE.kernel(0, 3, int(numbers.dtype == torch.int64), name="extremes")
    shape = [rows, dim, span, int(zero)]
    launch(kernel, numbers.contiguous(), found, shape, groups=parts * dim, group_size=_THREADS)
    return found if parts == 1 else _columns(found, False)


def around_zero(values: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest value or 0, and the largest value or 0, of at least one integer."""
    if values.device.type == "cpu":
        low, high = torch.aminmax(values)
        return low.clamp(max=0), high.clamp(min=0)
    if values.dtype != torch.int32:
        values = values.to(torch.int64)
    low, high = _columns(values.reshape(-1, 1), True).view(2).unbind()
    return low, high


def extremes(points: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest and largest value of each column of integers [N, D], N from 1: [D], [D]."""
    if points.dtype != torch.int64 or points.device.type == "cpu":
        return points.amin(dim=0), points.amax(dim=0)
    low, high = _columns(points, False).unbind()
    return low, high


def largest_where(condition: Tensor, numbers: Tensor) -> Tensor:
    """One more than the largest of the numbers from 0 at which the condition holds; else 0."""
    return torch.where(condition, numbers + 1, 0).amax()


def quotients(rows: int, each: int, device: torch.device) -> Tensor:
    """Of numbers from 0 to rows * each - 1 the quotient by `each`; int64."""
    return torch.arange(rows, device=device).unsqueeze(1).expand(rows, each).reshape(-1)


def rests(rows: int, each: int, device: torch.device) -> Tensor:
    """Of the same numbers the rest; int64."""
    return torch.arange(each, device=device).expand(rows, each).reshape(-1)


def repeated(count: int, size: int, device: torch.device) -> Tensor:
    """The first `count` of the numbers 0 to size - 1 over and over; int64."""
    return rests(-(-count // size), size, device)[:count]


def floor_divide(values: Tensor, divisors: Tensor) -> Tensor:
    """Quotients of int64 by int64 from 1, rounded down."""
    if values.device.type == "cpu":
        return values.div(divisors, rounding_mode="floor")
    values, divisors = torch.broadcast_tensors(values, divisors)  # type: ignore[no-untyped-call]
    values, divisors = values.contiguous(), divisors.contiguous()
    found = torch.empty_like(values)
    kernel = _SOURCE.kernel(0, 3, 1, name="floor_quotients")
    flat = [tensor.view(-1) for tensor in (values, divisors, found)]
    for begin, end in blocks(values.numel(), 1, THREADS_PER_DISPATCH // 2, _THREADS):
        parts = [tensor[begin:end] for tensor in flat]
        groups = -(-(end - begin) // _THREADS)
        launch(kernel, *parts, [end - begin], groups=groups, group_size=_THREADS)
    return found
