"""Integer arithmetic that some releases of torch get wrong on MPS, made of what none does.

- Smallest and largest int64 (`amin`, `amax`, `aminmax`): torch 2.13 gives 0 where all values are
  above, or below, it.
- `//`, `%` and `div` with a rounding mode: torch 2.7 computes them in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor


def around_zero(values: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest value or 0, and the largest value or 0, of at least one integer."""
    return values.clamp(max=0).amin(), values.clamp(min=0).amax()


def largest_where(condition: Tensor, numbers: Tensor) -> Tensor:
    """One more than the largest of the numbers from 0 at which the condition holds; else 0."""
    return torch.where(condition, numbers + 1, 0).amax()


def lowest(points: Tensor) -> Tensor:
    """The smallest value of each column of integers [N, D], N from 1: [D], in their dtype."""
    if points.dtype != torch.int64 or points.device.type == "cpu":
        return points.amin(dim=0)
    # upper halves first, then lower halves, made signed, of those rows that have the smallest
    upper = (points >> 32).to(torch.int32)
    least = upper.amin(dim=0)
    lower = ((points & 0xFFFFFFFF) - 2**31).to(torch.int32)
    rest = torch.where(upper == least, lower, 2**31 - 1).amin(dim=0)
    return (least.to(torch.int64) << 32) + (rest.to(torch.int64) + 2**31)


def highest(points: Tensor) -> Tensor:
    """The largest value of each column, likewise."""
    return ~lowest(~points)


def counted(rows: int, each: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Of numbers from 0 to rows * each - 1 the quotient by `each`, and the rest; int64."""
    row = torch.arange(rows, device=device).unsqueeze(1).expand(rows, each)
    place = torch.arange(each, device=device).expand(rows, each)
    return row.reshape(-1), place.reshape(-1)


def repeated(count: int, size: int, device: torch.device) -> Tensor:
    """The first `count` of the numbers 0 to size - 1 over and over; int64."""
    return counted(-(-count // size), size, device)[1][:count]


def floor_divide(values: Tensor, divisors: Tensor) -> Tensor:
    """Quotients of int64 by int64 from 1, rounded down."""
    if values.device.type == "cpu":
        return values.div(divisors, rounding_mode="floor")
    negative = values < 0
    rest = torch.where(negative, ~values, values)
    quotient, parts = torch.zeros_like(rest), divisors.to(torch.float32)
    # each step is a little too small and leaves a part of 2**-19 at most, or one divisor
    for _ in range(4):
        part = (rest.to(torch.float32) * (1 - 2.0**-20) / parts).to(torch.int64)
        quotient = quotient + part
        rest = rest - part * divisors
    quotient = torch.where(rest >= divisors, quotient + 1, quotient)
    return torch.where(negative, ~quotient, quotient)
