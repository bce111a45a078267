"""Launching: nothing for empty work, several dispatches for long work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Elementary steps (one coordinate of one pair) of one dispatch, for the whole GPU and for a single
# threadgroup. The system kills a command buffer that runs for seconds, and the screen stutters long
# before; these are a fraction of a second on the slowest chip.
STEPS_PER_DISPATCH = 2**32
STEPS_PER_THREADGROUP = 2**28


def launch(kernel: Any, *arguments: Any, groups: int, group_size: int) -> None:
    """Run `groups` threadgroups of `group_size` threads; a grid of zero is undefined, so none."""
    if groups > 0:
        kernel(*arguments, threads=groups * group_size, group_size=group_size)


def blocks(count: int, steps_each: int, limit: int, unit: int = 1) -> Iterator[tuple[int, int]]:
    """Cut `count` items into ranges of at most `limit` steps, in multiples of `unit` items."""
    block = max(1, limit // max(1, steps_each) // unit) * unit
    for begin in range(0, count, block):
        yield begin, min(begin + block, count)
