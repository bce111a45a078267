"""Ranges of ragged searches on MPS: launches of `ranges.metal`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

import torch
from torch import Tensor

from mps_pointops._flat_mps.parts import NUMBERS, Parts, parts_of
from mps_pointops._metal import Source, launch

EQUAL, BATCH, POINTER = 0, 1, 2  # as in ranges.metal

SOURCE = Source(
    __package__,
    "ranges",
    {"RULE": (0, 3), "DIM": (0,)},
    "parts",
    kernels=("tally", "ranges"),
)


# As in ranges.metal: with more points, those that take part are counted in a pass before.
_FEW = 8192


@dataclass
class Ranges:
    """What a pass over the queries leaves on the device.

    Attributes:
        first: First row of the reference set [M], int64; None without clouds.
        last: Row after the last [M], int64; None likewise.
        counts: Neighbours a query can have [M], int32; None if not asked for.
    """

    first: Tensor | None
    last: Tensor | None
    counts: Tensor | None


def order_of(
    numbers: list[int], parts: Parts
) -> tuple[tuple[bool, int, int], tuple[bool, int, int]]:
    """Of each of both lists: whether it ascends, its first and its last number."""
    ends = parts.count * NUMBERS
    flags = reduce(or_, numbers[2:ends:NUMBERS])
    first_x, last_x, first_y, last_y = numbers[ends:]
    return (not flags & 1, first_x, last_x), (not flags & 2, first_y, last_y)


def ranges_mps(
    x: Tensor,
    y: Tensor,
    list_x: Tensor | None,
    list_y: Tensor | None,
    form: int,
    k: int | None,
    cosine: bool,
    parts: Parts,
    numbers: Tensor,
) -> Ranges:
    """Find the ranges of the rows of `y`, and count neighbours, at most `k`, unless it is None.

    `parts`: of the rows of `y` or of a longer list; what they find goes to `numbers`, which has 4
    places more, for the ends of the lists.
    """
    (size, dim), rows = x.shape, y.shape[0]
    first = last = counts = before = tallies = None
    if form != EQUAL:
        first = torch.empty(rows, dtype=torch.int64, device=y.device)
        last = torch.empty(rows, dtype=torch.int64, device=y.device)
    rule = 3 if cosine else 0
    tallied = parts_of(size)
    if k is not None:
        counts = torch.empty(rows, dtype=torch.int32, device=y.device)
    words = counts if counts is not None and rows else numbers.view(torch.int32)
    if k is not None and size > _FEW:
        before = torch.empty(size, dtype=torch.int32, device=x.device)
        tallies = torch.empty(tallied.count, dtype=torch.int32, device=x.device)
        shape = [size, dim, tallied.span]
        launch(SOURCE.kernel(rule, 0, name="tally"), x, before, tallies, shape, **tallied.grid)
    lengths = [0 if given is None else given.shape[0] for given in (list_x, list_y)]
    launch(
        SOURCE.kernel(rule, 0, name="ranges"),
        # nothing is read or written where there is nothing to give
        y if rows else numbers.view(torch.float32),
        numbers if list_x is None else list_x,
        numbers if list_y is None else list_y,
        words if before is None else before,
        words if tallies is None else tallies,
        numbers if first is None else first,
        numbers if last is None else last,
        counts if counts is not None and rows else words,
        numbers,
        x if size else numbers.view(torch.float32),
        [
            dim,
            form,
            size,
            rows,
            *lengths,
            parts.span,
            tallied.span,
            tallied.count,
            -1 if k is None else k,
        ],
        **parts.grid,
    )
    return Ranges(first, last, counts)
