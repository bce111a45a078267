"""Points that are searched many times: public class."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float,
    as_float32,
    as_int,
    as_number,
    check_points,
    check_same_device,
    check_same_size,
    fail_type,
    fail_value,
    refuse_forward_mode,
)
from mps_pointops._edges import count_edges, edges
from mps_pointops._integers import largest_where
from mps_pointops._ragged import Facts, check_ptr
from mps_pointops._registry import opaque
from mps_pointops._rules import as_rule
from mps_pointops.spatial.clouds import Ranges, cloud_ranges
from mps_pointops.spatial.found import FoundBall
from mps_pointops.spatial.search import Prepared, version_of

# Results with more slots than this are counted first, so that memory follows what is found.
_SLOTS_UNCOUNTED = 2**22


class SpatialIndex:
    """Points kept ready for many searches.

    A function of this package that searches prepares the points anew in every call. An index
    prepares them once; its methods give what the functions give, bit for bit.

        index = SpatialIndex(points)  # [B, N, 3]
        distance, neighbor = index.knn(query, 16)  # as knn(query, points, 16)

    Args:
        points: One cloud [N, D] or clouds of equal sizes [B, N, D], any D >= 1; float32, float16
            or bfloat16 (widened to float32), on cpu or mps. If they are written to, the next call
            prepares them anew (tensors of inference mode, which do not tell, must not change). Up
            to three coordinates are searched in a tree on MPS, up to eight on the CPU.
        ptr: For clouds of different sizes in points [N, D]: where they begin [B + 1], from 0 to N,
            int64 or int32, same device. Reads the device once.

    Attributes:
        points: As given.
        ptr: A copy, int64.

    Raises:
        TypeError: an argument is not a tensor of those dtypes.
        ValueError: wrong shapes, different devices, a ptr that does not ascend from 0 to N.

    Queries have the device and any of the dtypes of the points; a radius has their unit. With `ptr`
    every method has to be told the clouds of the queries: `batch` [M], the number of the cloud of
    each query in any order, int64 or int32, or `ptr` [B + 1], where the clouds begin in the
    queries. The device is then read once a call. `torch.compile` breaks off here and goes
    on after it. Contract: `spatial/README.md`.
    """

    @opaque
    def __init__(self, points: Tensor, ptr: Tensor | None = None) -> None:
        op = "SpatialIndex"
        rank = 3 if ptr is None and isinstance(points, Tensor) and points.dim() == 3 else 2
        self.points = check_points(op, "points", points, rank)
        if points.device.type == "meta":
            fail_value(op, "points", "on device cpu or mps", "device meta")
        self._dim = points.shape[-1]
        self._clouds = points.shape[0] if rank == 3 else 1
        self._size = points.shape[-2]
        self.ptr: Tensor | None = None
        if ptr is not None:
            if not isinstance(ptr, Tensor):
                fail_type(op, "ptr", "a torch.Tensor", type(ptr).__name__)
            self.ptr = check_ptr(op, "ptr", ptr, "points", points).clone()
            facts = Facts(op)
            facts.add_ptr("ptr", self.ptr, self._size)
            facts.fetch()
        self._given_ptr, self._ptr_version = ptr, version_of(ptr)
        self._points_version = version_of(points)
        self._prepared = self._prepare()

    def __repr__(self) -> str:
        """Shape, device and number of clouds."""
        clouds = self._clouds if self.ptr is None else self.ptr.shape[0] - 1
        shape, device = list(self.points.shape), self.points.device
        return f"SpatialIndex(points {shape} on {device}, {clouds} clouds)"

    @opaque
    def knn(
        self,
        query: Tensor,
        k: int,
        *,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        rule: str = "separate",
    ) -> tuple[Tensor, Tensor]:
        """The k points nearest to every query, as `mps_pointops.knn` finds them.

        Args:
            query: Queries [M, D], or [B, M, D] if the points are. The tensor of the points itself
                is searched sooner.
            k: Neighbours per query, from 0 to the number of points; there is no other limit. With
                a ptr the clouds may have fewer.
            batch: Clouds of the queries, see the class.
            ptr: Likewise.
            rule: 'separate', 'fma_xyz', (D = 3) 'fma_yxz', or 'cosine', which no tree speeds up.

        Returns:
            Distances [..., M, k], float32, ascending, and indices [..., M, k], int64: into N; with
            a ptr into all points. Slots left over are (inf, -1).

        Raises:
            TypeError, ValueError: as `mps_pointops.knn`; also for clouds of queries that are not
                clouds of the index.

        There is no gradient.
        """
        op = "SpatialIndex.knn"
        flat = self._query(op, query)
        k = as_int(op, "k", k)
        if k > self._size:
            fail_value(op, "k", f"at most the number of points ({self._size})", str(k))
        chosen = as_rule(op, rule, self._dim, cosine=True)
        first, last = self._ranges(op, query, batch, ptr, Facts(op))
        own = query is self.points and batch is None and self._is_given(ptr)
        found = self._prepared.knn(flat, first, last, k, True, chosen, own)
        return self._shaped(found[0], query, k), self._shaped(found[1], query, k)

    @opaque
    def ball_query(
        self,
        query: Tensor,
        radius: float,
        K: int,
        *,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        rule: str = "fma_xyz",
    ) -> tuple[Tensor, Tensor]:
        """The first K points, in input order, in every ball, as `mps_pointops.ball_query`.

        Args:
            query: Centres [M, D], or [B, M, D] if the points are.
            radius: Radius of the balls, finite and >= 0.
            K: Slots per query, >= 0.
            batch: Clouds of the queries, see the class.
            ptr: Likewise.
            rule: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

        Returns:
            Squared distances [..., M, K], float32, and indices [..., M, K], int64: into N; with a
            ptr into all points. Slots without a point hold distance 0 and index -1.

        Raises:
            TypeError, ValueError: as `mps_pointops.ball_query`; also for clouds of queries that
                are not clouds of the index.

        Squared distances have a gradient in the queries and in the points of the index.
        """
        op = "SpatialIndex.ball_query"
        flat = self._query(op, query)
        radius, K = as_float(op, "radius", radius), as_int(op, "K", K)
        chosen = as_rule(op, rule, self._dim)
        refuse_forward_mode(op, query, self.points)
        first, last = self._ranges(op, query, batch, ptr, Facts(op))
        found = self._prepared.ball(flat, first, last, K, radius, True, False, chosen)
        if torch.is_grad_enabled() and (query.requires_grad or self.points.requires_grad):
            pair = (t.to(torch.float32).reshape(-1, self._dim) for t in (query, self.points))
            found = FoundBall.apply(*pair, *found, first, self._clouds)
        return self._shaped(found[0], query, K), self._shaped(found[1], query, K)

    @opaque
    def radius(
        self,
        query: Tensor,
        r: float,
        max_num_neighbors: int | None = None,
        *,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        ignore_same_index: bool = False,
        rule: str = "fma_xyz",
    ) -> Tensor:
        """Pairs of a query and a point closer than r, as `flat.radius` finds them.

        Args:
            query: Queries [M, D]; the points must be [N, D].
            r: Radius. A negative one counts as its size; with NaN nothing is inside.
            max_num_neighbors: The first so many points, in input order, of each query; None: all.
            batch: Clouds of the queries, see the class.
            ptr: Likewise.
            ignore_same_index: Leave out pairs of equal row number, before counting.
            rule: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

        Returns:
            Edges [2, E], int64: row 0 the query, ascending; row 1 the point, ascending per query.

        Raises:
            TypeError, ValueError: as `flat.radius`; also for clouds of queries that are not clouds
                of the index.

        Reads the device once. There is no gradient.
        """
        op = "SpatialIndex.radius"
        self._only_flat(op)
        flat = self._query(op, query)
        r = as_number(op, "r", r)
        places = self._size
        if max_num_neighbors is not None:
            places = min(places, as_int(op, "max_num_neighbors", max_num_neighbors))
        chosen = as_rule(op, rule, self._dim)
        facts = Facts(op)
        first, last = self._ranges(op, query, batch, ptr, facts, later=True)
        if places == 0 or len(flat) == 0:
            facts.fetch()
            return flat.new_empty((2, 0), dtype=torch.int64)
        r, same = 0.0 if math.isnan(r) else abs(r), bool(ignore_same_index)
        if len(flat) * places <= _SLOTS_UNCOUNTED:
            _, index = self._prepared.ball(flat, first, last, places, r, False, same, chosen)
            counts = count_edges(facts, index)
            facts.fetch()
            return edges(index, counts)
        found = self._prepared.count(flat, first, last, places, r, same, chosen)
        counts = count_edges(facts, found)
        facts.fetch()
        return self._prepared.listed(flat, first, last, counts, r, same, chosen)

    @opaque
    def nearest(
        self,
        query: Tensor,
        *,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        rule: str = "fma_xyz",
    ) -> Tensor:
        """The point nearest to every query, as `flat.nearest` finds it.

        Args:
            query: Queries [M, D]; the points must be [N, D], N >= 1 unless M = 0.
            batch: Clouds of the queries, see the class.
            ptr: Likewise.
            rule: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

        Returns:
            Rows of the points [M], int64. Of equally near points the one with the smallest index.
            A query that is not finite, or whose cloud has no finite point, has -1.

        Raises:
            TypeError, ValueError: as `flat.nearest`; also for clouds of queries that are not clouds
                of the index, or have no points.

        There is no gradient.
        """
        op = "SpatialIndex.nearest"
        self._only_flat(op)
        flat = self._query(op, query)
        chosen = as_rule(op, rule, self._dim)
        if len(flat) and not self._size:
            fail_value(op, "query", "empty, as the index has no points", f"{len(flat)} queries")
        facts = Facts(op)
        first, last = self._ranges(op, query, batch, ptr, facts, later=True)
        if first is not None and last is not None and len(flat):

            def judge(found: int) -> None:
                if found:
                    got = f"row {found - 1} in an empty one"
                    fail_value(op, "query", "in clouds that have points", got)

            row = torch.arange(len(flat), device=flat.device)
            facts.add(judge, largest_where(first >= last, row))
        facts.fetch()
        k = min(1, self._size)
        _, index = self._prepared.knn(flat, first, last, k, False, chosen, False)
        return index.reshape(len(flat))

    def _only_flat(self, op: str) -> None:
        if self.points.dim() == 3:
            hint = "make the index of points.reshape(-1, D) with a ptr"
            fail_value(op, "points", "[N, D]", f"shape {list(self.points.shape)}", hint)

    def _query(self, op: str, query: Any) -> Tensor:
        """Checked queries as float32 [M, D], cut from the graph."""
        query = check_points(op, "query", query, self.points.dim())
        check_same_device(op, "query", query, "points", self.points)
        check_same_size(op, "query", "dimension D", query.shape[-1], "points", self._dim)
        if query.dim() == 3:
            check_same_size(op, "query", "batch size", query.shape[0], "points", self._clouds)
        if (version := version_of(self.points)) != self._points_version:
            self._prepared = self._prepare()
            self._points_version = version
        return as_float32(query).reshape(-1, self._dim)

    def _prepare(self) -> Prepared:
        flat = as_float32(self.points).view(self._clouds * self._size, self._dim)
        return Prepared(flat, self._clouds, self.ptr)

    def _is_given(self, ptr: Tensor | None) -> bool:
        """Whether a ptr tells the clouds of the points, as far as that is known for nothing."""
        same = ptr is self._given_ptr and version_of(ptr) == self._ptr_version
        return same or ptr is self.ptr

    def _shaped(self, found: Tensor, query: Tensor, slots: int) -> Tensor:
        return found.view(*query.shape[:-1], slots)

    def _ranges(
        self,
        op: str,
        query: Tensor,
        batch: Tensor | None,
        ptr: Tensor | None,
        facts: Facts,
        *,
        later: bool = False,
    ) -> Ranges:
        """Rows of the cloud of each query; what tensors hold is checked at once or `later`."""
        found = cloud_ranges(op, self.ptr, query, batch, ptr, facts)
        if not later:
            facts.fetch()
        return found
