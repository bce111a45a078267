"""The nearest of few points, for up to three neighbours: launches of `few.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import STEPS_PER_DISPATCH, Source, blocks, launch, searched
from mps_pointops._metal.choices import FEW_LANES, FEW_POINTS, FEW_POINTS_ALWAYS

MOST = 3  # places that a lane keeps
GROUP = 256
TILE = 1024  # points staged at a time
SOURCE = Source(
    __package__,
    "few",
    {"RULE": (0, 1, 2), "DIM": (3,), "NEAREST": (1, MOST)},
    kernels=("few_nearest",),
)


def suits(rows: int, size: int, dim: int, k: int) -> bool:
    """Whether this is the quickest search for `rows` queries that look at up to `size` points."""
    if not 1 <= k <= MOST or dim > 3:
        return False
    return size <= min(FEW_POINTS, max(rows, FEW_POINTS_ALWAYS))


def lanes_of(rows: int) -> int:
    """Lanes of a query: a power of two, up to a simdgroup."""
    lanes = 1
    while lanes < 32 and rows * lanes * 2 <= FEW_LANES:
        lanes *= 2
    return lanes


def few_nearest(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    euclidean: bool,
    rule: int,
    absent: int = -1,
) -> tuple[Tensor, Tensor]:
    """The k nearest neighbours as the schema in `knn.py` says, for 1 <= k <= 3 and D <= 3.

    k may exceed the number of points; `absent`: index of neighbours that are missing.
    """
    rows, dim = query.shape
    distance = torch.empty((rows, k), dtype=torch.float32, device=query.device)
    index = torch.empty((rows, k), dtype=torch.int64, device=query.device)
    if rows == 0:
        return distance, index
    equal, size, shape, first, last = searched(query, ref.shape[0], first, last, clouds, index)
    kernel = SOURCE.kernel(rule, 3, 1 if k == 1 else MOST)
    lanes = lanes_of(rows)
    shape += [int(euclidean), k, absent, lanes]
    for begin, end in blocks(rows, max(size * dim, 32), STEPS_PER_DISPATCH, GROUP, wait=equal):
        launch(
            kernel,
            query,
            ref if ref.numel() else query,  # nothing is read from an empty set
            first,
            last,
            distance,
            index,
            [*shape, begin, end],
            groups=-(-(end - begin) * lanes // GROUP),
            group_size=GROUP,
        )
    return distance, index
