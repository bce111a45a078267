"""Three nearest neighbours, slow and obvious: what the function means."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import square_root
from mps_pointops._rules import Rule
from mps_pointops.ops.knn.reference import knn_reference


def three_nn_reference(
    unknown: Tensor, known: Tensor, rule: Rule = Rule.FMA_YXZ
) -> tuple[Tensor, Tensor]:
    """One cloud: points [n, 3] and [m, 3], float32 on the CPU."""
    distance = unknown.new_full((unknown.shape[0], 3), torch.inf)
    index = unknown.new_zeros((unknown.shape[0], 3), dtype=torch.int64)
    d2, found = knn_reference(unknown, known, min(3, known.shape[0]), rule)
    distance[:, : d2.shape[1]] = square_root(d2)
    index[:, : d2.shape[1]] = found.clamp(min=0)
    return distance, index
