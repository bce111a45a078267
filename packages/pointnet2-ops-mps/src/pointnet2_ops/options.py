"""Switches for what copies and forks of pointnet2_ops do differently.

Assign to them at any time (`pointnet2_ops.options.skip_near_origin = False`); the environment sets
what they start with.
"""

from __future__ import annotations

import os


def _switch(variable: str, default: bool) -> bool:
    text = os.environ.get(variable)
    if text not in (None, "0", "1"):
        raise ValueError(f"environment variable {variable} must be 0 or 1, got {text!r}")
    return default if text is None else text == "1"


# Farthest point sampling never picks a point with x*x + y*y + z*z <= 1e-3, except as the first.
# True is pointnet2_ops 3.0.0; the fork 3.3.0, openpoints and others have it off.
skip_near_origin: bool = _switch("POINTNET2_OPS_SKIP_NEAR_ORIGIN", True)

# three_interpolate gives its weights their gradient. False is pointnet2_ops: zeros.
weight_gradient: bool = _switch("POINTNET2_OPS_WEIGHT_GRADIENT", False)
