"""Edges of ragged searches on MPS: launches of `edges.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._flat_mps.parts import Parts
from mps_pointops._metal import Source, launch

_FOUND, _GRAPH, _GIVEN = 0, 1, 2  # as in edges.metal

SOURCE = Source(
    __package__,
    "edges",
    {"RULE": (0,), "DIM": (0,)},
    "parts",
    kernels=("count_edges", "write_edges"),
)


def count_edges_mps(
    found: Tensor, graph: bool, parts: Parts, numbers: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Edges of every row of `found`: neighbours [M, K], or counts [M], int64.

    `parts`: of the rows; what they find goes to `numbers`.

    Returns:
        Edges a row [M], int32; the slot of the row's own number [M], int32, or K, if a `graph` is
        made without it.
    """
    rows, slots = found.shape[0], found.shape[1] if found.dim() == 2 else 1
    counts = torch.empty(rows, dtype=torch.int32, device=found.device)
    own = torch.empty_like(counts) if graph else None
    form = _GIVEN if found.dim() == 1 else _GRAPH if graph else _FOUND
    launch(
        SOURCE.kernel(0, 0, name="count_edges"),
        found if found.numel() else numbers,
        counts,
        counts if own is None else own,
        numbers,
        [rows, slots, parts.span, form],
        **parts.grid,
    )
    return counts, own


def write_edges_mps(
    index: Tensor,
    counts: Tensor,
    own: Tensor | None,
    total: int,
    begins: list[int],
    span: int,
    reverse: bool,
) -> Tensor:
    """Padded neighbours [M, K] as edges [2, total]; `begins`: edges before each part.

    `reverse`: the neighbours come in the first row.
    """
    rows, slots = index.shape
    out = torch.empty((2, total), dtype=torch.int64, device=index.device)
    if total:
        launch(
            SOURCE.kernel(0, 0, name="write_edges"),
            index,
            counts,
            counts if own is None else own,
            out,
            begins,
            [rows, slots, span, _FOUND if own is None else _GRAPH, total, int(reverse)],
            groups=len(begins),
            group_size=256,
        )
    return out
