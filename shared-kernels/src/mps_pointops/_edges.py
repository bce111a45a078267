"""Edges of ragged searches: how many every row gives, and padded neighbours as edges.

On MPS a few kernels do all of it (`_flat_mps`), on the CPU operators of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mps_pointops._flat_mps.edges import count_edges_mps, write_edges_mps
from mps_pointops._flat_mps.parts import NUMBERS, parts_of, running
from mps_pointops._ragged import Facts


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
