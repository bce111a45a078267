"""Ball query on MPS: launches of `ball_query.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import QUERIES_PER_GROUP, Source, launch, search_blocks
from mps_pointops.ops.ball_query.threshold import threshold

SOURCE = Source(__package__, "ball_query", {"RULE": (0, 1, 2), "DIM": (3, 0)})


def ball_query_mps(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    K: int,
    radius: float,
    round_radius: bool,
    ignore_same_index: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `ball_query.py`."""
    query, ref = query.detach().contiguous(), ref.detach().contiguous()
    rows, dim = query.shape
    distance = torch.empty((rows, K), dtype=torch.float32, device=query.device)
    index = torch.empty((rows, K), dtype=torch.int64, device=query.device)
    if rows == 0 or K == 0:
        return distance, index
    limit = threshold(radius, round_radius)
    kernel = SOURCE.kernel(rule, 3 if dim == 3 else 0)
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    shape = [dim, int(equal), rows // clouds if equal else rows, size, int(ignore_same_index), K]
    for begin, end in search_blocks(rows, size * dim):
        launch(
            kernel,
            query,
            ref if ref.numel() else query,  # nothing is read from an empty set
            index if first is None else first,  # equal clouds read neither
            index if last is None else last,
            distance,
            index,
            [*shape, begin, end],
            [limit.squared, limit.scale],
            groups=-(-(end - begin) // QUERIES_PER_GROUP),
            group_size=32 * QUERIES_PER_GROUP,
        )
    return distance, index
