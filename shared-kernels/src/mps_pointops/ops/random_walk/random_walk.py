"""Random walks: public function and operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import DEVICES, as_int, check_same_device, fail_type, fail_value
from mps_pointops._registry import register
from mps_pointops.ops.random_walk import graph
from mps_pointops.ops.random_walk.cpu import random_walk_cpu
from mps_pointops.ops.random_walk.mps import random_walk_mps

_OP = "random_walk"


def random_walk(
    row: Tensor,
    col: Tensor,
    start: Tensor,
    walk_length: int,
    p: float = 1,
    q: float = 1,
    coalesced: bool = True,
    num_nodes: int | None = None,
    return_edge_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Random walks over a graph, uniform or with the return and in-out weights of node2vec.

    Args:
        row: Node where each edge begins [E], int64 or int32, on cpu or mps.
        col: Node where it ends [E], likewise.
        start: First node of each walk [S], likewise.
        walk_length: Steps L of each walk, >= 0.
        p: Return parameter, > 0. A walk that came from t goes on to x with weight 1/p if x is t,
            1 if there is an edge from x to t, else 1/q; the first step is uniform. Weights below
            2**-32 of the largest count as that.
        q: In-out parameter, > 0.
        coalesced: Sort the edges by (row, col) first; else `row` must be sorted.
        num_nodes: Number of nodes N; None: the largest number in `row`, `col` and `start` + 1,
            which reads the device once. If given, nothing is read back from MPS; there a number
            outside 0 ... N - 1 ends a walk, and MPS_POINTOPS_CHECK_INDICES=1 turns the check on.
        return_edge_indices: Return the edges too.

    Returns:
        Nodes [S, L + 1], int64; with `return_edge_indices` also edges [S, L], int64, counted in
        the sorted edges. A node without edges is repeated, its edge is -1. Random numbers come
        from torch's generator of the device.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes, different devices, a `p` or `q` that is not positive, a `row`
            that is not sorted though `coalesced` is False.
        IndexError: a node below 0 or not below `num_nodes` (on MPS see there).

    There is no gradient. Contract: `ops/random_walk/README.md`.
    """
    for name, value in (("row", row), ("col", col), ("start", start)):
        if not isinstance(value, Tensor):
            fail_type(_OP, name, "a torch.Tensor", type(value).__name__)
    nodes, edges = random_walk_coo(
        row,
        col,
        start,
        as_int(_OP, "walk_length", walk_length),
        _as_parameter("p", p),
        _as_parameter("q", q),
        bool(coalesced),
        None if num_nodes is None else as_int(_OP, "num_nodes", num_nodes),
    )
    return (nodes, edges) if return_edge_indices else nodes


def _as_parameter(name: str, value: Any) -> float:
    if isinstance(value, (bool, str, bytes)):
        fail_type(_OP, name, "a number", type(value).__name__)
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        fail_type(_OP, name, "a number", type(value).__name__)
    if not number > 0:  # NaN is not
        fail_value(_OP, name, "positive", str(number))
    return number


def _check_vector(name: str, value: Tensor, first_name: str, first: Tensor) -> None:
    if value.dtype not in (torch.int64, torch.int32):
        fail_type(_OP, name, "int64 or int32", str(value.dtype), "convert it with .long()")
    if value.dim() != 1:
        fail_value(_OP, name, "a tensor of one axis", f"shape {list(value.shape)}")
    if value.device.type not in DEVICES:
        fail_value(_OP, name, "on device cpu or mps", f"device {value.device}")
    check_same_device(_OP, name, value, first_name, first)
    as_int(_OP, f"the length of {name}", value.shape[0])


def _draw_seed(device: torch.device) -> Tensor:
    """From torch's generator of the device; not read back."""
    return torch.randint(2**16, (4,), dtype=torch.int32, device=device)


def _walk_coo(
    row: Tensor,
    col: Tensor,
    start: Tensor,
    walk_length: int,
    p: float,
    q: float,
    coalesced: bool,
    num_nodes: int | None,
) -> tuple[Tensor, Tensor]:
    for name, value in (("row", row), ("col", col), ("start", start)):
        _check_vector(name, value, "row", row)
    if row.shape != col.shape:
        fail_value(_OP, "col", f"of the shape of row {list(row.shape)}", f"{list(col.shape)}")
    walk_length = as_int(_OP, "walk_length", walk_length)
    p, q = _as_parameter("p", p), _as_parameter("q", q)
    if num_nodes is not None:
        num_nodes = as_int(_OP, "num_nodes", num_nodes)
    size = graph.check_edges(_OP, row, col, start, coalesced, num_nodes)
    if coalesced:
        row, col, _ = graph.sort_edges(row, col, size)
    rowptr = graph.row_begins(row, size)
    return _walk(rowptr, col, start, walk_length, p, q, coalesced)


def _walk_csr(
    rowptr: Tensor, col: Tensor, start: Tensor, walk_length: int, p: float, q: float
) -> tuple[Tensor, Tensor]:
    for name, value in (("rowptr", rowptr), ("col", col), ("start", start)):
        _check_vector(name, value, "rowptr", rowptr)
    if rowptr.shape[0] == 0:
        fail_value(_OP, "rowptr", "of shape [N + 1]", "shape [0]")
    walk_length = as_int(_OP, "walk_length", walk_length)
    p, q = _as_parameter("p", p), _as_parameter("q", q)
    graph.check_rows(_OP, rowptr, col, start)
    return _walk(rowptr, col, start, walk_length, p, q, False)


def _walk(
    rowptr: Tensor, col: Tensor, start: Tensor, walk_length: int, p: float, q: float, ordered: bool
) -> tuple[Tensor, Tensor]:
    order = None
    if not (ordered or p == q == 1):
        col, order = graph.sort_rows(rowptr, col)
    seed = _draw_seed(start.device)
    nodes, edges = random_walk_seeded(rowptr, col, start, walk_length, p, q, seed)
    if order is not None:
        edges = torch.where(edges < 0, edges, order[edges.clamp(min=0)])
    return nodes, edges


def _fake(start: Tensor, walk_length: Any) -> tuple[Tensor, Tensor]:
    count = start.shape[0]
    return (
        start.new_empty((count, walk_length + 1), dtype=torch.int64),
        start.new_empty((count, walk_length), dtype=torch.int64),
    )


# The core, without checks and without a random number of its own. Unless p = q = 1, `col` is in
# ascending order in every row. `seed` [4] has 16 bits in each value.
random_walk_seeded = register(
    "random_walk_seeded(Tensor rowptr, Tensor col, Tensor start, SymInt walk_length, float p,"
    " float q, Tensor seed) -> (Tensor, Tensor)",
    cpu=random_walk_cpu,
    mps=random_walk_mps,
    fake=lambda rowptr, col, start, length, *rest: _fake(start, length),
)

random_walk_csr = register(
    "random_walk(Tensor rowptr, Tensor col, Tensor start, SymInt walk_length, float p, float q)"
    " -> (Tensor, Tensor)",
    cpu=_walk_csr,
    mps=_walk_csr,
    fake=lambda rowptr, col, start, length, *rest: _fake(start, length),
    tags=(torch.Tag.nondeterministic_seeded,),
)

random_walk_coo = register(
    "random_walk_coo(Tensor row, Tensor col, Tensor start, SymInt walk_length, float p, float q,"
    " bool coalesced, SymInt? num_nodes) -> (Tensor, Tensor)",
    cpu=_walk_coo,
    mps=_walk_coo,
    fake=lambda row, col, start, length, *rest: _fake(start, length),
    tags=(torch.Tag.nondeterministic_seeded,),
)
