"""Greedy matching on MPS: launches of `graclus_cluster.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._checks import MAX_POINTS
from mps_pointops._metal import Source, launch
from mps_pointops.ops.inverse_index.inverse_index import stable_order

SOURCE = Source(
    __package__,
    "graclus_cluster",
    {"RULE": (0,), "DIM": (3,)},
    kernels=("prepare", "advance", "match", "spread", "finish"),
)

GROUP_SIZE = 256
# Steps go over their lists with this many threadgroups at most: a step of an empty list is cheap.
MOST_GROUPS = 1024
# Rounds over the whole GPU; after them the frontiers of most graphs are narrow.
WIDE_ROUNDS = 10
# Graphs of at most so many nodes are the work of one threadgroup from the start.
NARROW = 4096
# One dispatch of the single threadgroup: nodes it looks at, and what a round costs beside them.
BUDGET = 2**20
ROUND_COST = 64
# The device is waited for after so many, so that no command buffer runs for long.
DISPATCHES_TOGETHER = 4


def greedy_matching_mps(row: Tensor, col: Tensor, nodes: int) -> Tensor:
    """Operator kernel; arguments as the schema in `graclus_cluster.py`."""
    device, edges = row.device, row.shape[0]
    cluster = torch.arange(nodes, dtype=torch.int64, device=device)
    if edges == 0 or nodes == 0:
        return cluster
    entries = 2 * edges
    if entries > MAX_POINTS:
        raise ValueError(
            f"greedy_matching: row must be of at most {MAX_POINTS // 2} edges on MPS, got {edges}"
        )
    valid = (row >= 0) & (row < nodes) & (col >= 0) & (col < nodes) & (row != col)
    ends = torch.stack((row, col), dim=1)
    # edges that never match go to a node of their own, behind all others
    keys = torch.where(valid.unsqueeze(1), ends, nodes).flatten().to(torch.int32)
    keys, slots = stable_order(keys, nodes)
    numbers = torch.arange(nodes + 1, dtype=torch.int32, device=device)
    first = torch.searchsorted(keys, numbers).to(torch.int32)

    neighbor = torch.empty_like(slots)
    pointer, candidate, mate, frontier, fresh = (
        torch.empty(nodes, dtype=torch.int32, device=device) for _ in range(5)
    )
    counts = torch.empty(3, dtype=torch.int32, device=device)
    launch(
        SOURCE.kernel(0, 3, name="prepare"),
        row.to(torch.int32).contiguous(),
        col.to(torch.int32).contiguous(),
        slots,
        first,
        neighbor,
        pointer,
        candidate,
        mate,
        frontier,
        counts,
        [nodes, entries],
        groups=-(-max(nodes, entries) // GROUP_SIZE),
        group_size=GROUP_SIZE,
    )
    graph = (slots, first, neighbor, pointer, candidate, mate)
    rounds = WIDE_ROUNDS if nodes > NARROW else 0
    _wide_rounds(graph, frontier, fresh, counts, nodes, rounds)
    _finish(graph, frontier, fresh, counts, nodes, entries, rounds & 1)
    return torch.where(mate < 0, cluster, torch.minimum(cluster, mate.to(torch.int64)))


def _wide_rounds(
    graph: tuple[Tensor, ...],
    frontier: Tensor,
    fresh: Tensor,
    counts: Tensor,
    nodes: int,
    rounds: int,
) -> None:
    """Rounds in which the whole GPU takes part: a dispatch a step."""
    groups = min(MOST_GROUPS, -(-nodes * 32 // GROUP_SIZE))
    grid = {"groups": groups, "group_size": GROUP_SIZE}
    for number in range(rounds):
        odd = [number & 1]
        launch(SOURCE.kernel(0, 3, name="advance"), *graph, frontier, counts, odd, **grid)
        launch(SOURCE.kernel(0, 3, name="match"), *graph, frontier, fresh, counts, odd, **grid)
        launch(SOURCE.kernel(0, 3, name="spread"), *graph, frontier, fresh, counts, odd, **grid)


def _finish(
    graph: tuple[Tensor, ...],
    frontier: Tensor,
    fresh: Tensor,
    counts: Tensor,
    nodes: int,
    entries: int,
    odd: int,
) -> None:
    """All rounds that are left, in as many dispatches as the worst graph needs.

    A round matches two nodes, or is the last; a node enters the frontier at the start, and then
    at most once for every entry it has. Dispatches that find nothing left end at once.
    """
    kernel = SOURCE.kernel(0, 3, name="finish")
    most = (nodes // 2 + 1) * ROUND_COST + nodes + entries
    shape = [odd, BUDGET, ROUND_COST]
    group_size = min(1024, 32 * nodes)
    for number in range(-(-most // BUDGET)):
        if number and number % DISPATCHES_TOGETHER == 0:
            torch.mps.synchronize()
        launch(kernel, *graph, frontier, fresh, counts, shape, groups=1, group_size=group_size)
