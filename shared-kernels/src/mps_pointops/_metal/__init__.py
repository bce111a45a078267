"""Compile Metal text once, check the device once, launch."""

from mps_pointops._metal.compile import Source, variants
from mps_pointops._metal.dispatch import (
    QUERIES_PER_GROUP,
    STEPS_PER_DISPATCH,
    STEPS_PER_THREADGROUP,
    THREADS_PER_DISPATCH,
    blocks,
    launch,
    search_blocks,
    searched,
)

__all__ = [
    "QUERIES_PER_GROUP",
    "STEPS_PER_DISPATCH",
    "STEPS_PER_THREADGROUP",
    "THREADS_PER_DISPATCH",
    "Source",
    "blocks",
    "launch",
    "search_blocks",
    "searched",
    "variants",
]
