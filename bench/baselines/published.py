"""Kernels of an unpacked mps-pointops 1.0.0, read where they lie and launched as it does."""

from __future__ import annotations

import functools
import math
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Kernels for half precision, which the CUDA translation does not know, are left out of a text.
_HALF = re.compile(r"^kernel void \w+\(\s*device const half\b.*?^\}\n?", re.MULTILINE | re.DOTALL)


class Published:
    """The published kernels.

    Args:
        path: The unpacked source or wheel.
    """

    def __init__(self, path: Path) -> None:
        found = sorted(path.glob("**/mps_pointops/kernels"))
        if not found:
            raise FileNotFoundError(f"no folder mps_pointops/kernels below {path}")
        self._folder = found[0]
        self._libraries: dict[str, Any] = {}

    @classmethod
    @functools.cache
    def at(cls, path: Path | None) -> Published | None:
        """The kernels below a path; None for none."""
        return None if path is None else cls(path)

    def _kernel(self, name: str, kernel: str) -> Any:
        if name not in self._libraries:
            text = (self._folder / f"{name}.metal").read_text(encoding="utf-8")
            text = _HALF.sub("", text).encode("ascii", "replace").decode()
            self._libraries[name] = torch.mps.compile_shader(text)
        return getattr(self._libraries[name], kernel)

    def fps(self, xyz: Tensor, npoint: int) -> Tensor:
        """Sample [B, npoint] of [B, N, 3]."""
        clouds, size, _ = xyz.shape
        nearest = xyz.new_empty(clouds, size)
        out = torch.empty(clouds, npoint, dtype=torch.int64, device=xyz.device)
        self._kernel("fps", "furthest_point_sample")(
            xyz, nearest, out, size, npoint, 0, 0, threads=(1024, clouds), group_size=(1024, 1)
        )
        return out

    def knn(self, query: Tensor, ref: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Distances and indices [B, M, k], k up to 256."""
        clouds, rows, dim = query.shape
        size = ref.shape[1]
        distance = query.new_empty(clouds, rows, k)
        index = torch.empty(clouds, rows, k, dtype=torch.int64, device=query.device)
        chunks = -(-size // 32)
        stride = round(chunks * 0.6180339887) % chunks
        while math.gcd(stride, chunks) != 1:
            stride += 1
        grid = {"threads": (-(-rows // 8) * 256, clouds), "group_size": (256, 1)}
        if dim == 3:
            kernel = self._kernel("knn", "knn")
            kernel(query, ref, distance, index, rows, size, k, stride, **grid)
        else:
            kernel = self._kernel("feature_knn", "feature_knn_dense")
            kernel(query, ref, distance, index, rows, size, k, dim, **grid)
        return distance, index

    def ball_query(
        self, query: Tensor, ref: Tensor, radius: float, K: int
    ) -> tuple[Tensor, Tensor]:
        """Squared distances, by its rule ("fma_xyz" here), and indices [B, M, K]."""
        clouds, rows, _ = query.shape
        size = ref.shape[1]
        distance = query.new_empty(clouds, rows, K)
        index = torch.empty(clouds, rows, K, dtype=torch.int64, device=query.device)
        lengths = [torch.full((clouds,), n, device=query.device) for n in (rows, size)]
        single = torch.tensor(radius, dtype=torch.float32)
        self._kernel("ball_query", "ball_query_f32")(
            query, ref, *lengths, index, distance, clouds, rows, size, K,
            float(single * single), float(single),
            threads=(-(-clouds * rows // 8) * 256, 1, 1), group_size=(256, 1, 1),
        )  # fmt: skip
        return distance, index
