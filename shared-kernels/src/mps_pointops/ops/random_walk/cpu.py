"""Random walks on CPU tensors: all walks together, step by step."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mps_pointops.ops.random_walk.reference import ATTEMPTS, MASK, ONE, edge_weights, key_of

Array = np.ndarray[Any, Any]
# edges looked at together where rows are searched as a whole
_EDGES = 2**21
_32 = np.uint64(32)
_LOW = np.uint64(MASK)


def _philox(walk: Array, step: int, attempt: int, key: tuple[int, int]) -> list[Array]:
    a = walk.astype(np.uint64)
    b, c = np.full_like(a, step), np.full_like(a, attempt)
    d = np.zeros_like(a)
    k0, k1 = key
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, c = (right >> _32) ^ b ^ np.uint64(k0), (left >> _32) ^ d ^ np.uint64(k1)
        b, d = right & _LOW, left & _LOW
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [a, b, c, d]


def _high_product(a: Array, b: Array) -> Array:
    """Upper 64 bits of a product of 64-bit numbers."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + (a0 * b0 >> _32)
    other = a0 * b1 + (middle & _LOW)
    product: Array = a1 * b1 + (middle >> _32) + (other >> _32)
    return product


class _Graph:
    def __init__(self, rowptr: Tensor, col: Tensor, weights: tuple[int, int, int]) -> None:
        self.rowptr = rowptr.to(torch.int64).contiguous().numpy()
        self.col = col.to(torch.int64).contiguous().numpy()
        self.size = len(self.rowptr) - 1
        self.weights = np.array(weights, dtype=np.uint64)
        self.uniform = min(weights) == ONE
        back, near, far = weights
        self.apart = back > max(near, far)  # edges back are drawn as a group
        self.most = np.uint64(max(near, far) if self.apart else ONE)
        if not self.uniform:
            row = np.repeat(np.arange(self.size, dtype=np.int64), np.diff(self.rowptr))
            self.keys = row * self.size + self.col  # ascending

    def rows(self, node: Array) -> tuple[Array, Array]:
        """Where the edges of nodes begin, and how many there are; none for other numbers."""
        inside = (node >= 0) & (node < self.size)
        known = np.where(inside, node, 0) if self.size else node[:0]
        if not self.size:
            return np.zeros_like(node), np.zeros_like(node)
        begin = self.rowptr[known]
        return begin, np.where(inside, self.rowptr[known + 1] - begin, 0)

    def returning(self, node: Array, previous: Array) -> tuple[Array, Array]:
        """The first edge from `node` back to `previous`, and how many there are."""
        wanted = node * self.size + previous
        first = np.searchsorted(self.keys, wanted)
        return first, np.searchsorted(self.keys, wanted, side="right") - first

    def weight(self, edge: Array, previous: Array) -> tuple[Array, Array]:
        """Weight of edges of a walk that comes from `previous`; whether they lead back."""
        target = self.col[edge]
        wanted = target * self.size + previous
        place = np.searchsorted(self.keys, wanted)
        near = self.keys[np.minimum(place, len(self.keys) - 1)] == wanted
        back = target == previous
        return self.weights[np.where(back, 0, np.where(near, 1, 2))], back


def _scaled(word: Array, size: Array) -> Array:
    """A word as a number below `size`."""
    number: Array = (word * size.astype(np.uint64) >> _32).astype(np.int64)
    return number


def _chosen(graph: _Graph, begin: Array, size: Array, previous: Array, part: Array) -> Array:
    """The edge of each row where a random part of its weights is reached."""
    ends = np.cumsum(size)
    edge = np.arange(ends[-1], dtype=np.int64) + np.repeat(begin - (ends - size), size)
    weight, _ = graph.weight(edge, np.repeat(previous, size))
    sums = np.cumsum(weight, dtype=np.uint64)  # may wrap: only differences within a row are used
    before = sums[ends - size] - weight[ends - size]
    limit = _high_product(part, sums[ends - 1] - before)
    passed = sums - np.repeat(before, size) <= np.repeat(limit, size)
    counts: Array = np.add.reduceat(passed.astype(np.int64), ends - size)
    chosen: Array = begin + counts
    return chosen


def _choose(graph: _Graph, begin: Array, size: Array, previous: Array, part: Array) -> Array:
    """`_chosen` in blocks of bounded memory."""
    block = np.cumsum(size) // _EDGES
    cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(size)]
    found = [
        _chosen(graph, begin[i:j], size[i:j], previous[i:j], part[i:j]) for i, j in pairwise(cuts)
    ]
    return np.concatenate(found)


def _draw(
    graph: _Graph, walk: Array, node: Array, previous: Array, step: int, key: tuple[int, int]
) -> Array:
    """Edges of rows that have more than one, by weight."""
    begin, size = graph.rows(node)
    edge = np.empty_like(begin)
    returning = np.zeros_like(size)
    if graph.apart:
        first_back, returning = graph.returning(node, previous)
    group = returning.astype(np.uint64) * graph.weights[0]
    total = group + size.astype(np.uint64) * graph.most
    left = np.arange(len(walk))
    for attempt in range(ATTEMPTS):
        place, chance, low, high = _philox(walk[left], step, attempt, key)
        found = begin[left] + _scaled(place, size[left])
        weight, back = graph.weight(found, previous[left])
        accepted = (chance * graph.most >> _32) < weight
        if graph.apart:
            accepted &= ~back
            grouped = _high_product(high << _32 | low, total[left]) < group[left]
            chosen = first_back[left] + _scaled(place, returning[left])
            found = np.where(grouped, chosen, found)
            accepted |= grouped
        edge[left[accepted]] = found[accepted]
        left = left[~accepted]
        if not len(left):
            return edge
    _, _, low, high = _philox(walk[left], step, ATTEMPTS, key)
    edge[left] = _choose(graph, begin[left], size[left], previous[left], high << _32 | low)
    return edge


def _step(
    graph: _Graph, walk: Array, node: Array, previous: Array, step: int, key: tuple[int, int]
) -> Array:
    """Edges that walks take from `node`, -1 where there is none."""
    begin, size = graph.rows(node)
    if step == 0 or graph.uniform:
        place = _philox(walk, step, 0, key)[0]
        return np.where(size > 0, begin + _scaled(place, size), -1)
    edge = np.where(size > 0, begin, -1)  # a row of one edge needs no weights
    several = np.flatnonzero(size > 1)
    if len(several):
        edge[several] = _draw(graph, walk[several], node[several], previous[several], step, key)
    return edge


def random_walk_cpu(
    rowptr: Tensor,
    col: Tensor,
    start: Tensor,
    walk_length: int,
    p: float,
    q: float,
    seed: Tensor,
) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `random_walk.py`."""
    graph = _Graph(rowptr, col, edge_weights(p, q))
    key = key_of(seed.tolist())
    count = start.shape[0]
    nodes = np.empty((walk_length + 1, count), dtype=np.int64)
    edges = np.empty((walk_length, count), dtype=np.int64)
    nodes[0] = start.numpy()
    walk = np.arange(count, dtype=np.int64)
    for step in range(walk_length):
        edge = _step(graph, walk, nodes[step], nodes[max(step - 1, 0)], step, key)
        edges[step] = edge
        nodes[step + 1] = nodes[step]
        went = edge >= 0
        nodes[step + 1, went] = graph.col[edge[went]]
    return torch.from_numpy(nodes.T.copy()), torch.from_numpy(edges.T.copy())
