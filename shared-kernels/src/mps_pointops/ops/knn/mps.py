"""k nearest neighbours on MPS: which kernel searches."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._rules import Rule
from mps_pointops.ops.knn import few
from mps_pointops.ops.knn.brute import brute_knn


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
    if rows == 0 or k == 0:
        distance = torch.empty((rows, k), dtype=torch.float32, device=query.device)
        return distance, torch.empty((rows, k), dtype=torch.int64, device=query.device)
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    if rule != Rule.COSINE and few.suits(size, dim, k):
        return few.few_nearest(query, ref, first, last, clouds, k, euclidean, rule)
    return brute_knn(query, ref, first, last, clouds, k, euclidean, rule)
