"""From a radius to what the kernels compare with."""

from __future__ import annotations

import math
from ctypes import c_float
from dataclasses import dataclass

import torch

_SMALL = 2.0**-100  # squared thresholds outside these bounds are compared in a scale of their own
_LARGE = 2.0**126


@dataclass(frozen=True)
class Threshold:
    """A point is inside when `|scale * (p - q)|**2 < squared`, in the dtype of the points.

    Attributes:
        squared: Squared radius in that scale, a number of that dtype.
        scale: A power of two; 1 for ordinary radii, whose squares are ordinary float32 numbers.
    """

    squared: float
    scale: float


def threshold(radius: float, round_radius: bool, dtype: torch.dtype = torch.float32) -> Threshold:
    """What a radius means.

    Args:
        radius: At least zero; infinite: every point at a finite distance is inside.
        round_radius: True for `fl32(fl32(r) * fl32(r))`, the threshold of PyTorch3D and
            pointnet2_ops; False for `fl32(r * r)` with the product in float64, that of
            torch_cluster and pyg-lib.
        dtype: float32, or float64 for `r * r` in float64 either way.
    """
    if dtype == torch.float64:
        return Threshold(radius * radius, 1.0)
    if round_radius:
        radius = c_float(radius).value
    if radius < 2.0**-126:  # subnormal coordinates are zero, and so is such a radius
        return Threshold(0.0, 1.0)
    square = radius * radius  # exact for a float32 radius
    if _SMALL <= square <= _LARGE:
        return Threshold(c_float(square).value, 1.0)
    # radius = mantissa * 2**exponent with a mantissa in [0.5, 1); the scale stays a normal float32
    exponent = min(max(math.frexp(min(radius, 2.0**128))[1], -126), 126)
    scaled = math.ldexp(radius, -exponent)
    return Threshold(c_float(scaled * scaled).value, math.ldexp(1.0, -exponent))
