"""The cases of `cuda_check.py`: operators, and arguments on the CPU."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "shared-kernels" / "tests"))

import torch

import mps_pointops as ops
from mps_pointops import flat
from mps_pointops.ops.graclus_cluster.graclus_cluster import greedy_matching
from mps_pointops.ops.inverse_index.inverse_index import positions_of, stable_order
from mps_pointops.ops.random_walk.graph import row_begins, sort_edges
from mps_pointops.ops.random_walk.random_walk import random_walk_seeded
from pointops_testing.clouds import CLOUDS, cloud

Case = tuple[str, Callable[..., object], tuple[object, ...]]
Section = Callable[[bool], Iterator[Case]]
RULES = ("separate", "fma_xyz", "fma_yxz")


def fps(small: bool) -> Iterator[Case]:
    sizes = (1, 33, 300) if small else (1, 32, 33, 1025, 3000)
    for name in CLOUDS:
        for size in sizes:
            points = torch.stack([cloud(name, size, seed=s) for s in range(3)])
            for rule in RULES:
                for ties in ("lowest_index", "bit_reversed"):
                    for skip in (False, True):
                        yield (
                            f"fps {name} {size} {rule} {ties}",
                            lambda p, size=size, skip=skip, rule=rule, ties=ties: (
                                ops.furthest_point_sample(
                                    p, min(size + 2, 200), 0, skip, rule=rule, ties=ties
                                )
                            ),
                            (points,),
                        )


def knn(small: bool) -> Iterator[Case]:
    shapes = ((33, 40, 3, 33), (20, 300, 7, 5)) if small else (
        (1, 1, 3, 1), (33, 33, 3, 33), (40, 1025, 3, 20), (9, 3000, 3, 700), (30, 1500, 1, 64),
        (30, 500, 5, 129), (64, 2000, 64, 20),
    )  # fmt: skip
    for name in CLOUDS:
        for rows, size, dim, k in shapes:
            ref = torch.stack([cloud(name, size, dim, seed=s) for s in (1, 2)])
            query = torch.cat(
                (ref[:, : rows // 2], cloud(name, rows, dim)[None].expand(2, -1, -1)), 1
            )
            for rule in (*RULES[: 3 if dim == 3 else 2], "cosine"):
                yield (
                    f"knn {name} {rows} of {size}, D={dim}, k={k} {rule}",
                    lambda q, r, k=k, rule=rule: ops.knn(q, r, k, rule=rule),
                    (query, ref),
                )
            if dim == 3:
                for rule in RULES:
                    yield (
                        f"three_nn {name} {size}",
                        lambda q, r, rule=rule: ops.three_nn(q, r, rule=rule),
                        (query, ref),
                    )


def ball_query(small: bool) -> Iterator[Case]:
    shapes = ((33, 40, 3, 8),) if small else ((33, 33, 3, 40), (40, 3000, 3, 32), (20, 1025, 5, 64))
    for name in CLOUDS:
        for rows, size, dim, slots in shapes:
            ref = torch.stack([cloud(name, size, dim, seed=s) for s in (1, 2)])
            query = ref[:, :rows].flip(1)
            for radius in (0.0, 1e-19, 0.3, 1.0, 1e19):
                for rule in RULES[: 3 if dim == 3 else 2]:
                    yield (
                        f"ball_query {name} {size} r={radius} {rule}",
                        lambda q, r, radius=radius, slots=slots, rule=rule: ops.ball_query(
                            q, r, radius, slots, rule=rule
                        ),
                        (query, ref),
                    )


def features(small: bool) -> Iterator[Case]:
    rng = torch.Generator().manual_seed(3)
    # sums in threadgroup memory, through the inverse index, and in device memory
    shapes = ((2, 3, 33, 65), (1, 1, 40, 1100), (1, 2, 8200, 40))
    for clouds, channels, size, count in shapes if small else (
        *shapes, (4, 64, 3000, 5000), (1, 2, 500, 100_000), (2, 8, 9000, 5000),
    ):  # fmt: skip
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            values = torch.randn(clouds, channels, size, generator=rng).to(dtype)
            for index_dtype in (torch.int32, torch.int64):
                index = torch.randint(size, (clouds, count), generator=rng).to(index_dtype)
                three = torch.randint(size, (clouds, count, 3), generator=rng).to(index_dtype)
                weight = torch.rand(clouds, count, 3, generator=rng)
                picked = ops.gather_points(values, index)
                shape = f"{clouds} x {channels} x {size}, {count} {dtype} {index_dtype}"
                yield f"gather {shape}", ops.gather_points, (values, index)
                yield f"group {shape}", ops.group_points, (values, three)
                yield f"interpolate {shape}", ops.three_interpolate, (values, three, weight)
                yield (
                    f"scatter {shape}",
                    lambda v, i, size=size: ops.scatter_points(v, i, size),
                    (picked, index),
                )
                yield (
                    f"three_scatter {shape}",
                    lambda v, i, w, size=size: ops.three_scatter(v, i, w, size),
                    (picked, three, weight),
                )
                yield (
                    f"positions_of {shape}",
                    lambda i, size=size: positions_of(i, size),
                    (index,),
                )


def order(small: bool) -> Iterator[Case]:
    rng = torch.Generator().manual_seed(4)
    for size in (1, 33, 1025) if small else (1, 31, 32, 33, 1023, 1025, 100_000, 1_000_000):
        for highest in (1, 255, 256, 70_000, 2**31 - 1):
            keys = torch.randint(highest + 1, (size,), generator=rng).to(torch.int32)
            yield (
                f"stable_order {size} keys to {highest}",
                lambda k, highest=highest: stable_order(k, highest),
                (keys,),
            )


def ragged(small: bool) -> Iterator[Case]:
    sizes = [5, 1, 40, 33] if small else [5, 1, 400, 1025, 33, 2000]
    rows = [3, 2, 20, 33] if small else [3, 2, 100, 33, 40, 500]
    batch_x = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    batch_y = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(rows))
    for name in CLOUDS:
        for dim in (2, 3):
            x, y = cloud(name, sum(sizes), dim), cloud(name, sum(rows), dim, seed=5)
            yield f"flat.fps {name}", lambda x, b: flat.fps(x, b, 0.3, False), (x, batch_x)
            both = (x, y, batch_x, batch_y)
            yield f"flat.knn {name}", lambda x, y, b, c: flat.knn(x, y, 6, b, c), both
            yield (
                f"flat.knn cosine {name}",
                lambda x, y, b, c: flat.knn(x, y, 6, b, c, rule="cosine"),
                both,
            )
            yield f"flat.radius {name}", lambda x, y, b, c: flat.radius(x, y, 0.5, b, c), both
            yield f"flat.nearest {name}", lambda x, y, b, c: flat.nearest(y, x, c, b), both
            low, high = torch.full((dim,), -3.0), torch.full((dim,), 3.0)
            step = torch.full((dim,), 0.37)
            yield f"flat.grid_cluster {name}", flat.grid_cluster, (x, step, low, high)
    rng = torch.Generator().manual_seed(6)
    whole = torch.randint(-(10**12), 10**12, (sum(sizes), 3), generator=rng)
    yield "flat.grid_cluster integers", flat.grid_cluster, (whole, torch.tensor([7, 10**6, 1]))


def graphs(small: bool) -> Iterator[Case]:
    rng = torch.Generator().manual_seed(7)
    for nodes, edges in (
        ((3, 2), (50, 400)) if small else ((3, 2), (50, 400), (5000, 60_000), (100_000, 500_000))
    ):
        a, b = (torch.randint(nodes, (edges,), generator=rng) for _ in range(2))
        yield (
            f"graclus {nodes} nodes {edges} edges",
            lambda a, b, nodes=nodes: greedy_matching(a, b, nodes),
            (a, b),
        )
        line = torch.randperm(nodes - 1, generator=rng)
        yield (
            f"graclus path {nodes}",
            lambda a, b, nodes=nodes: greedy_matching(a, b, nodes),
            (line, line + 1),
        )
        row, col, _ = sort_edges(torch.cat((a, b)), torch.cat((b, a)), nodes)
        whole = row_begins(row, nodes)
        start = torch.randint(nodes, (min(4 * nodes, 2000),), generator=rng)
        seed = torch.tensor([1, 22, 333, 4444], dtype=torch.int32)
        for p, q in ((1, 1), (0.25, 4), (4, 0.25), (1e-6, 1e6), (1e6, 1)):
            for dtype in (torch.int32, torch.int64):
                yield (
                    f"random_walk {nodes} nodes p={p} q={q} {dtype}",
                    lambda r, c, s, seed, p=p, q=q: random_walk_seeded(r, c, s, 12, p, q, seed),
                    (whole.to(dtype), col.to(dtype), start, seed),
                )


def index(small: bool) -> Iterator[Case]:
    sizes = (1, 33, 300) if small else (1, 32, 33, 1025, 5000, 40_000)
    for name in CLOUDS:
        for size in sizes:
            points = torch.stack([cloud(name, size, seed=s) for s in (1, 2)])
            query = torch.cat((points[:, : 40 if small else 300].flip(1), points[:, :5] + 0.1), 1)
            for k in sorted({1, min(size, 17), min(size, 200)}):
                yield (
                    f"SpatialIndex.knn {name} {size} k={k}",
                    lambda p, q, k=k: ops.SpatialIndex(p).knn(q, k),
                    (points, query),
                )
            yield (
                f"SpatialIndex.knn {name} {size} of itself",
                lambda p: (lambda i: i.knn(i.points, min(p.shape[1], 16)))(ops.SpatialIndex(p)),
                (points,),
            )
            for radius, slots in ((0.3, 8), (1.0, 64)):
                yield (
                    f"SpatialIndex.ball_query {name} {size} r={radius}",
                    lambda p, q, radius=radius, slots=slots: ops.SpatialIndex(p).ball_query(
                        q, radius, slots
                    ),
                    (points, query),
                )
            flat_points, ptr = points.flatten(0, 1), torch.tensor([0, size // 3, 2 * size])
            half = len(query[0])
            asked = torch.tensor([0, half // 2, 2 * half])
            given = (flat_points, ptr, query.flatten(0, 1), asked)
            if size > 2:
                yield (
                    f"SpatialIndex.nearest {name} {size}, clouds of different sizes",
                    lambda p, ptr, q, asked: ops.SpatialIndex(p, ptr).nearest(q, ptr=asked),
                    given,
                )
                yield (
                    f"SpatialIndex.radius {name} {size}, clouds of different sizes",
                    lambda p, ptr, q, asked: ops.SpatialIndex(p, ptr).radius(q, 0.4, 20, ptr=asked),
                    given,
                )


SECTIONS = (fps, knn, ball_query, features, order, ragged, graphs, index)
