"""Searches among points that are kept ready: what a `SpatialIndex` runs on each device."""

from __future__ import annotations

from torch import Tensor

from mps_pointops._arithmetic import square_root
from mps_pointops._cpu.tree import Trees
from mps_pointops._edges import Counts, edges
from mps_pointops._metal.choices import INDEX_BALL_PLACES, INDEX_POINTS, INDEX_SHARE
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.ball_query import ball_count, ball_search
from mps_pointops.ops.ball_query.cpu import ball_count_cpu, ball_list_cpu, ball_query_cpu
from mps_pointops.ops.ball_query.walk import tree_ball
from mps_pointops.ops.knn.knn import knn_search
from mps_pointops.ops.knn.squared import nearest_points
from mps_pointops.ops.knn.tree import tree_knn
from mps_pointops.spatial.build import build
from mps_pointops.spatial.layout import MAX_DIM, Tree


def version_of(tensor: Tensor | None) -> int:
    """How often a tensor, or what it shares memory with, was written to; 0 if it does not tell."""
    return 0 if tensor is None or tensor.is_inference() else tensor._version


class Prepared:
    """Points [N, D], contiguous float32, of `clouds` clouds of equal sizes or as `ptr` tells.

    The searches take the arguments of the operators `knn` and `ball_query` and give what those
    give; queries [M, D] are contiguous float32.
    """

    def __init__(self, points: Tensor, clouds: int, ptr: Tensor | None) -> None:
        self.points, self.clouds = points, clouds
        self.trees: Trees | None = None
        self.tree: Tree | None = None
        size, dim = points.shape
        # of a cloud, on average
        self._size = size // max(1, clouds if ptr is None else ptr.shape[0] - 1)
        if points.device.type == "cpu":
            self.trees = Trees(points.numpy())
        elif dim <= MAX_DIM and self._size >= INDEX_POINTS:
            if ptr is None:
                self.tree = build(points, clouds=clouds)
            else:
                self.tree = build(points, ptr[:-1], ptr[1:])

    def knn(
        self,
        query: Tensor,
        first: Tensor | None,
        last: Tensor | None,
        k: int,
        euclidean: bool,
        rule: Rule,
        own: bool,
    ) -> tuple[Tensor, Tensor]:
        """Nearest neighbours; `own`: the queries are the points themselves."""
        clouds = self.clouds if first is None else 1
        arguments = (first, last, clouds, k)
        if rule is not Rule.COSINE and self.trees is not None:
            distance, index = nearest_points(query, self.points, *arguments, rule, self.trees)
            return (square_root(distance) if euclidean else distance), index
        suits = rule is not Rule.COSINE and self._size >= INDEX_SHARE * k
        if suits and self.tree is not None:
            return tree_knn(self.tree, query, *arguments, euclidean, rule.value, own=own)
        return knn_search(query, self.points, *arguments, euclidean, rule.value)  # type: ignore[no-any-return]

    def ball(
        self,
        query: Tensor,
        first: Tensor | None,
        last: Tensor | None,
        K: int,
        radius: float,
        round_radius: bool,
        ignore_same_index: bool,
        rule: Rule,
    ) -> tuple[Tensor, Tensor]:
        """The first K points within a radius."""
        clouds = self.clouds if first is None else 1
        arguments = (first, last, clouds, K, radius, round_radius, ignore_same_index, rule.value)
        if self.trees is not None:
            return ball_query_cpu(query, self.points, *arguments, self.trees)
        if self.tree is not None and INDEX_BALL_PLACES * self._size >= K * K:
            distance, index = tree_ball(self.tree, self.points, query, *arguments, count=False)
            assert distance is not None
            return distance, index
        return ball_search(query, self.points, *arguments)  # type: ignore[no-any-return]

    def count(
        self,
        query: Tensor,
        first: Tensor | None,
        last: Tensor | None,
        K: int,
        radius: float,
        ignore_same_index: bool,
        rule: Rule,
    ) -> Tensor:
        """How many points `ball` would find."""
        clouds = self.clouds if first is None else 1
        arguments = (first, last, clouds, K, radius, False, ignore_same_index, rule.value)
        if self.trees is not None:
            return ball_count_cpu(query, self.points, *arguments, self.trees)
        if self.tree is not None:
            return tree_ball(self.tree, self.points, query, *arguments, count=True)[1]
        return ball_count(query, self.points, *arguments)  # type: ignore[no-any-return]

    def listed(
        self,
        query: Tensor,
        first: Tensor | None,
        last: Tensor | None,
        counts: Counts,
        radius: float,
        ignore_same_index: bool,
        rule: Rule,
    ) -> Tensor:
        """Edges [2, total] of what `count` with the same arguments has counted."""
        limits = (radius, False, ignore_same_index, rule)
        if self.trees is not None:
            clouds = self.clouds if first is None else 1
            arguments = (first, last, clouds, counts, *limits[:3], rule.value, self.trees)
            return ball_list_cpu(query, self.points, *arguments)
        _, index = self.ball(query, first, last, counts.most, *limits)
        return edges(index, counts)
