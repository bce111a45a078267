"""k nearest neighbours by looking at every pair: launches of `knn.metal`, `features.metal`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._metal import STEPS_PER_THREADGROUP, Source, choices, launch, search_blocks
from mps_pointops._rules import Rule

_SHARED = ("simd32", "segments")
_RULES = (Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ)
# threads of a threadgroup of knn.metal
_FEW, _MANY = 64, 256
LOW = Source(
    __package__, "knn", {"RULE": _RULES, "THREADS": (_FEW, _MANY), "LISTS": (0,)}, *_SHARED
)
# any rule will do
MERGE = Source(
    __package__, "knn", {"RULE": (Rule.SEPARATE,), "THREADS": (_MANY,), "LISTS": (1,)}, *_SHARED
)
HIGH = Source(
    __package__,
    "features",
    {"RULE": (Rule.SEPARATE, Rule.FMA_XYZ, Rule.COSINE), "THREADS": (_MANY,)},
    "division",
    "cosine",
    *_SHARED,
)
# coordinates that knn.metal takes
_LOW_DIMENSION = 3
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
    sample: int = 1

    def shape(self) -> list[int]:
        return [self.queries, self.segment_bits, self.parts, self.sample]

    def groups(self, rows: int) -> int:
        return -(-rows // self.queries) * self.parts


def _segment_bits(width: int) -> int:
    return (max(_LEAST_SEGMENT, 2 * width) - 1).bit_length()


def _parts(groups: int, size: int, steps: int, least: int) -> int:
    """Threadgroups that share the points of a query, if `groups` would be without."""
    wanted = min(choices.KNN_GROUPS // groups, size // least)
    return max(1, wanted, -(-steps // STEPS_PER_THREADGROUP))


def _plan(rows: int, size: int, width: int) -> _Plan:
    """A plan of knn.metal; `size` is the number of points of a query, or a bound of it."""
    bits = _segment_bits(width)
    threads = _MANY
    if 1 << bits <= _FEW and rows >= _MOST_QUERIES * choices.KNN_SMALL_GROUPS:
        threads = _FEW
    queries = min(_MOST_QUERIES, threads * _PAIRS_PER_THREAD >> bits)
    while queries > 1 and rows < queries * choices.KNN_GROUPS:
        queries //= 2
    steps = 2 * _LOW_DIMENSION * queries * size
    parts = _parts(-(-rows // queries), size, steps, max(choices.KNN_PART, 8 * width))
    sample = max(1, size // parts // (choices.KNN_SAMPLED * width))
    return _Plan(threads, queries, bits, parts, min(choices.KNN_SAMPLE, sample))


def _plan_high(rows: int, size: int, dim: int, width: int) -> _Plan:
    """A plan of features.metal, which has no segments and no threshold."""
    steps = dim * _TILE * size
    least = max(choices.KNN_FEATURE_PART, 4 * width)
    return _Plan(_MANY, _TILE, parts=_parts(-(-rows // _TILE), size, steps, least))


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
    equal = first is None or last is None
    size = ref.shape[0] // clouds if equal else ref.shape[0]
    cosine = rule == Rule.COSINE
    rooted = int(euclidean and not cosine)
    shape = [dim, int(equal), rows // clouds if equal else rows, size, rooted, int(cosine), k]
    tensors = (
        query,
        ref if ref.numel() else query,  # nothing is read from an empty set
        index if first is None else first,  # equal clouds read neither
        index if last is None else last,
        distance,
        index,
    )
    low = dim <= _LOW_DIMENSION and not cosine
    for place in range(0, k, WIDTH):
        width = min(WIDTH, k - place)
        for begin, end in search_blocks(rows, size * dim, exact=equal):
            here = end - begin
            plan = _plan(here, size, width) if low else _plan_high(here, size, dim, width)
            kept = here * plan.parts * width if plan.parts > 1 or not low else 0
            lists = torch.empty((max(1, kept), 2), dtype=torch.int32, device=query.device)
            launch(
                LOW.kernel(rule, plan.threads, 0) if low else HIGH.kernel(rule, plan.threads),
                *tensors,
                lists,
                [*shape, place, width, begin, end, *plan.shape(), 0],
                groups=plan.groups(here),
                group_size=plan.threads,
            )
            if plan.parts > 1:
                merge = _Plan(_MANY, 1, _segment_bits(width))
                launch(
                    MERGE.kernel(Rule.SEPARATE, merge.threads, 1),
                    *tensors,
                    lists,
                    [*shape, place, width, begin, end, *merge.shape(), plan.parts * width],
                    groups=here,
                    group_size=merge.threads,
                )
    return distance, index
