"""Graclus clusters: public function, argument checks, operators."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import MAX_POINTS, as_int, check_same_device, fail_type, fail_value
from mps_pointops._integers import around_zero
from mps_pointops._ragged import fetch, is_sorted
from mps_pointops._registry import register
from mps_pointops.ops.graclus_cluster.cpu import greedy_matching_cpu
from mps_pointops.ops.graclus_cluster.mps import greedy_matching_mps
from mps_pointops.ops.graclus_cluster.order import edge_order, may_match, random_order

_OP = "graclus_cluster"
_OP_CSR = "graclus_csr"
_INDEX_DTYPES = (torch.int64, torch.int32)
_WEIGHT_DTYPES = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


def graclus_cluster(
    row: Tensor, col: Tensor, weight: Tensor | None = None, num_nodes: int | None = None
) -> Tensor:
    """Clusters of at most two nodes: a greedy matching of the edges of a graph.

    Heavier edges match first; equal weights, or no weights, in a random order. An edge matches if
    both its ends are still free, so no edge that may match is left with both ends free.

    Args:
        row: One end of every edge [E], int64 or int32, on cpu or mps.
        col: The other end [E], likewise. Edges may be listed in one direction or in both, and
            repeatedly; those from a node to itself never match.
        weight: Weights [E], any float or integer dtype; None: all equal. Edges of negative or NaN
            weight never match, of weight 0 they do.
        num_nodes: Number of nodes N; None: the largest index + 1, which reads the device once.

    Returns:
        Cluster of every node [N], int64: the smaller index of its pair, or its own if it has no
        partner. Given the order of equal weights, the same on every device.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes or devices, or a negative `num_nodes`.
        IndexError: an index that is negative or not below N. With `num_nodes` on MPS that is looked
            at only under MPS_POINTOPS_CHECK_INDICES=1, which costs a read-back; unchecked there,
            such an edge never matches.

    The random order is drawn from torch's generator of the device, so `torch.manual_seed` repeats
    it. No gradient. Contract: `ops/graclus_cluster/README.md`.
    """
    for name, value in (("row", row), ("col", col), ("weight", weight)):
        if not isinstance(value, Tensor) and not (name == "weight" and value is None):
            fail_type(_OP, name, "a torch.Tensor", type(value).__name__)
    if num_nodes is not None:
        num_nodes = as_int(_OP, "num_nodes", num_nodes)
    return graclus_core(row, col, weight, num_nodes)  # type: ignore[no-any-return]


def _graclus(row: Tensor, col: Tensor, weight: Tensor | None, num_nodes: int | None) -> Tensor:
    _check_ends(_OP, "row", row)
    _check_ends(_OP, "col", col)
    check_same_device(_OP, "col", col, "row", row)
    if col.shape != row.shape:
        fail_value(_OP, "col", f"of shape {list(row.shape)}, as row", f"shape {list(col.shape)}")
    weight = _check_weight(_OP, weight, row, "row")
    if num_nodes is not None:
        as_int(_OP, "num_nodes", num_nodes)
    ends = {"row": row, "col": col}
    if row.shape[0] == 0:
        num_nodes = num_nodes or 0
    elif num_nodes is None or _looked_at(row):
        num_nodes = _check_range(_OP, ends, num_nodes)
    return _cluster(row, col, weight, num_nodes)


def _graclus_csr(rowptr: Tensor, col: Tensor, weight: Tensor | None) -> Tensor:
    _check_ends(_OP_CSR, "rowptr", rowptr)
    _check_ends(_OP_CSR, "col", col)
    check_same_device(_OP_CSR, "col", col, "rowptr", rowptr)
    weight = _check_weight(_OP_CSR, weight, col, "col")
    nodes, edges = rowptr.shape[0] - 1, col.shape[0]
    if nodes < 0:
        fail_value(_OP_CSR, "rowptr", "of shape [N + 1]", "shape [0]")
    if _looked_at(rowptr):
        begin, end, ordered = fetch([rowptr[0], rowptr[-1], is_sorted(rowptr)])
        if begin != 0 or end != edges or not ordered:
            got = f"{begin} to {end}" if ordered else "values that descend"
            fail_value(_OP_CSR, "rowptr", f"ascending from 0 to {edges}, the length of col", got)
        if edges:
            _check_range(_OP_CSR, {"col": col}, nodes)
    numbers = torch.arange(edges, dtype=rowptr.dtype, device=rowptr.device)
    row = torch.searchsorted(rowptr.contiguous(), numbers, right=True) - 1
    return _cluster(row, col, weight, nodes)


def _cluster(row: Tensor, col: Tensor, weight: Tensor | None, nodes: int) -> Tensor:
    """Edges into the order in which they match, and the matching."""
    row, col = row.to(torch.int64), col.to(torch.int64)
    if weight is not None:
        # an end that no node has: such an edge never matches
        row = torch.where(may_match(weight), row, -1)
    order = edge_order(weight, random_order(row.shape[0], row.device))
    return greedy_matching(row[order], col[order], nodes)  # type: ignore[no-any-return]


def _looked_at(index: Tensor) -> bool:
    """Whether index values are checked though the host need not know them."""
    return index.device.type == "cpu" or os.environ.get("MPS_POINTOPS_CHECK_INDICES") == "1"


def _check_ends(op: str, name: str, index: Tensor) -> None:
    if index.dtype not in _INDEX_DTYPES:
        fail_type(op, name, "int64 or int32", str(index.dtype))
    if index.dim() != 1:
        fail_value(op, name, "a tensor of 1 axis", f"shape {list(index.shape)}")


def _check_weight(op: str, weight: Tensor | None, edge: Tensor, edge_name: str) -> Tensor | None:
    if weight is None:
        return None
    if weight.dtype not in _WEIGHT_DTYPES:
        hint = "convert it with .float()" if not weight.is_complex() else ""
        fail_type(
            op, "weight", "a float or signed integer tensor, or uint8", f"{weight.dtype}", hint
        )
    if weight.shape != edge.shape:
        wanted = f"of shape {list(edge.shape)}, one weight an edge"
        fail_value(op, "weight", wanted, f"shape {list(weight.shape)}")
    check_same_device(op, "weight", weight, edge_name, edge)
    return weight.detach()


def _check_range(op: str, ends: dict[str, Tensor], nodes: int | None) -> int:
    """Read the smallest and largest index of each, together; the number of nodes."""
    facts = fetch([fact for index in ends.values() for fact in around_zero(index)])
    for name, low, high in zip(ends, facts[::2], facts[1::2], strict=True):
        limit = MAX_POINTS if nodes is None else nodes
        if low < 0 or high >= limit:
            got = low if low < 0 else high
            raise IndexError(f"{op}: {name} must be at least 0 and below {limit}, got {got}")
    return max(facts) + 1 if nodes is None else nodes


def _fake_matching(row: Tensor, col: Tensor, nodes: Any) -> Tensor:
    return row.new_empty((nodes,), dtype=torch.int64)


def _fake_graclus(row: Tensor, col: Tensor, weight: Tensor | None, num_nodes: Any) -> Tensor:
    if num_nodes is None:
        num_nodes = torch.library.get_ctx().new_dynamic_size()
    return row.new_empty((num_nodes,), dtype=torch.int64)


def _fake_csr(rowptr: Tensor, col: Tensor, weight: Tensor | None) -> Tensor:
    return rowptr.new_empty((rowptr.shape[0] - 1,), dtype=torch.int64)


# Edges [E], [E], int64 or int32, in the order in which they match. Those with both ends the same,
# or with an end outside 0 ... nodes - 1, never do.
greedy_matching = register(
    "greedy_matching(Tensor row, Tensor col, SymInt nodes) -> Tensor",
    cpu=greedy_matching_cpu,
    mps=greedy_matching_mps,
    fake=_fake_matching,
)
_RANDOM = (torch.Tag.nondeterministic_seeded,)
graclus_core = register(
    "graclus_cluster(Tensor row, Tensor col, Tensor? weight, SymInt? num_nodes) -> Tensor",
    cpu=_graclus,
    mps=_graclus,
    fake=_fake_graclus,
    tags=_RANDOM,
)
# The graph in compressed rows: the edges of node n are rowptr[n] ... rowptr[n + 1].
graclus_csr = register(
    "graclus_csr(Tensor rowptr, Tensor col, Tensor? weight) -> Tensor",
    cpu=_graclus_csr,
    mps=_graclus_csr,
    fake=_fake_csr,
    tags=_RANDOM,
)
