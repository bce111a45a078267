"""Sampling of neighbours on CPU tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# a part from which a permutation of all is drawn
_MOST = 0.7


def subset(size: int, drawn: Sequence[int]) -> list[int]:
    """A uniform subset of 0 ... size - 1 with a member for each draw (R. W. Floyd), ascending."""
    chosen: set[int] = set()
    for last, number in zip(range(size - len(drawn), size), drawn, strict=True):
        # the remainder of a 62-bit number: its bias is below size / 2**62
        place = number % (last + 1)
        chosen.add(last if place in chosen else place)
    return sorted(chosen)


def draw(count: int) -> list[int]:
    """Random numbers of 62 bits from torch's generator."""
    return torch.randint(2**62, (count,), dtype=torch.int64).tolist()


def sample_edges(start: Tensor, rowptr: Tensor, count: int, factor: float) -> Tensor:
    """Positions of edges, node after node; arguments as the schema, checked."""
    begins = rowptr[start].tolist()
    sizes = (rowptr[start + 1] - rowptr[start]).tolist()
    wanted = [count if count >= 1 else math.ceil(factor * size) for size in sizes]
    small = [number < _MOST * size for number, size in zip(wanted, sizes, strict=True)]
    # The permutations come first: torch_cluster draws nothing else from this generator.
    found = [
        None if few else torch.randperm(size, dtype=torch.int64)[:number] + begin
        for few, number, size, begin in zip(small, wanted, sizes, begins, strict=True)
    ]
    drawn = draw(sum(number for number, few in zip(wanted, small, strict=True) if few))
    edges: list[int] = []
    for few, number, size, begin in zip(small, wanted, sizes, begins, strict=True):
        if few:
            part = drawn[len(edges) : len(edges) + number]
            edges += [begin + place for place in subset(size, part)]
    subsets = torch.tensor(edges, dtype=torch.int64)
    parts, used = [], 0
    for permuted, number in zip(found, wanted, strict=True):
        if permuted is None:
            permuted, used = subsets[used : used + number], used + number
        parts.append(permuted)
    return torch.cat(parts) if parts else subsets
