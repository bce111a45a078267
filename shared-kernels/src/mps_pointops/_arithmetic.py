"""The float32 arithmetic of a squared distance, step by step: the meaning of `arithmetic.metal`.

torch has no float32 fused multiply-add on the CPU, so it is made from float64: the product of two
floats is exact there, the sum is rounded to odd, and one rounding to float32 follows, which is the
correctly rounded result. Subnormal numbers are flushed to zero at every step, as the GPU does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._rules import Rule

_MIN_NORMAL = 2.0**-126
# below this a result is still subnormal after rounding to 24 bits
_TINY = 2.0**-126 - 2.0**-151


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
    """Squared distance of float32 points (..., D), broadcast; `scale` is a power of two.

    Works coordinate by coordinate, so memory is that of the result.
    """
    left, right = a.movedim(-1, 0).contiguous(), b.movedim(-1, 0).contiguous()
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
    """Correctly rounded; torch's own float32 root on the CPU may miss the last bit."""
    return d2.to(torch.float64).sqrt_().to(torch.float32)


def distance_bits(d2: Tensor) -> Tensor:
    """Float32 numbers that are not negative as int64 keys in the same order; NaN comes last."""
    bits = d2.contiguous().view(torch.int32).to(torch.int64)
    return torch.where(torch.isnan(d2), 0x7FC00000, bits)
