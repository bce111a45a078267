"""The clouds of the benchmarks. Every one lies in [-1, 1] along its longest side."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

_DATA = Path(__file__).parents[2] / "integration-tests" / "data"


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cube(size: int, seed: int = 0) -> Tensor:
    """Uniform in the cube [size, 3]."""
    return torch.rand(size, 3, generator=_random(seed)) * 2 - 1


def sphere(size: int, seed: int = 0) -> Tensor:
    """Points near the unit sphere [size, 3], in random order."""
    rng = _random(seed)
    points = torch.randn(size, 3, generator=rng)
    points /= points.norm(dim=1, keepdim=True)
    return points + 0.01 * torch.randn(size, 3, generator=rng)


def scan(size: int, seed: int = 0) -> Tensor:
    """A scanned surface [size, 3], in file order.

    The 22,998 vertices of the dragon; fewer are every n-th of them, and more are each vertex
    several times in a row, moved at random by about a tenth of their spacing.
    """
    points = _read("dragon", "points_23k")
    if size <= len(points):
        return points[torch.arange(size) * len(points) // size]
    rows = torch.arange(size) * len(points) // size
    return points[rows] + 1e-3 * torch.randn(size, 3, generator=_random(seed))


def lidar(size: int, seed: int = 0) -> Tensor:
    """An airborne LiDAR tile [size, 3], in flight order.

    110,000 points; fewer are every n-th of them, more are the tile again beside itself.
    """
    points = _read("autzen_lidar", "points")
    if size <= len(points):
        return points[torch.arange(size) * len(points) // size]
    copies = -(-size // len(points))
    side = int(np.ceil(np.sqrt(copies)))
    extent = points.amax(0) - points.amin(0)
    tiles = [
        points + extent * torch.tensor([number % side, number // side, 0])
        for number in range(copies)
    ]
    return _unit(torch.cat(tiles)[:size])


def clustered(size: int, seed: int = 0) -> Tensor:
    """Nine of ten points in one cluster a thousandth as wide as the rest [size, 3]."""
    points = cube(size, seed)
    inside = torch.rand(size, generator=_random(seed + 1)) < 0.9
    return torch.where(inside[:, None], points * 1e-3 + 0.25, points)


def lattice(size: int, seed: int = 1) -> Tensor:
    """Points on a cubic grid [size, 3], in random order: ties everywhere."""
    side = round(size ** (1 / 3)) + 1
    number = torch.randperm(size, generator=_random(seed))
    digits = (number % side, number // side % side, number // side**2)
    return torch.stack(digits, dim=1).float() / side * 2 - 1


def outlier(size: int, seed: int = 0) -> Tensor:
    """A cube [size, 3] whose last point lies a hundred thousand times as far away."""
    points = cube(size, seed) * 1e-5
    points[-1] = 1
    return points


def equal(size: int, seed: int = 0) -> Tensor:
    """The same point everywhere [size, 3]."""
    return torch.full((size, 3), 0.5)


def line(size: int, seed: int = 0) -> Tensor:
    """Points of a diagonal [size, 3], in random order."""
    return (torch.rand(size, 1, generator=_random(seed)) * 2 - 1).expand(size, 3).contiguous()


def few_places(size: int, seed: int = 0) -> Tensor:
    """A hundred places in the cube, each with a hundredth of the points [size, 3]."""
    return cube(100, seed)[torch.randint(100, (size,), generator=_random(seed + 1))]


def features(size: int, dim: int, seed: int = 0) -> Tensor:
    """Normal numbers [size, dim]."""
    return torch.randn(size, dim, generator=_random(seed))


def sorted_sphere(size: int, seed: int = 0) -> Tensor:
    """The points of `sphere` in ascending x."""
    points = sphere(size, seed)
    return points[points[:, 0].argsort()]


def shuffled_lidar(size: int, seed: int = 0) -> Tensor:
    """The points of `lidar` in random order."""
    return lidar(size)[torch.randperm(size, generator=_random(seed))]


CLOUDS: dict[str, Callable[..., Tensor]] = {
    "cube": cube,
    "sphere": sphere,
    "scan": scan,
    "lidar": lidar,
    "clustered": clustered,
    "lattice": lattice,
    "far outlier": outlier,
    "all equal": equal,
    "line": line,
    "few places": few_places,
    "sphere sorted by x": sorted_sphere,
    "lidar shuffled": shuffled_lidar,
}
ADVERSARIES = ("all equal", "far outlier", "clustered", "line")


def batch(name: str, clouds: int, size: int) -> Tensor:
    """Clouds of one kind [clouds, size, 3], drawn each for itself."""
    return torch.stack([CLOUDS[name](size, seed) for seed in range(clouds)])


def some_of(points: Tensor, count: int) -> Tensor:
    """`count` rows of a cloud, in random order."""
    return points[torch.randperm(len(points), generator=_random(2))[:count]]


@cache
def _read(name: str, array: str) -> Tensor:
    return _unit(torch.from_numpy(np.load(_DATA / f"{name}.npz")[array]))


def _unit(points: Tensor) -> Tensor:
    """Moved and scaled into [-1, 1] along the longest side."""
    low, high = points.amin(0), points.amax(0)
    return (points - (low + high) / 2) * (2 / (high - low).max())
