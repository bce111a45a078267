"""Times of grouping: the packages, libraries for the CPU, plain torch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from torch import Tensor


def _wait(device: str) -> None:
    if device == "mps":
        torch.mps.synchronize()


def milliseconds(call: Callable[[], object], repeats: int, device: str = "cpu") -> float:
    """Median of calls, after one that is not counted."""
    call()
    found = []
    for _ in range(repeats):
        _wait(device)
        begin = time.perf_counter()
        call()
        _wait(device)
        found.append((time.perf_counter() - begin) * 1e3)
    return round(statistics.median(found), 3)


def plain_sample(points: Tensor, number: int) -> Tensor:
    """Farthest point sampling by a loop over torch operators: [N, 3] to [number]."""
    picks = torch.zeros(number, dtype=torch.int64, device=points.device)
    nearest = torch.full((len(points),), torch.inf, device=points.device)
    for slot in range(1, number):
        offset = points - points[picks[slot - 1]]
        nearest = torch.minimum(nearest, (offset * offset).sum(1))
        picks[slot] = nearest.argmax()
    return picks


def plain_search(points: Tensor, query: Tensor, k: int) -> Tensor:
    """Neighbours by all distances and topk."""
    return torch.cdist(query, points).topk(k, largest=False).indices


def compare(
    group: Callable[[Tensor], Any], xyz: Tensor, sizes: tuple[int, int], repeats: int
) -> dict[str, float]:
    """Median milliseconds of a cloud [1, N, 3] by name; fpsample only where it is installed."""
    number, k = sizes
    device = xyz.device.type
    points = xyz[0].contiguous()
    host = points.cpu().numpy()
    picks = plain_sample(points, number)
    query = points[picks]
    times = {"group": milliseconds(lambda: group(xyz), repeats, device)}
    plain = {
        "plain torch: sampling": lambda: plain_sample(points, number),
        "plain torch: neighbours": lambda: plain_search(points, query, k),
    }
    times |= {name: milliseconds(call, repeats, device) for name, call in plain.items()}
    asked = query.cpu().numpy()
    tree = "SciPy's tree: neighbours"
    times[tree] = milliseconds(lambda: cKDTree(host).query(asked, k), repeats)
    sampler = _fpsample()
    if sampler is not None:
        times["fpsample: sampling"] = milliseconds(lambda: sampler(host, number), repeats)
    return times


def _fpsample() -> Callable[[NDArray[np.float32], int], NDArray[Any]] | None:
    try:
        import fpsample
    except ImportError:
        return None
    return lambda points, number: fpsample.bucket_fps_kdline_sampling(
        points, number, h=5, start_idx=0
    )
