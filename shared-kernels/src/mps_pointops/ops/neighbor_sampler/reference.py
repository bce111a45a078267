"""Sampling of neighbours, slow and obvious: what may come out."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sample_sizes(start: Sequence[int], rowptr: Sequence[int], size: float) -> list[int]:
    """How many edges are drawn for each node."""
    degrees = [rowptr[node + 1] - rowptr[node] for node in start]
    if size > 1:
        return [min(degree, int(size)) for degree in degrees]
    return [min(degree, math.ceil(size * degree)) for degree in degrees]


def is_sample(
    edges: Sequence[int], start: Sequence[int], rowptr: Sequence[int], size: float
) -> bool:
    """Whether `edges` has the wanted number of different edges of each node, node after node."""
    place = 0
    for node, count in zip(start, sample_sizes(start, rowptr, size), strict=True):
        part = edges[place : place + count]
        place += count
        if len(set(part)) != count or not set(part) <= set(range(rowptr[node], rowptr[node + 1])):
            return False
    return place == len(edges)
