"""Launching: nothing for empty work, several dispatches for long work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Elementary steps (one coordinate of one pair) of one dispatch, for the whole GPU and for a single
# threadgroup. The system kills a command buffer that runs for seconds, and the screen stutters long
# before; these are a fraction of a second on the slowest chip.
STEPS_PER_DISPATCH = 2**32
STEPS_PER_THREADGROUP = 2**28
# A grid counts its threads in 32 bits.
THREADS_PER_DISPATCH = 2**31
# Simdgroups, one a query, in a threadgroup of the search kernels.
QUERIES_PER_GROUP = 8


def launch(kernel: Any, *arguments: Any, groups: int, group_size: int) -> None:
    """Run `groups` threadgroups of `group_size` threads; a grid of zero is undefined, so none."""
    if groups > 0:
        kernel(*arguments, threads=groups * group_size, group_size=group_size)


class Searched(NamedTuple):
    """What a search kernel is told of its queries and points.

    Attributes:
        equal: Whether clouds are equal parts of both; else queries have ranges of rows.
        size: Points that a query looks at, at most.
        shape: The first numbers of its `shape`: D, `equal`, queries of a cloud, `size`.
        first: First row of each query; a tensor that is not read where clouds are equal.
        last: Row after the last, likewise.
    """

    equal: bool
    size: int
    shape: list[int]
    first: Tensor
    last: Tensor


def searched(
    query: Tensor,
    points: int,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    unread: Tensor,
) -> Searched:
    """Of queries [M, D] in so many points; `unread`: any int64 tensor, in place of no ranges."""
    rows, dim = query.shape
    if first is None or last is None:
        size = points // clouds
        return Searched(True, size, [dim, 1, rows // clouds, size], unread, unread)
    return Searched(False, points, [dim, 0, rows, points], first, last)


def blocks(
    count: int, steps_each: int, limit: int, unit: int = 1, *, wait: bool = True
) -> Iterator[tuple[int, int]]:
    """Cut `count` items into ranges of at most `limit` steps, in multiples of `unit` items.

    Dispatches gather in one command buffer, and it is the buffer that must not run for long. So
    between ranges the device is waited for, unless `steps_each` is only an upper bound that would
    cut short work into very many ranges.
    """
    block = max(1, limit // max(1, steps_each) // unit) * unit
    for begin in range(0, count, block):
        if begin and wait:
            torch.mps.synchronize()
        yield begin, min(begin + block, count)


def search_blocks(rows: int, steps_each: int, *, exact: bool) -> Iterator[tuple[int, int]]:
    """Ranges of queries for one dispatch, where a simdgroup answers a query.

    `exact` tells whether `steps_each` is the work of a query or only a bound.
    """
    # a thread costs at least this much of the work that is allowed, which bounds the grid too
    least = 32 * STEPS_PER_DISPATCH // THREADS_PER_DISPATCH
    steps = max(steps_each, least)
    return blocks(rows, steps, STEPS_PER_DISPATCH, QUERIES_PER_GROUP, wait=exact)
