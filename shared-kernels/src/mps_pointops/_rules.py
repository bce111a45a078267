"""Names of the arithmetic and tie rules that one kernel text serves.

The numeric values are part of the kernels' text (`RULE`, `TIES`) and of the registered operators.
"""

from __future__ import annotations

from enum import IntEnum

from mps_pointops._checks import fail_value


class Rule(IntEnum):
    """How a squared distance is rounded.

    `SEPARATE`: every product and sum is rounded, in coordinate order.
    `FMA_XYZ`: one fused multiply-add per coordinate, in coordinate order, from zero.
    `FMA_YXZ`: three coordinates, `fma(z, z, fma(x, x, y * y))`.
    `COSINE`: no distance but `1 - a.b / (|a| |b|)`, for k nearest neighbours only.
    """

    SEPARATE = 0
    FMA_XYZ = 1
    FMA_YXZ = 2
    COSINE = 3


class Ties(IntEnum):
    """Which of equally far points farthest point sampling takes.

    `LOWEST_INDEX`: the first in the cloud.
    `BIT_REVERSED`: the order of a block of T = 2**min(9, floor(log2 n)) threads that own every
    T-th point and reduce in a tree: smallest (bit-reversed `i mod T`, `i div T`).
    """

    LOWEST_INDEX = 0
    BIT_REVERSED = 1


_DISTANCES = "'separate', 'fma_xyz' or 'fma_yxz'"


def as_rule(op: str, rule: str, dim: int, *, cosine: bool = False) -> Rule:
    """The rule of that name; `fma_yxz` has a meaning for three coordinates only.

    `cosine`: whether the operator has the cosine distance too.
    """
    try:
        chosen = Rule[rule.upper()]
    except (KeyError, AttributeError):
        chosen = None
    if chosen is None or (chosen is Rule.COSINE and not cosine):
        names = "'separate', 'fma_xyz', 'fma_yxz' or 'cosine'" if cosine else _DISTANCES
        fail_value(op, "rule", names, repr(rule))
    if chosen is Rule.FMA_YXZ and dim != 3:
        fail_value(
            op,
            "rule",
            "'separate' or 'fma_xyz' unless there are 3 coordinates",
            f"{rule!r} with {dim}",
        )
    return chosen


def distance_rule(op: str, rule: int) -> Rule:
    """The rule of that number, for operators that need a squared distance."""
    if rule not in (Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ):
        fail_value(op, "rule", "0, 1 or 2", str(rule), "only k nearest neighbours have the cosine")
    return Rule(rule)


def as_ties(op: str, ties: str) -> Ties:
    """The tie order of that name."""
    try:
        return Ties[ties.upper()]
    except (KeyError, AttributeError):
        fail_value(op, "ties", "'lowest_index' or 'bit_reversed'", repr(ties))
