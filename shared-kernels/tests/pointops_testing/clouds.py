"""Named clouds: each is a way to be wrong."""

from __future__ import annotations

import torch
from torch import Tensor

# around a simdgroup, a threadgroup and what one thread owns
SIZES = (1, 31, 32, 33, 255, 1023, 1025, 3000)

CLOUDS = (
    "random",
    "lattice",  # exact ties everywhere
    "duplicates",  # every place several times
    "all_equal",
    "far_offset",  # cancellation
    "not_finite",  # NaN and infinities among ordinary points
    "tiny",  # squares around the smallest normal number
    "huge",  # squares overflow
    "near_origin",  # around the 1e-3 limit
)


def cloud(name: str, size: int, dim: int = 3, seed: int = 0) -> Tensor:
    """Points [size, dim], float32 on the CPU."""
    rng = torch.Generator().manual_seed(seed * 7919 + size * 31 + dim)
    points = torch.randn(size, dim, generator=rng)
    if name == "random":
        return points
    if name == "lattice":
        side = max(2, round(size ** (1 / dim)))
        number = torch.randperm(size, generator=rng)
        digits = [(number // side**d) % (side if d + 1 < dim else size) for d in range(dim)]
        return torch.stack(digits, dim=1) * 0.25
    if name == "duplicates":
        return points[torch.randint(max(1, size // 4), (size,), generator=rng)]
    if name == "all_equal":
        return points[:1].expand(size, dim).contiguous()
    if name == "far_offset":
        return points + 1000.0
    if name == "not_finite":
        for value in (torch.nan, torch.inf, -torch.inf):
            rows = torch.randint(size, (max(1, size // 10),), generator=rng)
            columns = torch.randint(dim, rows.shape, generator=rng)
            points[rows, columns] = value
        return points
    if name == "tiny":
        return points * 2.0**-63
    if name == "huge":
        return points * 2.0**63
    if name == "near_origin":
        return points * 0.02
    raise AssertionError(name)
