"""k nearest neighbours on CPU tensors."""

from __future__ import annotations

from torch import Tensor

from mps_pointops._arithmetic import square_root
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.directions import nearest_directions
from mps_pointops.ops.knn.squared import nearest_points


def knn_cpu(
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
    query, ref, chosen = query.detach(), ref.detach(), Rule(rule)
    if chosen is not Rule.COSINE:
        distance, index = nearest_points(query, ref, first, last, clouds, k, chosen)
        return (square_root(distance) if euclidean else distance), index
    return nearest_directions(query, ref, first, last, clouds, k)
