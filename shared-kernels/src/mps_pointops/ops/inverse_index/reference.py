"""Inverse index, slow and obvious: what the kernels mean."""

from __future__ import annotations

from torch import Tensor


def positions_of_reference(index: Tensor, size: int) -> list[list[list[int]]]:
    """Per cloud and target the positions in the whole input that point to it, ascending."""
    clouds, count = index.shape
    found: list[list[list[int]]] = [[[] for _ in range(size)] for _ in range(clouds)]
    for b, row in enumerate(index.tolist()):
        for m, target in enumerate(row):
            if 0 <= target < size:
                found[b][target].append(b * count + m)
    return found
