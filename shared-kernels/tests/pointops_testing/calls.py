"""Every public operator, called on data large enough for each way that its CPU path has."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import mps_pointops
from mps_pointops import SpatialIndex, flat, pytorch3d
from pointops_testing.clouds import cloud

RANDOM = {"flat.fps", "flat.graclus_cluster", "flat.neighbor_sampler"}
RANDOM |= {"flat.random_walk", "flat.random_walk, node2vec"}
Call = Callable[[], "Tensor | tuple[Tensor, ...]"]


def calls() -> dict[str, Call]:
    """Calls by name, on tensors that are made here; random ones draw from a seed of their own."""
    x, y = cloud("random", 3000), cloud("random", 1500, seed=1)
    lattice, wide = cloud("lattice", 3000), cloud("random", 150, 33)
    tiny, x64, y64 = x[:1500] * 1e-25, x.double(), y.double()
    clouds, centres = x.view(3, 1000, 3), y.view(3, 500, 3)
    many, few = (torch.arange(n) // (n // 3) for n in (3000, 1500))
    features = cloud("random", 400, 10).t().reshape(2, 5, 400)
    rng = torch.Generator().manual_seed(0)
    index = torch.randint(400, (2, 300, 3), generator=rng)
    weight = torch.rand(2, 300, 3, generator=rng)
    source, target = torch.randint(200, (2, 1500), generator=rng)
    starts, lengths = torch.arange(200), torch.tensor([1000, 30, 7])
    rowptr = torch.arange(201) * 7
    cell = torch.tensor([0.5, 0.5, 0.5])
    kept, ptr = SpatialIndex(x), torch.tensor([0, 1000, 2000, 3000])
    parts = SpatialIndex(x, ptr)

    def seeded(call: Call) -> Call:
        def run() -> Tensor | tuple[Tensor, ...]:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(3)
                return call()

        return run

    return {
        "furthest_point_sample": lambda: mps_pointops.furthest_point_sample(clouds, 90),
        "furthest_point_sample, rounds": lambda: mps_pointops.furthest_point_sample(
            torch.cat((lattice, x))[None], 200, rule="fma_yxz", ties="bit_reversed"
        ),
        "knn": lambda: mps_pointops.knn(y[None], x[None], 9),
        "knn, lattice": lambda: mps_pointops.knn(y[None], lattice[None], 9, rule="fma_xyz"),
        "knn, pairs": lambda: mps_pointops.knn(wide[None], wide[None], 9, rule="fma_xyz"),
        "knn, cosine": lambda: mps_pointops.knn(wide[None], wide[None], 9, rule="cosine"),
        "ball_query": lambda: mps_pointops.ball_query(y[None], x[None], 0.3, 9),
        "ball_query, full": lambda: mps_pointops.ball_query(y[None], x[None], 3.0, 9),
        "ball_query, tiny": lambda: mps_pointops.ball_query(y[None] * 1e-25, tiny[None], 1e-26, 9),
        "ball_query, pairs": lambda: mps_pointops.ball_query(wide[None], wide[None], 7.0, 9),
        "three_nn": lambda: mps_pointops.three_nn(y[None], x[None]),
        "gather_points": lambda: mps_pointops.gather_points(features, index[:, :, 0]),
        "group_points": lambda: mps_pointops.group_points(features, index),
        "scatter_points": lambda: mps_pointops.scatter_points(
            weight[:, None].expand(2, 4, 300, 3), index, 400
        ),
        "three_interpolate": lambda: mps_pointops.three_interpolate(features, index, weight),
        "three_scatter": lambda: mps_pointops.three_scatter(
            features[:, :, :300], index, weight, 400
        ),
        "flat.fps": seeded(lambda: flat.fps(x, many, 0.1)),
        "flat.knn": lambda: flat.knn(x, y, 9, many, few),
        "flat.knn, float64": lambda: flat.knn(x64, y64, 9, many, few),
        "flat.radius": lambda: flat.radius(x, y, 0.4, many, few),
        "flat.radius, full": lambda: flat.radius(x, y, 3.0, many, few, 8),
        "flat.radius, float64": lambda: flat.radius(x64, y64, 0.4, many, few, 8),
        "flat.nearest": lambda: flat.nearest(y, x, few, many),
        "flat.grid_cluster": lambda: flat.grid_cluster(x, cell),
        "flat.graclus_cluster": seeded(lambda: flat.graclus_cluster(source, target, None, 200)),
        "flat.random_walk": seeded(lambda: flat.random_walk(source, target, starts, 6)),
        "flat.random_walk, node2vec": seeded(
            lambda: flat.random_walk(source, target, starts, 6, p=2.0, q=0.5)
        ),
        "flat.neighbor_sampler": seeded(lambda: flat.neighbor_sampler(starts, rowptr, 3)),
        "SpatialIndex": lambda: SpatialIndex(x).knn(y[:100], 3),
        "SpatialIndex.knn": lambda: kept.knn(y, 9),
        "SpatialIndex.ball_query": lambda: kept.ball_query(y, 0.3, 9),
        "SpatialIndex.ball_query, full": lambda: kept.ball_query(y, 3.0, 9),
        "SpatialIndex.radius": lambda: parts.radius(y, 0.3, batch=few),
        "SpatialIndex.nearest": lambda: parts.nearest(y, batch=few),
        "pytorch3d.knn_points": lambda: pytorch3d.knn_points(centres, clouds, None, lengths, K=5)[
            :2
        ],
        "pytorch3d.knn_points, norm 1": lambda: pytorch3d.knn_points(
            centres[:, :100], clouds, K=5, norm=1
        )[:2],
        "pytorch3d.ball_query": lambda: pytorch3d.ball_query(centres, clouds, K=5, radius=0.4)[:2],
        "pytorch3d.sample_farthest_points": lambda: pytorch3d.sample_farthest_points(
            clouds, lengths, K=60
        ),
    }
