"""The work of the demo: sampling, gathering, kNN and ball query, each checked and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import mps_pointops
from mps_pointops.demo import check
from mps_pointops.demo.device import Target
from mps_pointops.demo.progress import Progress

# a measurement ends after that many runs, or after that many seconds and one run
_MOST_RUNS = 7
_SECONDS = 1.0


@dataclass(frozen=True)
class Sizes:
    """Options that fit the cloud.

    Attributes:
        npoint: Points to sample.
        k: Neighbours per centre.
        max_hits: Points per ball at most.
        check_all: Whether every result is checked, however long it takes.
        notes: What was made smaller.
    """

    npoint: int
    k: int
    max_hits: int
    check_all: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One operator of the run.

    Attributes:
        name: Operator.
        sizes: Input, in words.
        shape: Shape of the result.
        verdict: Comparison with the reference.
        first: Seconds of the first call, compilation included.
        median: Median seconds of the later calls.
        runs: Number of later calls.
    """

    name: str
    sizes: str
    shape: tuple[int, ...]
    verdict: check.Verdict
    first: float
    median: float
    runs: int


@dataclass(frozen=True)
class Result:
    """Everything a run gives: rows of the table, and what the picture shows (on the CPU).

    Attributes:
        rows: One row an operator.
        radius: Radius of the balls.
        radius_from: Where the radius comes from, in words.
        picks: Indices of the centres [npoint].
        neighbours: Indices of the nearest points [npoint, k].
        hits: Indices of the points in the balls [npoint, max_hits], -1 in empty slots.
    """

    rows: tuple[Row, ...]
    radius: float
    radius_from: str
    picks: Tensor
    neighbours: Tensor
    hits: Tensor

    @property
    def mismatches(self) -> int:
        """Differences from the references, in all."""
        return sum(row.verdict.mismatches for row in self.rows)


def shrink(points: int, npoint: int, k: int, max_hits: int, check_all: bool = False) -> Sizes:
    """Make the sizes fit a cloud of that many points."""
    wanted = {"--npoint": npoint, "--k": k, "--max-hits": max_hits}
    notes = tuple(
        f"{option} {value} is more than the cloud has, {points} is used"
        for option, value in wanted.items()
        if value > points
    )
    return Sizes(min(npoint, points), min(k, points), min(max_hits, points), check_all, notes)


@dataclass(frozen=True)
class _Measured:
    output: tuple[Tensor, ...]  # of the first call, on the CPU
    unequal: int  # values of later calls that differ from it
    first: float
    later: tuple[float, ...]


def _measure(
    name: str, call: Callable[[], tuple[Tensor, ...]], target: Target, progress: Progress
) -> _Measured:
    """Run a call again and again; every result is kept for comparison."""

    def once() -> tuple[tuple[Tensor, ...], float]:
        target.synchronize()
        begin = time.perf_counter()
        output = call()
        target.synchronize()
        seconds = time.perf_counter() - begin
        return tuple(tensor.cpu() for tensor in output), seconds

    with progress.stage(f"running {name}"):
        output, first = once()
        later: list[float] = []
        unequal = 0
        while not later or (len(later) < _MOST_RUNS and sum(later) < _SECONDS):
            again, seconds = once()
            later.append(seconds)
            unequal += sum(map(check.differences, again, output))
    return _Measured(output, unequal, first, tuple(later))


def run_pipeline(
    points: NDArray[np.float32],
    target: Target,
    sizes: Sizes,
    radius: float | None,
    progress: Progress,
) -> Result:
    """Run, check and time the operators.

    Each operator is checked on the input that it got, so that one wrong result is not counted
    again by the operators after it.

    Args:
        points: The cloud [N, 3].
        target: Device.
        sizes: Sizes that fit the cloud.
        radius: Radius of the balls; None: from the distances of the neighbours.
        progress: Where long work is shown.
    """
    cloud = torch.from_numpy(points)
    on_device = cloud[None].to(target.device)
    checker = check.Checker(progress, check_all=sizes.check_all)
    rows: list[Row] = []

    def add(name: str, size: str, measured: _Measured, verdict: check.Verdict) -> None:
        shape = tuple(measured.output[0].shape)
        verdict = verdict.with_more(measured.unequal)
        times = measured.first, statistics.median(measured.later), len(measured.later)
        rows.append(Row(name, size, shape, verdict, *times))

    size = len(points)
    name = "furthest_point_sample"
    sampled = _measure(
        name,
        lambda: (mps_pointops.furthest_point_sample(on_device, sizes.npoint),),
        target,
        progress,
    )
    verdict = checker.sampling(cloud, sizes.npoint, sampled.output)
    add(name, f"{size} points, npoint {sizes.npoint}", sampled, verdict)

    # a wrong pick that is no index at all shall be a mismatch above, not a crash below
    picks = sampled.output[0].clamp(0, size - 1)
    chosen = picks[0].to(target.device)
    name = "gather"
    gathered = _measure(
        name, lambda: (on_device[0].index_select(0, chosen)[None],), target, progress
    )
    verdict = checker.gather(points, picks, gathered.output)
    add(name, f"{size} points, {sizes.npoint} indices", gathered, verdict)

    centres = gathered.output[0]
    query = centres.to(target.device)
    name = "knn"
    nearest = _measure(name, lambda: mps_pointops.knn(query, on_device, sizes.k), target, progress)
    verdict = checker.knn(centres[0], cloud, sizes.k, nearest.output)
    add(name, f"{sizes.npoint} in {size} points, k {sizes.k}", nearest, verdict)

    if radius is None:
        radius, radius_from = default_radius(nearest.output[0], points)
    else:
        radius_from = "--radius"
    length = radius
    name = "ball_query"
    found = _measure(
        name,
        lambda: mps_pointops.ball_query(query, on_device, length, sizes.max_hits),
        target,
        progress,
    )
    verdict = checker.ball_query(centres[0], cloud, radius, sizes.max_hits, found.output)
    text = f"{sizes.npoint} in {size} points, radius {radius:.6g}, {sizes.max_hits} slots"
    add(name, text, found, verdict)
    return Result(
        tuple(rows),
        radius,
        radius_from,
        picks[0],
        nearest.output[1][0],
        found.output[1][0],
    )


def default_radius(distance: Tensor, points: NDArray[np.float32]) -> tuple[float, str]:
    """A radius that suits the cloud, and where it comes from: [1, M, k] distances, the points."""
    last = distance[..., -1].flatten()
    last = last[torch.isfinite(last)]
    radius = float(last.median()) if len(last) else 0.0
    k = distance.shape[-1]
    source = f"median distance of neighbour {k}"
    if radius == 0.0:  # k = 1, or every point many times
        sides = points.max(axis=0).astype(np.float64) - points.min(axis=0)
        radius = 0.05 * float(np.linalg.norm(sides)) or 1.0
        source = "a twentieth of the cloud's diagonal" if sides.any() else "one point: any will do"
    # few digits, so that it can be typed again
    return float(f"{radius:.3g}"), source
