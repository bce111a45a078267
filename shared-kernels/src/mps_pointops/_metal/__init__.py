"""Compile Metal text once, check the device once, launch."""

from mps_pointops._metal.compile import Source, variants
from mps_pointops._metal.launch import (
    STEPS_PER_DISPATCH,
    STEPS_PER_THREADGROUP,
    blocks,
    launch,
)

__all__ = [
    "STEPS_PER_DISPATCH",
    "STEPS_PER_THREADGROUP",
    "Source",
    "blocks",
    "launch",
    "variants",
]
