"""The arithmetic of a squared or cosine distance, step by step: the meaning of `arithmetic.metal`.

torch has no float32 fused multiply-add on the CPU, so it is made from float64: the product of two
floats is exact there, the sum is rounded to odd, and one rounding to float32 follows, which is the
correctly rounded result. Subnormal numbers are flushed to zero at every step, as the GPU does.

Float64 points, which the CPU alone has, are computed with in float64: every step is rounded, in
coordinate order, whatever the rule, and nothing is flushed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mps_pointops._rules import Rule

_MIN_NORMAL = 2.0**-126
# below this a result is still subnormal after rounding to 24 bits
_TINY = 2.0**-126 - 2.0**-151
# the smallest number whose square is not flushed; the largest coordinate tells of a whole vector
_MIN_ROOT = 2.0**-63


def flush(x: Tensor) -> Tensor:
    """Subnormal float32 numbers become zero; NaN stays."""
    return torch.where(x.abs() < _MIN_NORMAL, 0.0, x)


def _to_float32(exact: Tensor) -> Tensor:
    return torch.where(exact.abs() < _TINY, 0.0, exact).to(torch.float32)


def square(t: Tensor) -> Tensor:
    """`t * t`, rounded once."""
    product = t * t
    small = (product < 2.0**-125) & (t != 0)
    if bool(small.any()):  # where float32 and flushing round differently
        wide = t[small].to(torch.float64)
        product[small] = _to_float32(wide * wide)
    return product


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """`a * b + c` of float32 numbers, rounded once."""
    product = a.to(torch.float64) * b.to(torch.float64)
    addend = c.to(torch.float64)
    total = product + addend
    # two-sum: total + error is the exact sum
    part = total - product
    error = (product - (total - part)) + (addend - part)
    # a float64 sum may land exactly between two floats: make its last bit odd when it is inexact,
    # so that the rounding to float32 sees on which side the exact sum lies
    bits = total.view(torch.int64)
    inexact = (error != 0) & torch.isfinite(total) & torch.isfinite(error)
    away_from_zero = torch.where((error > 0) == (total > 0), 1, -1)
    bits = torch.where(inexact & (bits & 1 == 0), bits + away_from_zero, bits)
    return _to_float32(bits.view(torch.float64))


def fma_square(t: Tensor, acc: Tensor) -> Tensor:
    """`fma(t, t, acc)`."""
    return fma(t, t, acc)


def squared_distance(a: Tensor, b: Tensor, rule: Rule, scale: float = 1.0) -> Tensor:
    """Squared distance of points (..., D), broadcast; `scale` is a power of two (1 in float64).

    Works coordinate by coordinate, so memory is that of the result.
    """
    left, right = a.movedim(-1, 0).contiguous(), b.movedim(-1, 0).contiguous()
    if a.dtype == torch.float64:
        total = (left[0] - right[0]).square_()
        for d in range(1, left.shape[0]):
            total += (left[d] - right[d]).square_()
        return total
    if scale != 1.0:
        # Without a scale subnormal coordinates need no care: what they could change is less than
        # a quarter of the last bit of a difference, or has a square that is zero.
        left, right = flush(left), flush(right)

    def difference(d: int) -> Tensor:
        t = left[d] - right[d]
        return t if scale == 1.0 else _to_float32(flush(t).to(torch.float64) * scale)

    if rule is Rule.FMA_YXZ:
        return fma_square(difference(2), fma_square(difference(0), square(difference(1))))
    acc = square(difference(0))
    for d in range(1, left.shape[0]):
        t = difference(d)
        acc = acc.add_(square(t)) if rule is Rule.SEPARATE else fma_square(t, acc)
    return acc


def square_root(d2: Tensor) -> Tensor:
    """Correctly rounded; torch's own roots on the CPU may miss the last bit."""
    if d2.dtype == torch.float64:
        root = torch.empty_like(d2)
        np.sqrt(d2.numpy(), out=root.numpy())
        return root
    return d2.to(torch.float64).sqrt_().to(d2.dtype)


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Dot product of points (..., D), broadcast: a chain of `fma` in coordinate order, from zero.

    In float64 products and sums are rounded one by one.
    """
    left, right = a.movedim(-1, 0).contiguous(), b.movedim(-1, 0).contiguous()
    if a.dtype == torch.float64:
        total = left[0] * right[0]
        for d in range(1, left.shape[0]):
            total += left[d] * right[d]
        return total
    left, right = flush(left), flush(right)
    acc = torch.zeros_like(left[0] * right[0])
    for d in range(left.shape[0]):
        acc = fma(left[d], right[d], acc)
    return acc


def norm(points: Tensor) -> Tensor:
    """Length of points (..., D)."""
    return square_root(dot(points, points))


def cosine_distance(a: Tensor, b: Tensor, norm_a: Tensor, norm_b: Tensor) -> Tensor:
    """`1 - a.b / (|a| |b|)` of points (..., D) that take part, broadcast; each step rounded once.

    Infinite where the dot product overflows.
    """
    norms = norm_a * norm_b
    product = dot(a, b)
    # rounding a float64 quotient of two floats is rounding the quotient
    quotient = (product.to(torch.float64) / norms.to(torch.float64)).to(product.dtype)
    return torch.where(torch.isfinite(product), 1.0 - quotient, torch.inf)


def pair_distance(a: Tensor, b: Tensor, rule: Rule) -> Tensor:
    """What neighbours are ordered by."""
    if rule is Rule.COSINE:
        return cosine_distance(a, b, norm(a), norm(b))
    return squared_distance(a, b, rule)


def takes_part(points: Tensor, rule: Rule) -> Tensor:
    """Which of the points (..., D) can be a neighbour or have one: (...), bool, on their device.

    All coordinates are finite; for the cosine the squared norm is not zero, which in float32 is to
    say that a coordinate reaches 2**-63.
    """
    finite = torch.isfinite(points).all(dim=-1)
    if rule is not Rule.COSINE:
        return finite
    if points.dtype == torch.float64:
        return finite & (dot(points, points) > 0)
    return finite & (points.abs().amax(dim=-1) >= _MIN_ROOT)


def distance_bits(distance: Tensor) -> Tensor:
    """Float32 numbers as int64 keys in the same order; NaN comes last, and -0 before 0."""
    bits = distance.contiguous().view(torch.int32).to(torch.int64)
    bits = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return torch.where(torch.isnan(distance), 0x7FC00000, bits)


def bits_distance(bits: Tensor) -> Tensor:
    """The inverse of `distance_bits`."""
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int32).view(torch.float32)
