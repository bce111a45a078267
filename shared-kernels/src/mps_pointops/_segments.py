"""Ragged searches: from batch vectors and ptrs to the rows that each query looks at.

On MPS a few kernels do all of it (`_flat_mps`), on the CPU operators of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mps_pointops._arithmetic import takes_part
from mps_pointops._checks import as_int, check_batch, check_same_size, fail_value, plain
from mps_pointops._edges import Counts
from mps_pointops._flat_mps.parts import NUMBERS, parts_of
from mps_pointops._flat_mps.ranges import BATCH, EQUAL, POINTER, order_of, ranges_mps
from mps_pointops._flat_names import Names
from mps_pointops._ragged import (
    Facts,
    Judge,
    check_ptr,
    cumulative,
    judge_batch,
    judge_ptr,
    ranges_of_ptr,
)
from mps_pointops._rules import Rule


@dataclass
class Segments:
    """For every query the rows of the reference set that it looks at.

    Attributes:
        first: First row [M], int64; None: all rows.
        last: Row after the last [M], int64; None likewise.
        facts: What was not known on the host about the tensors that told clouds apart.
        counts: Neighbours that each query can have, if they were asked for.
        clouds: About how many clouds there are, on MPS, where kernels are chosen by their size;
            known once the facts are fetched.

    Batch vectors and ptrs that are not in order give wrong ranges inside the input, never outside.
    """

    first: Tensor | None
    last: Tensor | None
    facts: Facts
    counts: Counts
    clouds: int = 1


@dataclass
class _Told:
    """How clouds are told apart: a form, a list a side, and what lists must be like."""

    form: int
    lists: tuple[Tensor | None, Tensor | None] = (None, None)
    judges: list[tuple[int, Judge]] = field(default_factory=list)


def segments(
    names: Names,
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None,
    batch_y: Tensor | None,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    batch_size: int | None = None,
    *,
    k: int | None = None,
    rule: int = 0,
) -> Segments:
    """Which rows of `x` belong to the cloud of each row of `y`; reads nothing from the device.

    A side without batch vector is cloud 0. With `k` neighbours are counted too: points of the
    query's cloud that take part under `rule`, at most `k`, and none for a query that does not take
    part.
    """
    op = names.op
    if batch_size is not None:
        batch_size = as_int(op, "batch_size", batch_size)
    if ptr_x is not None or ptr_y is not None:
        if batch_x is not None or batch_y is not None:
            name = "ptr_y" if ptr_x is None else "ptr_x"
            fail_value(op, name, "None when a batch vector is given", "both", "give one of them")
        told = _by_ptr(names, x, y, ptr_x, ptr_y, batch_size)
    else:
        told = _by_batch(names, x, y, batch_x, batch_y, batch_size)
    if x.device.type == "cpu":
        return _segments_cpu(Facts(op), x, y, told, k, Rule(rule))
    return _segments_mps(Facts(op), x, y, told, k, Rule(rule))


def _by_batch(
    names: Names,
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None,
    batch_y: Tensor | None,
    batch_size: int | None,
) -> _Told:
    op, both = names.op, (names.batch_x, names.batch_y)
    if batch_x is None and batch_y is None:
        if batch_size is not None and batch_size != 1 and (len(x) or len(y)):
            given = " and ".join(dict.fromkeys(both))
            fail_value(
                op, "batch_size", "1 without batch vectors", str(batch_size), f"give {given} too"
            )
        return _Told(EQUAL)
    lists: list[Tensor | None] = []
    judges: list[tuple[int, Judge]] = []
    sides = ((batch_x, x, names.x), (batch_y, y, names.y))
    for side, (batch, points, points_name) in enumerate(sides):
        if side == 1 and batch is batch_x and y is x:  # one set in itself
            lists.append(lists[0])
            continue
        if batch is not None:
            batch = plain(check_batch(op, both[side], batch, points, points_name), torch.int64)
            if batch.shape[0]:
                judges.append((side, judge_batch(op, both[side], batch_size)))
        lists.append(batch)
    for side, points in enumerate((x, y)):
        other = lists[1 - side]
        if lists[side] is None and points.shape[0] and other is not None and other.shape[0]:
            judges.append((1 - side, _judge_missing(op, both[side], both[1 - side])))
    return _Told(BATCH, (lists[0], lists[1]), judges)


def _judge_missing(op: str, name: str, other_name: str) -> Judge:
    """Points without batch vector are cloud 0, so the other side must have no other clouds."""

    def judge(ordered: int, lowest: int, highest: int) -> None:
        if highest > 0:
            fail_value(op, name, f"given, as {other_name} has several clouds", "None")

    return judge


def _by_ptr(
    names: Names,
    x: Tensor,
    y: Tensor,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    batch_size: int | None,
) -> _Told:
    op = names.op
    if ptr_x is None or ptr_y is None:
        name, other = ("ptr_x", "ptr_y") if ptr_x is None else ("ptr_y", "ptr_x")
        fail_value(op, name, f"given, as {other} is", "None")
    ptr_x = check_ptr(op, "ptr_x", ptr_x, names.x, x)
    ptr_y = check_ptr(op, "ptr_y", ptr_y, names.y, y)
    check_same_size(op, "ptr_y", "length", ptr_y.shape[0], "ptr_x", ptr_x.shape[0])
    clouds = ptr_x.shape[0] - 1
    if batch_size is not None:
        check_same_size(op, "batch_size", "number of clouds", batch_size, "ptr_x", clouds)
    judges = [
        (0, judge_ptr(op, "ptr_x", x.shape[0])),
        (1, judge_ptr(op, "ptr_y", y.shape[0])),
    ]
    return _Told(POINTER, (ptr_x, ptr_y), judges)


def _segments_cpu(
    facts: Facts, x: Tensor, y: Tensor, told: _Told, k: int | None, rule: Rule
) -> Segments:
    for side, judge in told.judges:
        values = told.lists[side]
        assert values is not None
        ordered = (values[1:] >= values[:-1]).all()
        facts.add(judge, ordered, values[0], values[-1])
    first = last = None
    if told.form == BATCH:
        batch_x, batch_y = (
            points.new_zeros(points.shape[0], dtype=torch.int64) if batch is None else batch
            for batch, points in zip(told.lists, (x, y), strict=True)
        )
        first = torch.searchsorted(batch_x, batch_y)
        last = torch.searchsorted(batch_x, batch_y, right=True)
    elif told.form == POINTER:
        ptr_x, ptr_y = told.lists
        assert ptr_x is not None
        assert ptr_y is not None
        # without clouds there are no points, or the ptr is wrong
        if ptr_x.shape[0] > 1:
            first, last, _ = ranges_of_ptr(ptr_y, y.shape[0], ptr_x, x.shape[0])
    counts = Counts(x.new_empty(0, dtype=torch.int64))
    if k is not None:
        before = cumulative(takes_part(x, rule).to(torch.int64))
        inside = (
            before[x.shape[0] if last is None else last] - before[0 if first is None else first]
        )
        counts.rows = torch.where(takes_part(y, rule), inside.clamp(min=0, max=k), 0)
        facts.add(counts.take_sums, counts.rows.sum(), counts.rows.max())
    return Segments(first, last, facts, counts)


def _segments_mps(
    facts: Facts, x: Tensor, y: Tensor, told: _Told, k: int | None, rule: Rule
) -> Segments:
    counts = Counts(x)  # rows: below, if they are asked for
    if told.form == EQUAL and k is None:
        return Segments(None, None, facts, counts)
    form = told.form
    if form == POINTER and told.lists[0] is not None and told.lists[0].shape[0] == 1:
        form = EQUAL  # no clouds: there are no points, or the ptr is wrong
    lengths = [0 if given is None else given.shape[0] for given in told.lists]
    parts = parts_of(max(y.shape[0], *lengths))
    counts.span, ends = parts.span, parts.count * NUMBERS
    where = Segments(None, None, facts, counts)

    def take(numbers: list[int]) -> None:
        order = order_of(numbers, parts)
        for side, judge in told.judges:
            judge(*order[side])
            found = order[side][-1] + 1 if form == BATCH else lengths[side] - 1
            where.clouds = max(where.clouds, min(found, x.shape[0]))
        if k is not None:
            counts.take_parts(numbers[:ends])

    room = facts.add_room(take, ends + 4, x)
    found = ranges_mps(x, y, *told.lists, form, k, rule is Rule.COSINE, parts, room)
    if found.counts is not None:
        counts.rows = found.counts
    where.first, where.last = found.first, found.last
    return where
