"""Clouds of different sizes: from batch vectors to ranges, from padded results to edges.

The device is read at most once a call. What has to be known on the host, sizes and whether the
input was in order, is computed on the device and fetched together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._checks import fail_value


def is_sorted(values: Tensor) -> Tensor:
    """Whether values [n] ascend: [], int64, on their device."""
    return (values[1:] >= values[:-1]).all().to(torch.int64)


def fetch(facts: list[Tensor]) -> list[int]:
    """Integers [] of the device, in one read."""
    return torch.stack([fact.to(torch.int64) for fact in facts]).tolist()


def check_order(op: str, name: str, ordered: int, lowest: int) -> None:
    """A batch vector must be sorted, from 0."""
    if not ordered:
        hint = "sort the points by it first"
        fail_value(op, name, "sorted in ascending order", "values that descend", hint)
    if lowest < 0:
        fail_value(op, name, "cloud numbers from 0", str(lowest))


def cumulative(counts: Tensor) -> Tensor:
    """Where each part begins [n + 1]: 0 and the running sum."""
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


@dataclass
class Segments:
    """For every query the rows of the reference set that it looks at.

    Attributes:
        first: First row [M], int64; None: all rows.
        last: Row after the last [M], int64; None likewise.
        batches: The batch vectors that were given, by name; `edges` checks their order.
    """

    first: Tensor | None
    last: Tensor | None
    batches: dict[str, Tensor]

    def facts(self) -> list[Tensor]:
        """What tells whether the batch vectors are in order."""
        found = []
        for batch in self.batches.values():
            found += [is_sorted(batch), batch[0]]
        return found

    def check(self, op: str, facts: list[int]) -> None:
        """Raise for the first batch vector that is not in order."""
        for name, ordered, lowest in zip(self.batches, facts[::2], facts[1::2], strict=True):
            check_order(op, name, ordered, lowest)


def segments(x: Tensor, y: Tensor, batch_x: Tensor | None, batch_y: Tensor | None) -> Segments:
    """Which rows of `x` belong to the cloud of each row of `y`.

    Vectors that are not sorted give wrong ranges inside the input, never outside.
    """
    given = {"batch_x": batch_x, "batch_y": batch_y}
    batches = {name: batch for name, batch in given.items() if batch is not None and len(batch)}
    if batch_x is None and batch_y is None:
        return Segments(None, None, batches)
    if batch_x is None:
        batch_x = x.new_zeros(x.shape[0], dtype=torch.int64)
    if batch_y is None:
        batch_y = y.new_zeros(y.shape[0], dtype=torch.int64)
    batch_x, batch_y = batch_x.to(torch.int64).contiguous(), batch_y.to(torch.int64).contiguous()
    first = torch.searchsorted(batch_x, batch_y)
    last = torch.searchsorted(batch_x, batch_y, right=True)
    return Segments(first, last, batches)


def available(x: Tensor, y: Tensor, where: Segments) -> Tensor:
    """How many neighbours each row of `y` [M] can have: the finite points of its cloud, int64."""
    before = cumulative(torch.isfinite(x).all(dim=1).to(torch.int64))
    first = 0 if where.first is None else where.first
    last = x.shape[0] if where.last is None else where.last
    return torch.where(torch.isfinite(y).all(dim=1), (before[last] - before[first]).clamp(min=0), 0)


def edges(index: Tensor, counts: Tensor, total: int) -> Tensor:
    """Padded neighbours [M, K] as edges [2, total]; `counts` [M] of each row come first in it."""
    rows, places = index.shape
    if total == rows * places:
        row = torch.arange(rows, device=index.device).unsqueeze(1).expand(rows, places)
        return torch.stack((row.reshape(-1), index.reshape(-1)))
    number = torch.arange(total, device=index.device)
    ends = counts.cumsum(0)
    row = torch.searchsorted(ends, number, right=True)
    slot = number - (ends - counts)[row]
    return torch.stack((row, index.reshape(-1)[row * places + slot]))
