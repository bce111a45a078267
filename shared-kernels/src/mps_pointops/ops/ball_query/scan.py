"""Ball queries by looking at points in input order, until every query has its K."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

import mps_pointops._cpu.rows as rows
from mps_pointops._arithmetic import squared_distance
from mps_pointops._cpu.pairs import Array, listed_distance
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.hits import Hits
from mps_pointops.ops.ball_query.threshold import Threshold

# points looked at first
FIRST = 4096


def scan(
    query: Tensor,
    ref: Tensor,
    found: rows.Runs,
    limit: Threshold,
    rule: Rule,
    ignore_same_index: bool,
    hits: Hits,
    first: int = FIRST,
    most: int | None = None,
) -> Array:
    """Add the hits of the rows of all runs.

    Args:
        query: Queries [M, D].
        ref: Points [N, D].
        found: What each row looks at.
        limit: What is inside.
        rule: How distances are rounded.
        ignore_same_index: Row i of `ref` is never a hit of query i.
        hits: Where results go; nothing of these rows is in there yet.
        first: Points to look at before asking which rows are done.
        most: Give up rows that are not done after so many points; None: never.

    Returns:
        The rows given up; what was found of them is taken back.
    """
    given_up = [np.zeros(0, np.int64)]
    looked_at = 0
    while len(found):
        piece = rows.Runs(
            found.begin, found.end, found.low, np.minimum(found.low + first, found.high)
        )
        windows = rows.Windows(ref, int(piece.sizes.max()))
        exact = limit.scale != 1.0 or query.dtype == torch.float64
        for block in rows.blocks(piece, pairs=rows.PAIRS // ref.shape[1] if exact else rows.PAIRS):
            if exact:
                inside = _inside_exactly(query, windows, block, limit, rule)
            else:
                inside = _inside(query, ref, windows, block, limit, rule)
            number = block.low.unsqueeze(1) + torch.arange(block.size, device="cpu")
            inside &= number < block.high.unsqueeze(1)
            if ignore_same_index:
                inside &= number != block.row.unsqueeze(1)
            _add(hits, query, ref, block, inside, rule)
        looked_at += first
        found = found.only(found.low + first < found.high)
        found.low = found.low + first
        if len(found) and int(found.sizes.max()) + looked_at > hits.K:
            found = _open_rows(found, hits)
        if most is not None and most <= looked_at and len(found):
            given_up.append(found.begin)
            break
        first *= 4
    gone = np.concatenate(given_up)
    hits.clear(gone)
    return gone


def _open_rows(found: rows.Runs, hits: Hits) -> rows.Runs:
    """Runs of one row each, of those that have free slots."""
    sizes = found.rows
    row = np.repeat(found.begin - (sizes.cumsum() - sizes), sizes) + np.arange(int(sizes.sum()))
    kept = (hits.counts.numpy() < hits.K)[row]
    low, high = np.repeat(found.low, sizes)[kept], np.repeat(found.high, sizes)[kept]
    return rows.Runs(row[kept], row[kept] + 1, low, high)


def _add(
    hits: Hits,
    query: Tensor,
    ref: Tensor,
    block: rows.Block,
    inside: Tensor,
    rule: Rule,
) -> None:
    before = hits.counts[block.row]
    hits.counts[block.row] = (before + inside.sum(dim=1)).clamp(max=hits.K)
    if hits.index is None:
        return
    which, column = inside.nonzero(as_tuple=True)
    counts = torch.bincount(which, minlength=len(inside))
    slot = torch.arange(len(which), device="cpu") - (counts.cumsum(0) - counts - before)[which]
    kept = slot < hits.K
    which, column, slot = which[kept], column[kept], slot[kept]
    row, number = block.row[which], block.low[which] + column
    if hits.begin is not None:
        hits.index[hits.begin[row] + slot] = number
        return
    hits.index[row, slot] = number
    if hits.distance is not None:
        hits.distance[row, slot] = _distance(query, ref, row, number, rule)


def _inside(
    query: Tensor,
    ref: Tensor,
    windows: rows.Windows,
    block: rows.Block,
    limit: Threshold,
    rule: Rule,
) -> Tensor:
    """Which of the pairs [rows, size] are inside: a quick sum first, the rule where it is close."""
    rough = windows.rough_distance(query[block.row], block.low, block.size)
    # rounding in any order changes a sum of D squares by less than this part of it
    margin = (ref.shape[1] + 4) * 2.0**-22
    inside = rough < limit.squared * (1.0 - margin)
    close = (rough <= limit.squared * (1.0 + margin)) & ~inside
    row, column = close.nonzero(as_tuple=True)
    number = block.low[row] + column
    kept = number < len(ref)
    row, column, number = row[kept], column[kept], number[kept]
    d2 = _distance(query, ref, block.row[row], number, rule)
    inside[row, column] = d2 < limit.squared
    return inside


def _distance(query: Tensor, ref: Tensor, row: Tensor, number: Tensor, rule: Rule) -> Tensor:
    """Squared distances [m] of the queries of rows [m] and the points of numbers [m]."""
    q, p, i, j = (t.numpy() for t in (query, ref, row, number))
    return torch.from_numpy(listed_distance(q, p, i, j, rule))


def _inside_exactly(
    query: Tensor,
    windows: rows.Windows,
    block: rows.Block,
    limit: Threshold,
    rule: Rule,
) -> Tensor:
    """The same where flushing decides, and in float64, where the rule is quick."""
    points = [windows.coordinate(d, block.low, block.size) for d in range(query.shape[1])]
    centres = query[block.row].unsqueeze(1)
    d2 = squared_distance(centres, torch.stack(points, dim=-1), rule, limit.scale)
    return d2 < limit.squared
