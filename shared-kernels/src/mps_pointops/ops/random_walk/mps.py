"""Random walks on MPS: launch of `random_walk.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import STEPS_PER_DISPATCH, Source, blocks, launch
from mps_pointops.ops.random_walk.reference import ONE, edge_weights

SOURCE = Source(__package__, "random_walk", {"RULE": (0,), "DIM": (3,), "WIDE": (0, 1)})
# Steps of one walk in one dispatch: each waits for memory several times.
STEPS_UNIFORM, STEPS_WEIGHTED = 2**14, 2**11
# Elementary steps of one step of a walk: bounds for rows of ordinary size.
WORK_UNIFORM, WORK_WEIGHTED = 8, 256
_GROUP = 256


def random_walk_mps(
    rowptr: Tensor,
    col: Tensor,
    start: Tensor,
    walk_length: int,
    p: float,
    q: float,
    seed: Tensor,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `random_walk.py`."""
    narrow = rowptr.dtype == col.dtype == torch.int32
    places = torch.int32 if narrow else torch.int64
    rowptr, col = rowptr.to(places).contiguous(), col.to(places).contiguous()
    start = start.to(torch.int64).contiguous()
    count = start.shape[0]
    nodes = torch.empty((count, walk_length + 1), dtype=torch.int64, device=start.device)
    edges = torch.empty((count, walk_length), dtype=torch.int64, device=start.device)
    if walk_length == 0:
        return nodes.copy_(start.unsqueeze(1)), edges
    weights = edge_weights(p, q)
    uniform = min(weights) == ONE
    shape = [*weights, int(uniform), rowptr.shape[0] - 1, col.shape[0], walk_length]
    most = STEPS_UNIFORM if uniform else STEPS_WEIGHTED
    work = WORK_UNIFORM if uniform else WORK_WEIGHTED
    for first, last in blocks(walk_length, 1, most):
        for begin, end in blocks(count, (last - first) * work, STEPS_PER_DISPATCH, _GROUP):
            launch(
                SOURCE.kernel(0, 3, int(not narrow)),
                rowptr,
                col if col.shape[0] else rowptr,  # nothing is read from no edges
                start,
                seed.to(torch.int32).contiguous(),
                nodes,
                edges,
                [*shape, first, last, begin, end],
                groups=-(-(end - begin) // _GROUP),
                group_size=_GROUP,
            )
    return nodes, edges
