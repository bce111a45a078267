"""Clouds of different sizes: what the host has to know of them.

The device is read at most once a call. Sizes, and whether the input was in order, are computed on
the device and fetched together.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mps_pointops._checks import check_same_device, fail_type, fail_value, plain

# Given whether a list ascends, its first and its last number, raises what is wrong with it.
Judge = Callable[[int, int, int], None]

# Numbers that fit in what is read at once: those of two passes over 256 parts.
_ROOM = 4096


def is_sorted(values: Tensor) -> Tensor:
    """Whether values [n] ascend: [], int64, on their device."""
    return (values[1:] >= values[:-1]).all().to(torch.int64)


def fetch(facts: list[Tensor]) -> list[int]:
    """Integers of the device, of any shape, one after the other, in one read."""
    flat = [plain(fact.reshape(-1) if fact.dim() != 1 else fact, torch.int64) for fact in facts]
    read: list[int] = (flat[0] if len(flat) == 1 else torch.cat(flat)).tolist()
    return read


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
        hint = "if it was made of a batch vector, sort the points by that first" if begin else ""
        fail_value(op, name, f"ascending from 0 to {size}", got, hint)


def check_ptr(op: str, name: str, ptr: Tensor, points_name: str, points: Tensor) -> Tensor:
    """Where clouds begin, as contiguous int64 [B + 1]; what it holds is checked by the caller."""
    check_same_device(op, name, ptr, points_name, points)
    if ptr.dtype not in (torch.int64, torch.int32) or ptr.dim() != 1 or ptr.shape[0] < 1:
        got = f"{ptr.dtype} of shape {list(ptr.shape)}"
        fail_type(op, name, "int64 or int32 of shape [B + 1]", got)
    return plain(ptr, torch.int64)


def judge_batch(op: str, name: str, clouds: int | None) -> Judge:
    """A batch vector must be sorted, from 0, below the number of clouds if that is known."""

    def judge(ordered: int, lowest: int, highest: int) -> None:
        check_order(op, name, ordered, lowest)
        if clouds is not None:
            check_number(op, name, highest, clouds)

    return judge


def judge_ptr(op: str, name: str, size: int) -> Judge:
    """A ptr must ascend from 0 to the number of points."""

    def judge(ordered: int, begin: int, end: int) -> None:
        check_ends(op, name, ordered, begin, end, size)

    return judge


def ranges_of_ptr(
    ptr: Tensor, rows: int, ptr_other: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """For each of `rows` rows the rows of the other set, of `size`, that are of the same cloud.

    Args:
        ptr: Where at least one cloud begins in the rows [B + 1], int64.
        rows: How many rows there are.
        ptr_other: Where the clouds begin in the other set [B + 1].
        size: Rows of the other set. Ptrs that do not ascend give wrong ranges, but inside it.

    Returns:
        First row, row after the last and number of the cloud, int64 [rows] each.
    """
    row = torch.arange(rows, device=ptr.device)
    cloud = torch.searchsorted(ptr, row, right=True) - 1
    cloud = cloud.clamp(min=0, max=ptr.shape[0] - 2)
    inside = ptr_other.clamp(min=0, max=size)
    return inside[cloud], inside[cloud + 1], cloud


def cumulative(counts: Tensor) -> Tensor:
    """Where each part begins [n + 1]: 0 and the running sum."""
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


class Facts:
    """What the host has to know about tensors of the device, and what it then raises."""

    def __init__(self, op: str) -> None:
        self.op = op
        self._tensors: list[Tensor] = []
        self._takers: list[tuple[bool, int, Callable[[list[int]], None]]] = []
        self._room: Tensor | None = None
        self._used = 0

    def add(self, judge: Callable[..., None], *facts: Tensor) -> None:
        """`judge` is called with the fetched facts [], in the order of the calls of `add`."""
        self._tensors += facts
        self._takers.append((False, len(facts), lambda values: judge(*values)))

    def add_room(self, take: Callable[[list[int]], None], count: int, like: Tensor) -> Tensor:
        """Room for `count` numbers, int64, on a device; `take` is called with them, likewise."""
        if self._room is None:
            self._room = torch.empty(_ROOM, dtype=torch.int64, device=like.device)
        begin, self._used = self._used, self._used + count
        if self._used > _ROOM:
            raise RuntimeError(f"{self.op}: {self._used} facts, where there is room for {_ROOM}")
        self._takers.append((True, count, take))
        return self._room.as_strided((count,), (1,), begin)

    def add_batch(self, name: str, batch: Tensor, clouds: int | None) -> None:
        """A batch vector must be sorted, from 0, below the number of clouds if that is known."""
        if batch.shape[0]:
            judge = judge_batch(self.op, name, clouds)
            self.add(judge, is_sorted(batch), batch[0], batch[-1])

    def add_ptr(self, name: str, ptr: Tensor, size: int) -> None:
        """A ptr must ascend from 0 to the number of points."""
        self.add(judge_ptr(self.op, name, size), is_sorted(ptr), ptr[0], ptr[-1])

    def fetch(self, *wanted: Tensor) -> list[int]:
        """Values [] of `wanted`, in the one read that also brings the facts; raises what they tell.

        There is no read if there is nothing to know. Facts are fetched once.
        """
        tensors, takers = [*wanted, *self._tensors], self._takers
        if self._room is not None and self._used:
            tensors = [self._room.as_strided((self._used,), (1,)), *tensors]
        at, room_at = self._used + len(wanted), 0
        self._tensors, self._takers, self._room, self._used = [], [], None, 0
        values = fetch(tensors) if tensors else []
        found = values[at - len(wanted) : at]
        for in_room, count, take in takers:
            if in_room:
                take(values[room_at : room_at + count])
                room_at += count
            else:
                take(values[at : at + count])
                at += count
        return found
