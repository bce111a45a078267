"""The nearest point, slow and obvious: what the operator means."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule


def nearest_reference(
    x: Tensor, y: Tensor, batch_x: Tensor, batch_y: Tensor, rule: Rule = Rule.FMA_XYZ
) -> Tensor:
    """Queries [N, D] and points [M, D], float32 on the CPU, with their clouds: rows of y [N]."""
    finite = torch.isfinite(y).all(dim=1)
    found = torch.full((x.shape[0],), -1, dtype=torch.int64)
    for i, (query, cloud) in enumerate(zip(x, batch_x, strict=True)):
        possible = (finite & (batch_y == cloud)).nonzero()[:, 0]
        if len(possible) and torch.isfinite(query).all():
            d2 = squared_distance(query, y[possible], rule)
            # stable: of equal distances the smallest index comes first
            found[i] = possible[torch.argsort(d2, stable=True)[0]]
    return found
