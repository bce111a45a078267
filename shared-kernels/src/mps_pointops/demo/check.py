"""Comparison with the references, value by value and bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mps_pointops.demo.progress import Progress
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.fps.reference import furthest_point_sample_reference
from mps_pointops.ops.knn.reference import knn_reference

# pairs of points that a reference looks at in well under a minute
_PAIRS = 150_000_000
_ROWS = 16


@dataclass(frozen=True)
class Verdict:
    """What a comparison found.

    Attributes:
        mismatches: Values that differ.
        checked: Rows that were compared.
        total: Rows of the result.
        unit: What a row is.
    """

    mismatches: int
    checked: int
    total: int
    unit: str

    def with_more(self, mismatches: int) -> Verdict:
        """The same with more mismatches."""
        return replace(self, mismatches=self.mismatches + mismatches)

    def describe(self) -> str:
        """How much was checked."""
        if self.checked == self.total:
            return f"all {self.total} {self.unit}"
        return f"{self.checked} of {self.total} {self.unit}"


class _Reference(Protocol):
    def __call__(self, query: Tensor, /) -> tuple[Tensor, Tensor]: ...


def differences(got: Tensor, wanted: Tensor) -> int:
    """Values that differ in any bit; all of them if shape or dtype differ."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return max(got.numel(), wanted.numel(), 1)
    if got.dtype == torch.float32:
        got, wanted = (tensor.contiguous().view(torch.int32) for tensor in (got, wanted))
    return int(torch.count_nonzero(got != wanted))


class Checker:
    """Compares results with the references, on CPU tensors of one cloud."""

    def __init__(self, progress: Progress, *, check_all: bool = False, pairs: int = _PAIRS) -> None:
        """Set how much is checked.

        Args:
            progress: Where long checks are shown.
            check_all: Check every row; else so many that a reference sees `pairs` pairs at most.
            pairs: See `check_all`.
        """
        self._progress = progress
        self._pairs = None if check_all else pairs

    def _affordable(self, rows: int, points: int) -> int:
        return rows if self._pairs is None else max(1, min(rows, self._pairs // points))

    def sampling(self, cloud: Tensor, npoint: int, output: tuple[Tensor, ...]) -> Verdict:
        """Picks [1, npoint] of a cloud [N, 3]; what is left out are the last picks."""
        count = self._affordable(npoint, len(cloud))
        with self._progress.stage("checking furthest_point_sample"):
            wanted = furthest_point_sample_reference(cloud, count)
        got = output[0]
        if got.shape != (1, npoint):
            return Verdict(max(got.numel(), npoint), count, npoint, "picks")
        return Verdict(differences(got[0, :count], wanted), count, npoint, "picks")

    def gather(
        self, points: NDArray[np.float32], picks: Tensor, output: tuple[Tensor, ...]
    ) -> Verdict:
        """Centres [1, M, 3] against NumPy's indexing."""
        wanted = torch.from_numpy(points[picks.numpy()])
        rows = picks.numel()
        return Verdict(differences(output[0], wanted), rows, rows, "centres")

    def knn(self, query: Tensor, cloud: Tensor, k: int, output: tuple[Tensor, ...]) -> Verdict:
        """Distances and indices [1, M, k]."""

        def reference(some: Tensor, /) -> tuple[Tensor, Tensor]:
            squared, index = knn_reference(some, cloud, k)
            # in float64, then rounded: torch's float32 root on the CPU may miss the last bit
            return squared.to(torch.float64).sqrt().to(torch.float32), index

        return self._by_rows("knn", reference, query, cloud, k, output)

    def ball_query(
        self, query: Tensor, cloud: Tensor, radius: float, slots: int, output: tuple[Tensor, ...]
    ) -> Verdict:
        """Squared distances and indices [1, M, slots]."""
        reference: Any = partial(ball_query_reference, ref=cloud, radius=radius, K=slots)
        return self._by_rows("ball_query", reference, query, cloud, slots, output)

    def _by_rows(
        self,
        name: str,
        reference: _Reference,
        query: Tensor,
        cloud: Tensor,
        slots: int,
        output: tuple[Tensor, ...],
    ) -> Verdict:
        rows = len(query)
        count = self._affordable(rows, len(cloud))
        if any(tensor.shape != (1, rows, slots) for tensor in output):
            return Verdict(sum(tensor.numel() for tensor in output) or 1, 0, rows, "queries")
        # evenly spread: the first centres are the outermost points, the last lie in between
        chosen = torch.linspace(0, rows - 1, count, dtype=torch.float64).round().to(torch.int64)
        mismatches = 0
        with self._progress.stage(f"checking {name}", total=count) as stage:
            for begin in range(0, count, _ROWS):
                some = chosen[begin : begin + _ROWS]
                for got, wanted in zip(output, reference(query[some]), strict=True):
                    mismatches += differences(got[0, some], wanted)
                stage.advance(len(some))
        return Verdict(mismatches, count, rows, "queries")
