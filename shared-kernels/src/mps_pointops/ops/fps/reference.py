"""Farthest point sampling, slow and obvious: what the kernels mean."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._arithmetic import squared_distance
from mps_pointops._rules import Rule, Ties


def tie_rank(size: int, ties: Ties) -> Tensor:
    """Of equally far points the one of smallest rank is taken: ranks [size], int64."""
    index = torch.arange(size, device="cpu")
    if ties is Ties.LOWEST_INDEX:
        return index
    bits = min(9, max(size, 1).bit_length() - 1)
    thread = index % (1 << bits)
    reversed_thread = torch.zeros_like(index)
    for bit in range(bits):
        reversed_thread |= ((thread >> bit) & 1) << (bits - 1 - bit)
    return reversed_thread * (size // (1 << bits) + 1) + (index >> bits)


def furthest_point_sample_reference(
    points: Tensor,
    npoint: int,
    start_idx: int = 0,
    skip_near_origin: bool = False,
    rule: Rule = Rule.SEPARATE,
    ties: Ties = Ties.LOWEST_INDEX,
) -> Tensor:
    """One cloud [N, D], float32 or float64, on the CPU -> picks [npoint], int64."""
    size = points.shape[0]
    eligible = torch.isfinite(points).all(dim=1)
    if skip_near_origin:
        norm = squared_distance(points, torch.zeros_like(points), rule)
        eligible &= ~(norm.to(torch.float64) <= 1e-3)
    rank = tie_rank(size, ties)
    nearest = points.new_full((size,), torch.inf)
    picks: list[int] = []
    pick = start_idx
    while len(picks) < npoint:
        picks.append(pick)
        distance = squared_distance(points, points[pick], rule)
        # a start that is not finite has no distance to anything
        nearest = torch.where(distance < nearest, distance, nearest)
        pick = 0
        if eligible.any():
            farthest = nearest[eligible].max()
            best = torch.where(eligible & (nearest == farthest), rank, size * 2 + 1024)
            pick = int(best.argmin())
    return torch.tensor(picks, dtype=torch.int64, device="cpu")
