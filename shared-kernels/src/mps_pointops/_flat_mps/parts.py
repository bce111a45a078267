"""Rows cut into parts, one a threadgroup, which the host adds up when it reads what they found."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

NUMBERS = 4  # as in parts.metal
_THREADS = 256
# Rows of a part at least, and parts at most: a list that is sent with a dispatch has at most 512
# numbers.
_UNIT, _MOST = 64, 256


@dataclass
class Parts:
    """How rows are cut: `count` parts of `span` rows; at least one, which may be empty."""

    span: int
    count: int

    @property
    def grid(self) -> dict[str, int]:
        """Threads of a dispatch, as `launch` takes them."""
        return {"groups": self.count, "group_size": _THREADS}


def parts_of(rows: int) -> Parts:
    """Cut so many rows."""
    span = -(-max(rows, 1) // (_MOST * _UNIT)) * _UNIT
    return Parts(span, max(1, -(-rows // span)))


def running(values: list[int]) -> tuple[list[int], int]:
    """What comes before each value, summed, and the sum of all."""
    before = [0, *accumulate(values)]
    return before, before.pop()
