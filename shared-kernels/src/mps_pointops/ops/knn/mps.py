"""k nearest neighbours on MPS: launches of `knn.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import QUERIES_PER_GROUP, Source, launch, search_blocks
from mps_pointops._rules import Rule

# places a simdgroup keeps in registers, in 32s; a larger k takes several passes
ROWS = (1, 2, 4, 8, 16)
SOURCE = Source(
    __package__,
    "knn",
    {"RULE": (0, 1, 2, 3), "DIM": (3, 0), "ROWS": ROWS},
    "division",
    "cosine",
    "simd32",
)


def knn_mps(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    euclidean: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `knn.py`."""
    query, ref = query.detach().contiguous(), ref.detach().contiguous()
    rows, dim = query.shape
    distance = torch.empty((rows, k), dtype=torch.float32, device=query.device)
    index = torch.empty((rows, k), dtype=torch.int64, device=query.device)
    if rows == 0 or k == 0:
        return distance, index
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    rooted = int(euclidean and rule != Rule.COSINE)
    shape = [dim, int(equal), rows // clouds if equal else rows, size, rooted, k]
    most = ROWS[-1] * 32
    for place in range(0, k, most):
        width = min(most, k - place)
        kept = next(r for r in ROWS if r * 32 >= width)
        kernel = SOURCE.kernel(rule, 3 if dim == 3 else 0, kept)
        for begin, end in search_blocks(rows, size * dim, exact=equal):
            launch(
                kernel,
                query,
                ref if ref.numel() else query,  # nothing is read from an empty set
                index if first is None else first,  # equal clouds read neither
                index if last is None else last,
                distance,
                index,
                [*shape, place, width, begin, end],
                groups=-(-(end - begin) // QUERIES_PER_GROUP),
                group_size=32 * QUERIES_PER_GROUP,
            )
    return distance, index
