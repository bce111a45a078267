"""k nearest neighbours on CPU tensors by looking at every pair, in blocks of bounded memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import mps_pointops._cpu.rows as rows
from mps_pointops._arithmetic import bits_distance, takes_part
from mps_pointops._cpu import pairs
from mps_pointops._rules import Rule

_NONE = 2**63 - 1  # above the key of every distance


def by_pairs(
    query: Tensor,
    ref: Tensor,
    found: rows.Runs,
    k: int,
    rule: Rule,
    distance: Tensor,
    index: Tensor,
) -> None:
    """Write neighbours of the rows of all runs: squared distances and rows of `ref` [M, k]."""
    takes, possible = takes_part(query, rule), takes_part(ref, rule)
    windows = rows.Windows(ref, int(found.sizes.max()))
    # twice what rounding in any order can change, and what is lost in subnormal numbers
    relative = (ref.shape[1] + 4) * 2.0**-21
    for block in rows.blocks(found):
        count = min(k, block.size)
        if ref.dtype == torch.float64:
            d, i = _nearest_in_double(query, takes, possible, windows, block, count)
        else:
            rough = windows.rough_distance(query[block.row], block.low, block.size)
            row, number = near(rough, block, count, relative, 2.0**-120).nonzero(as_tuple=True)
            number += block.low[row]
            kept = possible[number] & takes[block.row[row]]
            row, number = row[kept], number[kept]
            d2 = pairs.listed_distance(
                query.numpy(), ref.numpy(), block.row[row].numpy(), number.numpy(), rule
            )
            bits = torch.from_numpy(d2.view(np.int32)).to(torch.int64)
            d, i = smallest(row, number, bits, len(block.row), count)
        distance[block.row, :count], index[block.row, :count] = d, i


def near(rough: Tensor, block: rows.Block, count: int, relative: float, absolute: float) -> Tensor:
    """Pairs [rows, size] that hold those of the `count` smallest distances of every row.

    Args:
        rough: Distances [rows, size]; where NaN they are not known, and the pair is always near.
        block: The rows.
        count: At least one.
        relative: Distances may be larger than those in `rough` by this part of them.
        absolute: And by so much more.
    """
    inside = torch.arange(block.size, device="cpu") < (block.high - block.low).unsqueeze(1)
    unknown = torch.isnan(rough)
    rough = torch.where(inside & ~unknown, rough, torch.inf)
    worst = torch.from_numpy(np.partition(rough.numpy(), count - 1, axis=1)[:, count - 1 : count])
    return ((rough <= worst * (1.0 + relative) + absolute) | unknown) & inside


def smallest(
    row: Tensor, number: Tensor, bits: Tensor, count_rows: int, count: int
) -> tuple[Tensor, Tensor]:
    """The first `count` pairs of every row [rows, count] in the order (distance, number).

    Pairs come row by row; `bits`: of `distance_bits`.
    """
    counts = torch.bincount(row, minlength=count_rows)
    slot = torch.arange(len(row), device="cpu") - (counts.cumsum(0) - counts)[row]
    keys = bits.new_full((count_rows, max(count, int(counts.max()))), _NONE)
    keys[row, slot] = bits << 32 | number
    best = keys.numpy()
    if best.shape[1] > 2 * count:
        best = np.partition(best, count - 1, axis=1)[:, :count]
    chosen = torch.from_numpy(np.sort(best, axis=1)[:, :count])
    has_any = chosen < _NONE
    distance = torch.where(has_any, bits_distance(chosen >> 32), torch.inf)
    return distance, torch.where(has_any, chosen & 0xFFFFFFFF, -1)


def _nearest_in_double(
    query: Tensor,
    takes: Tensor,
    possible: Tensor,
    windows: rows.Windows,
    block: rows.Block,
    count: int,
) -> tuple[Tensor, Tensor]:
    """The same in float64, where a distance and an index do not fit in one integer."""
    total = query.new_empty(0)
    for d, q in enumerate(query[block.row].t()):
        square = (q.unsqueeze(1) - windows.coordinate(d, block.low, block.size)).square_()
        total = total.add_(square) if d else square
    number = block.low.unsqueeze(1) + torch.arange(block.size, device="cpu")
    inside = (number < block.high.unsqueeze(1)) & takes[block.row].unsqueeze(1)
    inside &= possible[number.clamp(max=len(possible) - 1)]
    return select(total, number, inside, count)


def select(distance: Tensor, number: Tensor, inside: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The first `count` of the pairs that are `inside` [rows, size], in order; then (inf, -1)."""
    count = min(count, distance.shape[1])
    places = inside.sum(dim=1, keepdim=True).clamp(max=count)
    distance = torch.where(inside, distance, torch.nan)  # NaN comes last
    best = distance.topk(count, dim=1, largest=False).values
    worst = best.gather(1, (places - 1).clamp(min=0))
    # all that are nearer than the last place, then the first of those as far as it
    nearer, tied = distance < worst, distance == worst
    free = places - nearer.sum(dim=1, keepdim=True)
    row, column = (nearer | (tied & (tied.cumsum(dim=1) <= free))).nonzero(as_tuple=True)
    slot = torch.arange(len(row), device="cpu") - (places.cumsum(0) - places)[row, 0]
    chosen = distance.new_full(best.shape, torch.inf)
    index = number.new_full(best.shape, -1)
    chosen[row, slot] = distance[row, column]
    index[row, slot] = number.expand_as(distance)[row, column]
    has_any = index >= 0
    chosen, order = torch.where(has_any, chosen, torch.nan).sort(dim=1, stable=True)
    index = index.gather(1, order)
    return torch.where(index >= 0, chosen, torch.inf), index
