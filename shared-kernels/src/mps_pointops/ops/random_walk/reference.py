"""Random walks, slow and obvious: what the kernels mean."""

from __future__ import annotations

from collections.abc import Sequence

MASK = 2**32 - 1
ONE = 2**32  # the largest weight
ATTEMPTS = 64


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon et al., 2011): four words of 32 bits from a counter and a key."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (right >> 32) ^ b ^ k0, right & MASK, (left >> 32) ^ d ^ k1, left & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


def edge_weights(p: float, q: float) -> tuple[int, int, int]:
    """Weights of an edge back, to a node with an edge back, to another: 1 ... 2**32.

    They are as 1/p : 1 : 1/q, the largest 2**32. None is 0, so every edge can be taken.
    """
    least = min(p, 1.0, q)
    back, near, far = (max(1, round(least / cost * ONE)) for cost in (p, 1.0, q))
    return back, near, far


def key_of(seed: Sequence[int]) -> tuple[int, int]:
    """Two words from four values of 16 bits."""
    a, b, c, d = (value & 0xFFFF for value in seed)
    return a | b << 16, c | d << 16


def random_walk_reference(
    rowptr: Sequence[int],
    col: Sequence[int],
    start: Sequence[int],
    walk_length: int,
    p: float,
    q: float,
    seed: Sequence[int],
) -> tuple[list[list[int]], list[list[int]]]:
    """Nodes and edges of every walk. With weights `col` ascends in each row."""
    back, near, far = edge_weights(p, q)
    key = key_of(seed)
    size = len(rowptr) - 1
    known = {(node, col[e]) for node in range(size) for e in range(rowptr[node], rowptr[node + 1])}

    def row(node: int) -> range:
        return range(rowptr[node], rowptr[node + 1]) if 0 <= node < size else range(0)

    def weight(edge: int, step: int, previous: int) -> int:
        if step == 0:
            return ONE
        if col[edge] == previous:
            return back
        return near if (col[edge], previous) in known else far

    def draw(walk: int, step: int, edges: range, previous: int) -> int:
        weights = [weight(edge, step, previous) for edge in edges]
        returning = [edge for edge in edges if step and col[edge] == previous]
        most = ONE if step == 0 else max(near, far)
        if step == 0 or back <= most:  # else they are drawn apart, as a group
            most, returning = ONE, []
        group = len(returning) * back
        for attempt in range(ATTEMPTS):
            place, chance, low, high = philox((walk, step, attempt, 0), key)
            if (high << 32 | low) * (group + len(edges) * most) >> 64 < group:
                return returning[place * len(returning) >> 32]
            proposed = place * len(edges) >> 32
            if edges[proposed] not in returning and chance * most >> 32 < weights[proposed]:
                return edges[proposed]
        _, _, low, high = philox((walk, step, ATTEMPTS, 0), key)
        left = (high << 32 | low) * sum(weights) >> 64
        for edge, amount in zip(edges, weights, strict=True):
            if left < amount:
                return edge
            left -= amount
        raise AssertionError("left is below the sum of the weights")

    nodes, taken = [], []
    for walk, node in enumerate(start):
        path, steps = [node], []
        for step in range(walk_length):
            edges = row(path[-1])
            edge = draw(walk, step, edges, path[step - 1] if step else -1) if edges else -1
            steps.append(edge)
            path.append(path[-1] if edge < 0 else col[edge])
        nodes.append(path)
        taken.append(steps)
    return nodes, taken
