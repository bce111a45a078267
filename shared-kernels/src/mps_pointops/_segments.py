"""Ragged searches: from batch vectors to ranges of rows, from padded neighbours to edges.

On MPS a few kernels do all of it (`_flat_mps`), on the CPU operators of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mps_pointops._arithmetic import takes_part
from mps_pointops._checks import as_int, check_batch, check_same_size, fail_value, plain
from mps_pointops._flat_mps.edges import count_edges_mps, write_edges_mps
from mps_pointops._flat_mps.parts import NUMBERS, parts_of, running
from mps_pointops._flat_mps.ranges import BATCH, EQUAL, POINTER, order_of, ranges_mps
from mps_pointops._flat_names import Names
from mps_pointops._ragged import Facts, Judge, check_ptr, cumulative, judge_batch, judge_ptr
from mps_pointops._rules import Rule


@dataclass
class Counts:
    """How many edges every row gives.

    Attributes:
        rows: Edges a row [M], int64 on the CPU, int32 on MPS.
        own: Slot [M] of each row that is passed over; None: none is.
        span: On MPS, rows of a part.
        total: Edges in all; known once the facts are fetched, as what follows.
        most: Edges of the row with most.
        begins: On MPS, edges before each part of the rows.
        parts: On MPS, what each part found.
    """

    rows: Tensor
    own: Tensor | None = None
    span: int = 0
    total: int = 0
    most: int = 0
    begins: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)

    def take_sums(self, total: int, most: int) -> None:
        """The sum and the largest."""
        self.total, self.most = total, most

    def take_parts(self, numbers: list[int]) -> None:
        """What the parts of the rows found."""
        self.parts = numbers
        self.begins, self.total = running(numbers[::NUMBERS])
        self.most = max(numbers[1::NUMBERS])

    def take_whole_clouds(self, available: Counts) -> None:
        """Every row has all points of its cloud, and passes over its own if it has any."""
        sums, taking_part = available.parts[::NUMBERS], available.parts[3::NUMBERS]
        parts = [s - n for s, n in zip(sums, taking_part, strict=True)]
        self.begins, self.total = running(parts)


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
        clouds = ptr_x.shape[0] - 1
        # without clouds there are no points, or the ptr is wrong
        if clouds:
            row = torch.arange(y.shape[0], device=y.device)
            cloud = (torch.searchsorted(ptr_y, row, right=True) - 1).clamp(min=0, max=clouds - 1)
            inside = ptr_x.clamp(min=0, max=x.shape[0])
            first, last = inside[cloud], inside[cloud + 1]
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


def count_edges(facts: Facts, found: Tensor, *, graph: bool = False) -> Counts:
    """Edges of every row of `found`: neighbours [M, K], the found ones first, or their number [M].

    `graph`: the row's own number is passed over where it is among its neighbours. Sums are known
    when the facts have been fetched.
    """
    if found.device.type != "cpu":
        parts = parts_of(found.shape[0])
        counts = Counts(found, span=parts.span)
        room = facts.add_room(counts.take_parts, parts.count * NUMBERS, found)
        counts.rows, counts.own = count_edges_mps(found, graph, parts, room)
        return counts
    rows = (found >= 0).sum(dim=1) if found.dim() == 2 else found
    counts = Counts(rows)
    if graph:
        counts.own = _own_slot(found)
        counts.rows = rows - (counts.own < rows).to(torch.int64)
    facts.add(counts.take_sums, counts.rows.sum(), counts.rows.max())
    return counts


def _own_slot(index: Tensor) -> Tensor:
    """Where every point stands among its own neighbours [N]; K if it does not."""
    size, slots = index.shape
    row = torch.arange(size, device=index.device).unsqueeze(1)
    slot = torch.arange(slots, dtype=torch.int32, device=index.device)
    return torch.where(index == row, slot, slots).amin(dim=1)


def edges(index: Tensor, counts: Counts, *, reverse: bool = False) -> Tensor:
    """Padded neighbours [M, K] as edges [2, total], of counts whose sums are known.

    Row 0 is the row of `index`, row 1 the neighbour; `reverse`: the other way round.
    """
    if index.device.type != "cpu":
        return write_edges_mps(
            index, counts.rows, counts.own, counts.total, counts.begins, counts.span, reverse
        )
    pair = _edges_cpu(index, counts)
    return torch.stack(pair[::-1] if reverse else pair)


def _edges_cpu(index: Tensor, counts: Counts) -> tuple[Tensor, Tensor]:
    rows, slots = index.shape
    if counts.total == rows * slots:
        row = torch.arange(rows, device=index.device).unsqueeze(1).expand(rows, slots)
        return row.reshape(-1), index.reshape(-1)
    number = torch.arange(counts.total, device=index.device)
    ends = counts.rows.cumsum(0)
    row = torch.searchsorted(ends, number, right=True)
    slot = number - (ends - counts.rows)[row]
    if counts.own is not None:
        slot = slot + (slot >= counts.own[row]).to(torch.int64)
    return row, index.reshape(-1)[row * slots + slot]
