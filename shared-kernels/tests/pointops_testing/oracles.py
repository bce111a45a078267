"""Oracles that share no code with the package: NumPy and plain Python, exact arithmetic.

Every rounding is made from rational numbers, so nothing here depends on how a processor fuses,
flushes or vectorises.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

_MIN_NORMAL = Fraction(2) ** -126
_OVERFLOW = Fraction(2) ** 128 - Fraction(2) ** 103  # rounds to infinity from here on


def round32(exact: Fraction) -> float:
    """Nearest float32, ties to even; results that are subnormal at 24 bits become zero."""
    if exact == 0:
        return 0.0
    if abs(exact) >= _OVERFLOW:
        return float("inf") if exact > 0 else float("-inf")
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    rounded = round(size / unit) * unit  # Python rounds half to even
    if rounded < _MIN_NORMAL:
        return 0.0
    return float(rounded) if exact > 0 else -float(rounded)


def _daz(x: float) -> Fraction:
    value = Fraction(x)
    return Fraction(0) if abs(value) < _MIN_NORMAL else value


def squared_distance(a: np.ndarray, b: np.ndarray, rule: str) -> float:
    """Squared distance of two finite float32 points under a rule of the design."""
    t = []
    for p, q in zip(a.tolist(), b.tolist(), strict=True):
        t.append(round32(_daz(p) - _daz(q)))
    order = [1, 0, 2] if rule == "fma_yxz" else list(range(len(t)))
    acc = 0.0
    for n, d in enumerate(order):
        if abs(t[d]) == float("inf") or acc == float("inf"):
            acc = float("inf")
            continue
        product = Fraction(t[d]) * Fraction(t[d])
        if rule == "separate" or n == 0:
            product = round32(product)
            if product == float("inf"):
                acc = product
                continue
        acc = round32(Fraction(product) + Fraction(acc))
    return acc


def root32(exact: Fraction) -> float:
    """Nearest float32 to a square root."""
    scale = 2**200  # far more digits than the rounding looks at, and one that tells of the rest
    number = exact.numerator * scale * scale // exact.denominator
    whole = isqrt(number)
    exactly = whole * whole == number and number * exact.denominator == exact.numerator * scale**2
    return round32(Fraction(2 * whole + (not exactly), 2 * scale))


def _fma_chain(a: np.ndarray, b: np.ndarray) -> float:
    acc = 0.0
    for p, q in zip(a.tolist(), b.tolist(), strict=True):
        if abs(acc) != float("inf"):
            acc = round32(_daz(p) * _daz(q) + Fraction(acc))
    return acc


def cosine_distance(a: np.ndarray, b: np.ndarray) -> float | None:
    """Cosine distance of two float32 vectors; None if one of them is not finite or has no norm."""
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    squares, dot = (_fma_chain(a, a), _fma_chain(b, b)), _fma_chain(a, b)
    if 0.0 in squares:
        return None
    if abs(dot) == float("inf"):
        return float("inf")
    if float("inf") in squares:
        return 1.0
    norms = round32(Fraction(root32(Fraction(squares[0]))) * Fraction(root32(Fraction(squares[1]))))
    return round32(1 - Fraction(round32(Fraction(dot) / Fraction(norms))))


def knn(query: np.ndarray, ref: np.ndarray, k: int, rule: str) -> tuple[list, list]:
    """Squared distances and indices, sorted by (distance, index)."""
    distances, indices = [], []
    for q in query:
        pairs = sorted(
            (squared_distance(p, q, rule), i)
            for i, p in enumerate(ref)
            if np.isfinite(p).all() and np.isfinite(q).all()
        )[:k]
        pairs += [(float("inf"), -1)] * (k - len(pairs))
        distances.append([d for d, _ in pairs])
        indices.append([i for _, i in pairs])
    return distances, indices


def ball(query: np.ndarray, ref: np.ndarray, squared: float, K: int, rule: str) -> list:
    """Indices of the first K points with a squared distance below `squared`."""
    rows = []
    for q in query:
        row = []
        for i, p in enumerate(ref):
            finite = np.isfinite(p).all() and np.isfinite(q).all()
            if len(row) < K and finite and squared_distance(p, q, rule) < squared:
                row.append(i)
        rows.append(row + [-1] * (K - len(row)))
    return rows


def fps(points: np.ndarray, npoint: int, start: int, rule: str, *, skip: bool = False) -> list:
    """Farthest point sampling, lowest index on ties."""
    eligible = []
    for i, p in enumerate(points):
        if not np.isfinite(p).all():
            continue
        if skip and squared_distance(p, np.zeros_like(p), rule) <= 1e-3:
            continue
        eligible.append(i)
    nearest = {i: float("inf") for i in eligible}
    picks = [start]
    while len(picks) < npoint:
        centre = points[picks[-1]]
        if np.isfinite(centre).all():
            for i in eligible:
                nearest[i] = min(nearest[i], squared_distance(points[i], centre, rule))
        # max keeps the first of equal values, and eligible ascends
        picks.append(max(eligible, key=lambda i: nearest[i]) if eligible else 0)
    return picks[:npoint]


def thread_block_fps(points: np.ndarray, npoint: int) -> list:
    """pointnet2_ops' thread block, played literally: its tie order, without the origin rule."""
    size = len(points)
    block = 1
    while block * 2 <= min(size, 512):
        block *= 2
    nearest = [float("inf")] * size
    picks = [0]
    while len(picks) < npoint:
        centre = points[picks[-1]]
        best, besti = [-1.0] * block, [0] * block
        for thread in range(block):
            for i in range(thread, size, block):
                nearest[i] = min(nearest[i], squared_distance(points[i], centre, "fma_yxz"))
                if nearest[i] > best[thread]:
                    best[thread], besti[thread] = nearest[i], i
        half = block // 2
        while half >= 1:
            for thread in range(half):
                if best[thread + half] > best[thread]:
                    besti[thread] = besti[thread + half]
                    best[thread] = best[thread + half]
            half //= 2
        picks.append(besti[0])
    return picks[:npoint]
