"""Graphs as rows of edges: order, checks. Work on the device, at most one read-back."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from mps_pointops._checks import MAX_POINTS, fail_value
from mps_pointops._integers import around_zero
from mps_pointops._ragged import fetch, is_sorted
from mps_pointops.ops.inverse_index.inverse_index import stable_order


def _is_read(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" or os.environ.get("MPS_POINTOPS_CHECK_INDICES") == "1"


def _check_range(op: str, name: str, low: int, high: int, size: int | None) -> None:
    if low < 0 or (size is not None and high >= size):
        wanted = "at least 0" if size is None else f"from 0 to {size - 1}"
        got = low if low < 0 else high
        raise IndexError(f"{op}: {name} must be {wanted}, got {got}")


def _fetch_ranges(
    vectors: dict[str, Tensor], facts: list[Tensor]
) -> tuple[dict[str, list[int]], list[int]]:
    """Smallest and largest value, or 0, of each vector that has any, and the facts; one read."""
    filled = {name: around_zero(v) for name, v in vectors.items() if v.shape[0]}
    read = fetch([*(bound for pair in filled.values() for bound in pair), *facts])
    ranges = {name: read[2 * i : 2 * i + 2] for i, name in enumerate(filled)}
    return ranges, read[2 * len(filled) :]


def check_edges(
    op: str, row: Tensor, col: Tensor, start: Tensor, coalesced: bool, num_nodes: int | None
) -> int:
    """Number of nodes; raise for nodes outside and, unless `coalesced`, for rows out of order."""
    vectors = {"row": row, "col": col, "start": start}
    if not any(v.shape[0] for v in vectors.values()):
        return num_nodes or 0
    if num_nodes is not None and not _is_read(row):
        return num_nodes
    ranges, facts = _fetch_ranges(vectors, [] if coalesced else [is_sorted(row)])
    for name, (low, high) in ranges.items():
        _check_range(op, name, low, high, num_nodes)
    if facts and not facts[0]:
        hint = "sort the edges by row, or leave coalesced=True"
        fail_value(op, "row", "sorted in ascending order", "values that descend", hint)
    if num_nodes is None:
        num_nodes = max(high for _, high in ranges.values()) + 1
        if num_nodes > MAX_POINTS:
            fail_value(op, "num_nodes", f"at most {MAX_POINTS}", str(num_nodes))
    return num_nodes


def check_rows(op: str, rowptr: Tensor, col: Tensor, start: Tensor) -> None:
    """Raise for a `rowptr` that is none, and for nodes outside; on MPS only if asked to."""
    if not _is_read(rowptr):
        return
    facts = [rowptr[0], rowptr[-1], is_sorted(rowptr)]
    ranges, (begin, end, ordered) = _fetch_ranges({"col": col, "start": start}, facts)
    edges = col.shape[0]
    if begin != 0 or end != edges or not ordered:
        got = f"{begin} to {end}" if ordered else "values that descend"
        fail_value(op, "rowptr", f"ascending from 0 to the length of col ({edges})", got)
    for name, (low, high) in ranges.items():
        _check_range(op, name, low, high, rowptr.shape[0] - 1)


def row_begins(row: Tensor, num_nodes: int) -> Tensor:
    """Where the edges of each node begin [num_nodes + 1], int32; `row` is sorted."""
    number = torch.arange(num_nodes + 1, dtype=row.dtype, device=row.device)
    return torch.searchsorted(row.contiguous(), number).to(torch.int32)


def sort_edges(row: Tensor, col: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Edges by (row, col), int32, and where each was; equal edges keep their order."""
    if row.device.type == "cpu":
        keys = row.to(torch.int64) * num_nodes + col
        order = torch.argsort(keys, stable=True)
        return row[order].to(torch.int32), col[order].to(torch.int32), order
    highest = max(num_nodes - 1, 0)
    _, order = stable_order(col.to(torch.int32), highest)
    order = order.to(torch.int64)
    row, then = stable_order(row[order].to(torch.int32), highest)
    order = order[then.to(torch.int64)]
    return row, col[order].to(torch.int32), order


def sort_rows(rowptr: Tensor, col: Tensor) -> tuple[Tensor, Tensor | None]:
    """The targets of every row in ascending order [E], and where each was; None: they were so.

    On MPS whether they were is not known without a read-back.
    """
    edges, num_nodes = col.shape[0], rowptr.shape[0] - 1
    if edges == 0 or num_nodes == 0:
        return col, None
    number = torch.arange(edges, dtype=rowptr.dtype, device=rowptr.device)
    row = torch.searchsorted(rowptr.contiguous(), number, right=True) - 1
    if row.device.type == "cpu" and bool(is_sorted(row * num_nodes + col)):
        return col, None
    _, sorted_col, order = sort_edges(row, col, num_nodes)
    return sorted_col.to(col.dtype), order
