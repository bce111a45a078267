"""What the operators are measured against, in the same run and through the same launches.

`seed_*`: kernels of ours that scan everything, as first versions of such operators do: sampling
with one threadgroup a cloud, neighbours with one simdgroup a query that inserts one by one, ball
query with one thread or one simdgroup a query, three neighbours with one thread a query.
`torch_*`: what plain PyTorch offers. Its matrix form of `cdist` is not exact.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mps_pointops._metal import (
    STEPS_PER_DISPATCH,
    STEPS_PER_THREADGROUP,
    Source,
    blocks,
    launch,
)

_RULES = {"separate": 0, "fma_xyz": 1, "fma_yxz": 2}
_OPTIONS = {"RULE": (0, 1, 2), "DIM": (3, 0)}
_FPS = Source(__package__, "seed_fps", _OPTIONS)
_KNN = Source(__package__, "seed_knn", _OPTIONS)
_BALL = Source(__package__, "seed_ball_query", {**_OPTIONS, "SIMD": (0, 1)})
_THREE = Source(__package__, "seed_three_nn", {"RULE": (0, 1, 2), "DIM": (3,)})
MOST = 256
"""Neighbours that `seed_knn` can find."""


def seed_fps(xyz: Tensor, npoint: int, rule: str = "separate") -> Tensor:
    """Indices [B, npoint] of a sample of [B, N, D], beginning with point 0."""
    clouds, size, dim = xyz.shape
    nearest = xyz.new_empty(clouds, size)
    out = torch.empty(clouds, npoint, dtype=torch.int64, device=xyz.device)
    kernel = _FPS.kernel(_RULES[rule], _dim(dim))
    for first, last in blocks(npoint, size * dim, STEPS_PER_THREADGROUP):
        shape = [size, dim, npoint, first, last]
        launch(kernel, xyz, nearest, out, shape, groups=clouds, group_size=1024)
    return out


def seed_knn(query: Tensor, ref: Tensor, k: int, rule: str = "separate") -> tuple[Tensor, Tensor]:
    """Distances and indices [B, M, k] of the neighbours of [B, M, D] in [B, N, D]."""
    clouds, rows, dim = query.shape
    size = ref.shape[1]
    distance = query.new_empty(clouds, rows, k)
    index = torch.empty(clouds, rows, k, dtype=torch.int64, device=query.device)
    chunks = -(-size // 32)
    stride = max(1, round(chunks * 0.6180339887) % chunks)
    while math.gcd(stride, chunks) != 1:
        stride += 1
    kernel = _KNN.kernel(_RULES[rule], _dim(dim))
    for begin, end in blocks(clouds * rows, size * dim, STEPS_PER_DISPATCH, 8):
        shape = [end, rows, size, dim, k, stride % chunks, begin]
        groups = -(-(end - begin) // 8)
        launch(kernel, query, ref, distance, index, shape, groups=groups, group_size=256)
    return distance, index


def seed_ball_query(
    query: Tensor, ref: Tensor, radius: float, K: int, rule: str = "fma_xyz", *, simd: bool
) -> tuple[Tensor, Tensor]:
    """Squared distances and indices [B, M, K] of the first points of [B, N, D] within a radius."""
    clouds, rows, dim = query.shape
    size = ref.shape[1]
    distance = query.new_empty(clouds, rows, K)
    index = torch.empty(clouds, rows, K, dtype=torch.int64, device=query.device)
    kernel = _BALL.kernel(_RULES[rule], _dim(dim), int(simd))
    single = torch.tensor(radius, dtype=torch.float32)
    per_group = 8 if simd else 256
    for begin, end in blocks(clouds * rows, size * dim, STEPS_PER_DISPATCH, per_group):
        shape = [end, rows, size, dim, K, begin]
        groups = -(-(end - begin) // per_group)
        threshold = float(single * single)
        launch(kernel, query, ref, distance, index, shape, threshold, groups=groups, group_size=256)
    return distance, index


def seed_three_nn(unknown: Tensor, known: Tensor, rule: str = "fma_yxz") -> tuple[Tensor, Tensor]:
    """Distances and indices [B, M, 3] of the neighbours of [B, M, 3] in [B, N, 3]."""
    clouds, rows, _ = unknown.shape
    distance = torch.empty_like(unknown)
    index = torch.empty(clouds, rows, 3, dtype=torch.int64, device=unknown.device)
    launch(
        _THREE.kernel(_RULES[rule], 3), unknown, known, distance, index,
        [clouds * rows, rows, known.shape[1]], groups=-(-clouds * rows // 256), group_size=256,
    )  # fmt: skip
    return distance, index


def torch_fps(xyz: Tensor, npoint: int) -> Tensor:
    """The usual loop: [B, npoint] of [B, N, 3]."""
    out = torch.zeros(xyz.shape[0], npoint, dtype=torch.int64, device=xyz.device)
    nearest = torch.full(xyz.shape[:2], math.inf, dtype=xyz.dtype, device=xyz.device)
    pick = out[:, :1]
    for step in range(1, npoint):
        delta = xyz - xyz.gather(1, pick[..., None].expand(-1, -1, 3))
        square = delta * delta
        nearest = torch.minimum(nearest, square[..., 0] + square[..., 1] + square[..., 2])
        pick = nearest.argmax(1, keepdim=True)
        out[:, step : step + 1] = pick
    return out


def torch_knn(query: Tensor, ref: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`cdist` and `topk`: quadratic memory, inexact distances, ties in any order."""
    found = torch.cdist(query, ref).topk(k, largest=False)
    return found.values, found.indices


def torch_ball_query(query: Tensor, ref: Tensor, radius: float, K: int) -> Tensor:
    """`cdist`, and the smallest indices within the radius [B, M, K]; -1 where there is none."""
    size = ref.shape[1]
    number = torch.arange(size, device=ref.device, dtype=torch.int32)
    inside = torch.cdist(query, ref) < radius
    first = torch.where(inside, number, size).topk(min(K, size), largest=False, sorted=True).values
    return torch.where(first < size, first, -1).to(torch.int64)


def _dim(dim: int) -> int:
    return 3 if dim == 3 else 0
