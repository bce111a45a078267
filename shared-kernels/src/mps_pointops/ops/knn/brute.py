"""k nearest neighbours by looking at every pair: launches of `knn.metal`, `features.metal`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._metal import (
    STEPS_PER_THREADGROUP,
    Source,
    choices,
    launch,
    search_blocks,
    searched,
)
from mps_pointops._rules import Rule

_SHARED = ("simd32", "segments", "runs")
_RULES = (Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ)
# threads of a threadgroup of knn.metal
_FEW, _MANY = 64, 256


def _knn_source(rules: tuple[int, ...], dim: int, threads: tuple[int, ...], lists: int) -> Source:
    options = {"RULE": rules, "DIM": (dim,), "THREADS": threads, "LISTS": (lists,)}
    return Source(__package__, "knn", options, *_SHARED)


LOW = {2: _knn_source(_RULES[:2], 2, (_MANY,), 0), 3: _knn_source(_RULES, 3, (_FEW, _MANY), 0)}
MERGE = _knn_source((Rule.SEPARATE,), 3, (_MANY,), 1)  # the rule and the dimension do not matter
HIGH = Source(
    __package__,
    "features",
    {"RULE": (Rule.SEPARATE, Rule.FMA_XYZ, Rule.COSINE), "THREADS": (_MANY,)},
    "division",
    "cosine",
    *_SHARED,
)
# pairs that a thread of knn.metal keeps; of a threadgroup, the fewest of one query, and queries
_PAIRS_PER_THREAD = 8
_LEAST_SEGMENT = 64
_MOST_QUERIES = 8
# queries of a threadgroup of features.metal
_TILE = 32
# places filled by a dispatch; a larger k takes several
WIDTH = _MANY * _PAIRS_PER_THREAD // 2


@dataclass(frozen=True)
class _Plan:
    """How the threadgroups share the work; see `shape` in knn.metal."""

    threads: int
    queries: int
    segment_bits: int = 0
    parts: int = 1
    sample: int = choices.KNN_SAMPLE

    def shape(self, width: int) -> list[int]:
        sampled = max(1, choices.KNN_SAMPLED * width)
        return [self.queries, self.segment_bits, self.parts, self.sample, sampled]

    def groups(self, rows: int) -> int:
        return -(-rows // self.queries) * self.parts


def _segment_bits(width: int) -> int:
    return (max(_LEAST_SEGMENT, 2 * width) - 1).bit_length()


def _parts(groups: int, most_groups: int, size: int, least: int, steps: int) -> int:
    """Threadgroups that share the points of a query, if `groups` would be without."""
    return max(1, min(most_groups // groups, size // least), -(-steps // STEPS_PER_THREADGROUP))


def _plan(rows: int, size: int, most: int, dim: int, width: int) -> _Plan:
    """A plan of knn.metal. Points of a query: `size` in the mean and `most` at most."""
    bits = _segment_bits(width)
    threads = _MANY
    if (
        1 << bits <= _FEW in LOW[dim].options["THREADS"]
        and size <= choices.KNN_SMALL_SIZE
        and rows >= _MOST_QUERIES * choices.KNN_SMALL_GROUPS
    ):
        threads = _FEW
    queries = min(_MOST_QUERIES, threads * _PAIRS_PER_THREAD >> bits)
    # lists of many queries cost more to merge than a busier GPU saves
    least = size + 1 if rows >= choices.KNN_MANY_ROWS else max(choices.KNN_PART, 8 * width)
    while True:
        groups = -(-rows // queries)
        steps = 2 * dim * queries * most
        parts = _parts(groups, 2 * choices.KNN_GROUPS, size, least, steps)
        if queries == 1 or groups * parts >= choices.KNN_GROUPS:
            break
        queries //= 2
    return _Plan(threads, queries, bits, parts)


def _plan_high(rows: int, size: int, most: int, dim: int, width: int) -> _Plan:
    """A plan of features.metal, which has no segments of other sizes and no sample."""
    least = max(choices.KNN_FEATURE_PART, width)
    groups = -(-rows // _TILE)
    parts = _parts(groups, choices.KNN_GROUPS, size, least, dim * _TILE * most)
    return _Plan(_MANY, _TILE, parts=parts)


def brute_knn(
    query: Tensor,
    ref: Tensor,
    first: Tensor | None,
    last: Tensor | None,
    clouds: int,
    k: int,
    euclidean: bool,
    rule: int,
) -> tuple[Tensor, Tensor]:
    """As the schema in `knn.py`; `query` and `ref` are contiguous, neither rows nor k is 0."""
    rows, dim = query.shape
    distance = torch.empty((rows, k), dtype=torch.float32, device=query.device)
    index = torch.empty((rows, k), dtype=torch.int64, device=query.device)
    mean = ref.shape[0] // clouds
    equal, size, shape, first, last = searched(query, ref.shape[0], first, last, clouds, index)
    cosine = rule == Rule.COSINE
    shape += [int(euclidean and not cosine), int(cosine), k]
    tensors = (
        query,
        ref if ref.numel() else query,  # nothing is read from an empty set
        first,
        last,
        distance,
        index,
    )
    low = LOW.get(dim) if not cosine else None
    for place in range(0, k, WIDTH):
        width = min(WIDTH, k - place)
        # a wide row has more threads than its points may be worth
        for begin, end in search_blocks(rows, max(size, width) * dim, exact=equal):
            here = end - begin
            plan = (_plan if low else _plan_high)(here, mean, size, dim, width)
            listed = plan.parts > 1 or (not low and (place > 0 or 2 * width > _LEAST_SEGMENT))
            kept = here * plan.parts * width if listed else 1
            lists = torch.empty((kept, 2), dtype=torch.int32, device=query.device)
            launch(
                low.kernel(rule, dim, plan.threads, 0) if low else HIGH.kernel(rule, plan.threads),
                *tensors,
                lists,
                [*shape, place, width, begin, end, *plan.shape(width), 0],
                groups=plan.groups(here),
                group_size=plan.threads,
            )
            if plan.parts > 1:
                merge = _Plan(_MANY, 1, _segment_bits(width))
                launch(
                    MERGE.kernel(Rule.SEPARATE, 3, merge.threads, 1),
                    *tensors,
                    lists,
                    [*shape, place, width, begin, end, *merge.shape(width), plan.parts * width],
                    groups=here,
                    group_size=merge.threads,
                )
    return distance, index
