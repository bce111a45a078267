"""Neighbours by every pair, in NumPy alone: what the searches are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def squared(query: NDArray[np.float32], points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances [M, N]: products and sums rounded one by one."""
    total = np.zeros((len(query), len(points)), np.float32)
    for q, p in zip(query.T, points.T, strict=True):
        difference = q[:, None] - p
        total += difference * difference
    return total


def fused(query: NDArray[np.float32], points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same with a fused step a coordinate: exact products, in the widest floats there are."""
    total = np.zeros((len(query), len(points)), np.float32)
    for q, p in zip(query.T, points.T, strict=True):
        difference = (q[:, None] - p).astype(np.longdouble)
        total = (difference * difference + total).astype(np.float32)
    return total


def nearest(query: NDArray[np.float32], points: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """The first k points of every query in the order (distance, index)."""
    found = [squared(q[None], points)[0].argsort(kind="stable")[:k] for q in query]
    return np.stack(found)


def inside(
    query: NDArray[np.float32], points: NDArray[np.float32], radius: float, most: int
) -> list[NDArray[np.int64]]:
    """The first points of every query closer than the radius."""
    limit = np.float32(radius * radius)
    return [(fused(q[None], points)[0] < limit).nonzero()[0][:most] for q in query]
