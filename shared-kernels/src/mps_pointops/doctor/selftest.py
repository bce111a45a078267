"""Every operator on small clouds, compared with its reference bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import mps_pointops
from mps_pointops import flat
from mps_pointops._arithmetic import square_root
from mps_pointops._rules import Rule, Ties
from mps_pointops.doctor.finding import OK, PROBLEM, Finding
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.fps.reference import furthest_point_sample_reference
from mps_pointops.ops.gather.reference import gather_reference, scatter_reference
from mps_pointops.ops.graclus_cluster.graclus_cluster import greedy_matching
from mps_pointops.ops.graclus_cluster.reference import greedy_matching_reference
from mps_pointops.ops.grid_cluster.reference import grid_cluster_reference
from mps_pointops.ops.interpolate.reference import three_interpolate_reference
from mps_pointops.ops.inverse_index.inverse_index import positions_of
from mps_pointops.ops.inverse_index.reference import positions_of_reference
from mps_pointops.ops.knn.reference import knn_reference
from mps_pointops.ops.nearest.nearest import nearest
from mps_pointops.ops.nearest.reference import nearest_reference
from mps_pointops.ops.neighbor_sampler.reference import is_sample
from mps_pointops.ops.random_walk.random_walk import random_walk_seeded
from mps_pointops.ops.random_walk.reference import random_walk_reference
from mps_pointops.ops.three_nn.reference import three_nn_reference

Pair = tuple[Tensor, Tensor]  # what came, what was wanted
_POINTS, _QUERIES = 300, 24


class Inputs:
    """What the operators are given: the same numbers on every run, ties and gaps among them."""

    def __init__(self, device: str) -> None:
        self.device = device
        rng = torch.Generator().manual_seed(20)
        self.rng = rng
        points = torch.randn(_POINTS, 3, generator=rng, dtype=torch.float32)
        points[::3] = (points[::3] * 2).round() / 2  # a lattice: equal distances, equal points
        self.finite = points.clone()
        points[7, 1], points[90, 0] = torch.nan, torch.inf
        self.points = points
        self.query = torch.cat((points[: _QUERIES // 2], points[50 : 50 + _QUERIES // 2] + 0.01))
        self.features = torch.randn(2, 5, _POINTS, generator=rng, dtype=torch.float32)
        self.index = torch.randint(_POINTS, (2, 40), generator=rng)
        self.batch = torch.arange(3).repeat_interleave(100)
        self.query_batch = torch.tensor([0, 2]).repeat_interleave(_QUERIES // 2)

    def put(self, tensor: Tensor) -> Tensor:
        """On the device."""
        return tensor.to(self.device)


def _sampling(i: Inputs) -> Iterator[Pair]:
    for rule, ties, skip in (
        (Rule.SEPARATE, Ties.LOWEST_INDEX, False),
        (Rule.FMA_YXZ, Ties.BIT_REVERSED, True),
    ):
        got = mps_pointops.furthest_point_sample(
            i.put(i.points[None]), 60, 0, skip, rule=rule.name.lower(), ties=ties.name.lower()
        )
        yield got[0], furthest_point_sample_reference(i.points, 60, 0, skip, rule, ties)


def _knn(i: Inputs) -> Iterator[Pair]:
    for rule in (Rule.SEPARATE, Rule.FMA_XYZ, Rule.FMA_YXZ, Rule.COSINE):
        name = rule.name.lower()
        got = mps_pointops.knn(i.put(i.query[None]), i.put(i.points[None]), 20, rule=name)
        distance, index = knn_reference(i.query, i.points, 20, rule)
        yield got[0][0], distance if rule is Rule.COSINE else square_root(distance)
        yield got[1][0], index


def _ball_query(i: Inputs) -> Iterator[Pair]:
    got = mps_pointops.ball_query(i.put(i.query[None]), i.put(i.points[None]), 0.7, 12)
    wanted = ball_query_reference(i.query, i.points, 0.7, 12)
    yield from zip((got[0][0], got[1][0]), wanted, strict=True)


def _spatial_index(i: Inputs) -> Iterator[Pair]:
    index, query = mps_pointops.SpatialIndex(i.put(i.points)), i.put(i.query)
    distance, neighbor = index.knn(query, 20)
    squared, wanted = knn_reference(i.query, i.points, 20)
    yield from ((distance, square_root(squared)), (neighbor, wanted))
    inside = index.ball_query(query, 0.7, 12)
    yield from zip(inside, ball_query_reference(i.query, i.points, 0.7, 12), strict=True)


def _gather(i: Inputs) -> Iterator[Pair]:
    got = mps_pointops.gather_points(i.put(i.features), i.put(i.index))
    yield got, gather_reference(i.features, i.index)


def _group(i: Inputs) -> Iterator[Pair]:
    got = mps_pointops.group_points(i.put(i.features), i.put(i.index.view(2, 10, 4)))
    yield got.flatten(2), gather_reference(i.features, i.index)


def _scatter(i: Inputs) -> Iterator[Pair]:
    values, index = i.features[..., :40], i.index % 9
    got = mps_pointops.scatter_points(i.put(values), i.put(index), 9)
    yield got, scatter_reference(values, index, 9)


def _three_nn(i: Inputs) -> Iterator[Pair]:
    got = mps_pointops.three_nn(i.put(i.query[None]), i.put(i.points[None]))
    for found, wanted in zip(got, three_nn_reference(i.query, i.points), strict=True):
        yield found[0].to(wanted.dtype), wanted


def _weights(i: Inputs) -> tuple[Tensor, Tensor]:
    return i.index[:, :39].reshape(2, 13, 3), i.features[:, 0, :39].abs().reshape(2, 13, 3)


def _interpolate(i: Inputs) -> Iterator[Pair]:
    index, weight = _weights(i)
    got = mps_pointops.three_interpolate(i.put(i.features), i.put(index), i.put(weight))
    yield got, three_interpolate_reference(i.features, index, weight)


def _three_scatter(i: Inputs) -> Iterator[Pair]:
    index, weight = _weights(i)
    index, values = index % 9, i.features[..., :13].contiguous()
    got = mps_pointops.three_scatter(i.put(values), i.put(index), i.put(weight), 9)
    yield got, scatter_reference(values, index.flatten(1), 9, weight.flatten(1))


def _clouds(i: Inputs) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of queries and of points of every cloud."""
    for number in range(3):
        queries = (i.query_batch == number).nonzero()[:, 0]
        yield queries, (i.batch == number).nonzero()[:, 0]


