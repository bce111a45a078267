"""Clouds of different sizes: from batch vectors to ranges, from padded results to edges.

The device is read at most once a call. What has to be known on the host, sizes and whether the
input was in order, is computed on the device and fetched together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._arithmetic import takes_part
from mps_pointops._checks import (
    as_int,
    check_batch,
    check_same_device,
    check_same_size,
    fail_type,
    fail_value,
)
from mps_pointops._rules import Rule


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


def check_number(op: str, name: str, highest: int, clouds: int) -> None:
    """Cloud numbers must be below the number of clouds."""
    if highest >= clouds:
        fail_value(op, name, f"below the number of clouds ({clouds})", f"a cloud {highest}")


def check_ends(op: str, name: str, ordered: int, begin: int, end: int, size: int) -> None:
    """A ptr must ascend from 0 to the number of points."""
    if begin != 0 or end != size or not ordered:
        got = f"{begin} to {end}" if ordered else "values that descend"
        fail_value(op, name, f"ascending from 0 to {size}", got)


def check_ptr(op: str, name: str, ptr: Tensor, points_name: str, points: Tensor) -> Tensor:
    """Where clouds begin, as contiguous int64 [B + 1]; what it holds is checked by the caller."""
    check_same_device(op, name, ptr, points_name, points)
    if ptr.dtype not in (torch.int64, torch.int32) or ptr.dim() != 1 or ptr.shape[0] < 1:
        got = f"{ptr.dtype} of shape {list(ptr.shape)}"
        fail_type(op, name, "int64 or int32 of shape [B + 1]", got)
    return ptr.detach().to(torch.int64).contiguous()


def cumulative(counts: Tensor) -> Tensor:
    """Where each part begins [n + 1]: 0 and the running sum."""
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


class Facts:
    """What the host has to know about tensors of the device, and what it then raises."""

    def __init__(self, op: str) -> None:
        self.op = op
        self._tensors: list[Tensor] = []
        self._judges: list[tuple[int, Callable[..., None]]] = []

    def add(self, judge: Callable[..., None], *facts: Tensor) -> None:
        """`judge` is called with the fetched facts, in the order of the calls of `add`."""
        self._tensors += facts
        self._judges.append((len(facts), judge))

    def add_batch(self, name: str, batch: Tensor, clouds: int | None) -> None:
        """A batch vector must be sorted, from 0, below the number of clouds if that is known."""

        def judge(ordered: int, lowest: int, highest: int) -> None:
            check_order(self.op, name, ordered, lowest)
            if clouds is not None:
                check_number(self.op, name, highest, clouds)

        if batch.shape[0]:
            self.add(judge, is_sorted(batch), batch[0], batch[-1])

    def add_ptr(self, name: str, ptr: Tensor, size: int) -> None:
        """A ptr must ascend from 0 to the number of points."""

        def judge(ordered: int, begin: int, end: int) -> None:
            check_ends(self.op, name, ordered, begin, end, size)

        self.add(judge, is_sorted(ptr), ptr[0], ptr[-1])

    def fetch(self, *wanted: Tensor) -> list[int]:
        """Values of `wanted`, in the one read that also brings the facts; raises what they tell."""
        tensors = [*wanted, *self._tensors]
        values = fetch(tensors) if tensors else []
        at = len(wanted)
        for count, judge in self._judges:
            judge(*values[at : at + count])
            at += count
        return values[: len(wanted)]


@dataclass
class Segments:
    """For every query the rows of the reference set that it looks at.

    Attributes:
        first: First row [M], int64; None: all rows.
        last: Row after the last [M], int64; None likewise.
        facts: What was not known on the host about the tensors that told clouds apart.

    Batch vectors and ptrs that are not in order give wrong ranges inside the input, never outside.
    """

    first: Tensor | None
    last: Tensor | None
    facts: Facts


def segments(
    op: str,
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None,
    batch_y: Tensor | None,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    batch_size: int | None = None,
) -> Segments:
    """Which rows of `x` belong to the cloud of each row of `y`; reads nothing from the device.

    A side without batch vector is cloud 0.
    """
    if batch_size is not None:
        batch_size = as_int(op, "batch_size", batch_size)
    if ptr_x is not None or ptr_y is not None:
        if batch_x is not None or batch_y is not None:
            name = "ptr_y" if ptr_x is None else "ptr_x"
            fail_value(op, name, "None when a batch vector is given", "both", "give one of them")
        return _from_ptr(op, x, y, ptr_x, ptr_y, batch_size)
    facts = Facts(op)
    if batch_x is not None:
        batch_x = check_batch(op, "batch_x", batch_x, x, "x").detach().to(torch.int64).contiguous()
        facts.add_batch("batch_x", batch_x, batch_size)
    if batch_y is not None:
        batch_y = check_batch(op, "batch_y", batch_y, y, "y").detach().to(torch.int64).contiguous()
        facts.add_batch("batch_y", batch_y, batch_size)
    _check_missing(facts, "batch_x", batch_x, x, "batch_y", batch_y)
    _check_missing(facts, "batch_y", batch_y, y, "batch_x", batch_x)
    if batch_x is None and batch_y is None:
        if batch_size is not None and batch_size != 1 and (len(x) or len(y)):
            hint = "give batch_x and batch_y too"
            fail_value(op, "batch_size", "1 without batch vectors", str(batch_size), hint)
        return Segments(None, None, facts)
    if batch_x is None:
        batch_x = x.new_zeros(x.shape[0], dtype=torch.int64)
    if batch_y is None:
        batch_y = y.new_zeros(y.shape[0], dtype=torch.int64)
    first = torch.searchsorted(batch_x, batch_y)
    last = torch.searchsorted(batch_x, batch_y, right=True)
    return Segments(first, last, facts)


def _check_missing(
    facts: Facts,
    name: str,
    batch: Tensor | None,
    points: Tensor,
    other_name: str,
    other: Tensor | None,
) -> None:
    """Points without batch vector are cloud 0, so the other side must have no other clouds."""

    def judge(highest: int) -> None:
        if highest > 0:
            wanted = f"given, as {other_name} has several clouds"
            fail_value(facts.op, name, wanted, "None")

    if batch is None and points.shape[0] and other is not None and other.shape[0]:
        facts.add(judge, other[-1])


def _from_ptr(
    op: str,
    x: Tensor,
    y: Tensor,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    batch_size: int | None,
) -> Segments:
    if ptr_x is None or ptr_y is None:
        name, other = ("ptr_x", "ptr_y") if ptr_x is None else ("ptr_y", "ptr_x")
        fail_value(op, name, f"given, as {other} is", "None")
    ptr_x, ptr_y = check_ptr(op, "ptr_x", ptr_x, "x", x), check_ptr(op, "ptr_y", ptr_y, "y", y)
    check_same_size(op, "ptr_y", "length", ptr_y.shape[0], "ptr_x", ptr_x.shape[0])
    clouds = ptr_x.shape[0] - 1
    if batch_size is not None:
        check_same_size(op, "batch_size", "number of clouds", batch_size, "ptr_x", clouds)
    facts = Facts(op)
    facts.add_ptr("ptr_x", ptr_x, x.shape[0])
    facts.add_ptr("ptr_y", ptr_y, y.shape[0])
    if clouds == 0:  # right if there are no points, and then nothing is searched
        return Segments(None, None, facts)
    row = torch.arange(y.shape[0], device=y.device)
    cloud = (torch.searchsorted(ptr_y, row, right=True) - 1).clamp(min=0, max=clouds - 1)
    inside = ptr_x.clamp(min=0, max=x.shape[0])
    return Segments(inside[cloud], inside[cloud + 1], facts)


def available(x: Tensor, y: Tensor, where: Segments, rule: int = 0) -> Tensor:
    """How many neighbours each row of `y` [M] can have: points of its cloud that take part, int64.

    What takes part depends on `rule`; rows of `y` that do not have no neighbours.
    """
    before = cumulative(takes_part(x, Rule(rule)).to(torch.int64))
    first = 0 if where.first is None else where.first
    last = x.shape[0] if where.last is None else where.last
    return torch.where(takes_part(y, Rule(rule)), (before[last] - before[first]).clamp(min=0), 0)


def edges(index: Tensor, counts: Tensor, total: int, left_out: Tensor | None = None) -> Tensor:
    """Padded neighbours [M, K] as edges [2, total]; `counts` [M] of each row come first in it.

    `left_out`: a place [M] in each row that is passed over; the row is then as if one shorter.
    """
    rows, places = index.shape
    if total == rows * places:
        row = torch.arange(rows, device=index.device).unsqueeze(1).expand(rows, places)
        return torch.stack((row.reshape(-1), index.reshape(-1)))
    number = torch.arange(total, device=index.device)
    ends = counts.cumsum(0)
    row = torch.searchsorted(ends, number, right=True)
    slot = number - (ends - counts)[row]
    if left_out is not None:
        slot = slot + (slot >= left_out[row]).to(torch.int64)
    return torch.stack((row, index.reshape(-1)[row * places + slot]))