def _flat_sampling(i: Inputs) -> Iterator[Pair]:
    got = flat.fps(i.put(i.points), i.put(i.batch), 0.2, random_start=False)
    picks = [p[furthest_point_sample_reference(i.points[p], 20)] for _, p in _clouds(i)]
    yield got, torch.cat(picks)


def _edges(i: Inputs, find: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    parts = []
    for queries, rows in _clouds(i):
        found = find(i.query[queries], i.points[rows])
        slot = (found >= 0).nonzero()
        parts.append(torch.stack((queries[slot[:, 0]], rows[found[slot[:, 0], slot[:, 1]]])))
    return torch.cat(parts, dim=1)


def _flat_knn(i: Inputs) -> Iterator[Pair]:
    x, y, batch_x, batch_y = map(i.put, (i.points, i.query, i.batch, i.query_batch))
    yield flat.knn(x, y, 7, batch_x, batch_y), _edges(i, lambda q, p: knn_reference(q, p, 7)[1])


def _flat_radius(i: Inputs) -> Iterator[Pair]:
    x, y, batch_x, batch_y = map(i.put, (i.points, i.query, i.batch, i.query_batch))
    got = flat.radius(x, y, 0.9, batch_x, batch_y, max_num_neighbors=8)
    rule = Rule.FMA_XYZ
    yield got, _edges(i, lambda q, p: ball_query_reference(q, p, 0.9, 8, rule, False)[1])


def _nearest(i: Inputs) -> Iterator[Pair]:
    kept = i.batch != 1  # the queries have no such cloud
    x, y, batch_x, batch_y = i.query, i.points[kept], i.query_batch, i.batch[kept]
    got = nearest(i.put(x), i.put(y), i.put(batch_x), i.put(batch_y))
    yield got, nearest_reference(x, y, batch_x, batch_y)


def _grid(i: Inputs) -> Iterator[Pair]:
    size, start, end = (torch.full((3,), n, dtype=torch.float32) for n in (0.3, -4.0, 4.0))
    got = flat.grid_cluster(*map(i.put, (i.finite, size, start, end)))
    yield got, grid_cluster_reference(i.finite, size, start, end)


def _graclus(i: Inputs) -> Iterator[Pair]:
    row, col = torch.randint(60, (2, 200), generator=i.rng)
    got = greedy_matching(i.put(row), i.put(col), 60)
    yield got, greedy_matching_reference(row, col, 60)


def _random_walk(i: Inputs) -> Iterator[Pair]:
    # every node has edges to the four after it and back
    size, reach = 30, torch.tensor([1, 2, 3, 4, 26, 27, 28, 29])
    col = ((torch.arange(size)[:, None] + reach) % size).sort(dim=1).values.flatten()
    rowptr, start = torch.arange(size + 1) * len(reach), torch.arange(size)
    seed = torch.tensor([11, 22, 33, 44], dtype=torch.int32)
    for p, q in ((1.0, 1.0), (0.5, 2.0)):
        got = random_walk_seeded(i.put(rowptr), i.put(col), i.put(start), 9, p, q, i.put(seed))
        wanted = random_walk_reference(
            rowptr.tolist(), col.tolist(), start.tolist(), 9, p, q, seed.tolist()
        )
        for found, nodes in zip(got, wanted, strict=True):
            yield found, torch.tensor(nodes)


def _neighbor_sampler(i: Inputs) -> Iterator[Pair]:
    rowptr, start = torch.arange(31) * 8, torch.arange(0, 30, 2)
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they are
        got = flat.neighbor_sampler(start, rowptr, 3)
    fits = is_sample(got.tolist(), start.tolist(), rowptr.tolist(), 3)
    yield torch.tensor(fits), torch.tensor(True)


def _inverse_index(i: Inputs) -> Iterator[Pair]:
    index = i.index % 11
    order, first = positions_of(i.put(index), 11)
    wanted = [row for cloud in positions_of_reference(index, 11) for row in cloud]
    yield order, torch.tensor([place for row in wanted for place in row], dtype=torch.int32)
    counts = torch.tensor([0, *(len(row) for row in wanted)])
    yield first, counts.cumsum(0)


OPERATORS: dict[str, Callable[[Inputs], Iterator[Pair]]] = {
    "furthest_point_sample": _sampling,
    "knn": _knn,
    "ball_query": _ball_query,
    "SpatialIndex": _spatial_index,
    "gather_points": _gather,
    "group_points": _group,
    "scatter_points": _scatter,
    "three_nn": _three_nn,
    "three_interpolate": _interpolate,
    "three_scatter": _three_scatter,
    "flat.fps": _flat_sampling,
    "flat.knn": _flat_knn,
    "flat.radius": _flat_radius,
    "flat.nearest": _nearest,
    "flat.grid_cluster": _grid,
    "flat.graclus_cluster": _graclus,
    "flat.random_walk": _random_walk,
    "flat.neighbor_sampler": _neighbor_sampler,
    "inverse_index": _inverse_index,
}
_CPU_ONLY = {"flat.neighbor_sampler"}


def check_operators(device: str) -> tuple[list[Finding], dict[str, Any]]:
    """Run all of them; an operator is right if every value equals that of its reference."""
    cure = "report it with the output of --json"
    if device == "mps":
        cure += "; until then keep the tensors on the CPU"
    facts: dict[str, Any] = {}
    findings = []
    for name, case in OPERATORS.items():
        try:
            wrong, values = _differences(case(Inputs(device)), _device_of(name, device))
            facts[name] = {"values": values, "wrong": wrong}
            if wrong:
                what = f"{wrong} of {values} values differ from the reference"
                findings.append(Finding(PROBLEM, "operators", name, what, cure))
        except Exception as error:
            first = (str(error).strip().splitlines() or ["no message"])[0]
            facts[name] = {"error": f"{type(error).__name__}: {error}"}
            what = f"raises {type(error).__name__}: {first}"
            findings.append(Finding(PROBLEM, "operators", name, what, cure))
    if not findings:
        total = sum(found["values"] for found in facts.values())
        what = f"{len(facts)} operators on {device}, {total} values, all as their references"
        findings = [Finding(OK, "operators", "all", what)]
    return findings, facts


def _device_of(name: str, device: str) -> str:
    return "cpu" if name in _CPU_ONLY else device


def _differences(pairs: Iterator[Pair], device: str) -> tuple[int, int]:
    """Values that differ in any bit, and how many there are."""
    wrong = values = 0
    for got, wanted in pairs:
        values += wanted.numel()
        if got.device.type != device or got.shape != wanted.shape or got.dtype != wanted.dtype:
            wrong += max(1, wanted.numel())
            continue
        got = got.detach().cpu().contiguous()
        if got.dtype == torch.float32:
            got, wanted = got.view(torch.int32), wanted.contiguous().view(torch.int32)
        wrong += int(torch.count_nonzero(got != wanted))
    return wrong, values
