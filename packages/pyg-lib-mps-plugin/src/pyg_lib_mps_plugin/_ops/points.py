"""Point and graph operators: thin calls of mps-pointops.

Rule of distances: the fused sum in the order of dimensions, as pyg-lib's CUDA kernels round it.
Ties go to the lowest index. What PyG's wrappers let through (strided, one-axis or integer
coordinates, int32 pointers, pointers of two lengths) is either made right or refused by name.

The dispatcher leaves out trailing arguments that have the schema's default, so the defaults here
are those of pyg-lib's schemas.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import mps_pointops  # noqa: F401  (defines torch.ops.mps_pointops)
from pyg_lib_mps_plugin._ops.indices import stable_order
from pyg_lib_mps_plugin._ops.sizes import check_integers, fail

_FMA_XYZ, _COSINE = 1, 3  # rules
_LOWEST_INDEX = 0  # ties
_MOST = 2**31 - 1  # more neighbours than any cloud has; sys.maxsize means "all"
_points: Any = torch.ops.mps_pointops


def _two_pointers(
    op: str, ptr_x: Tensor | None, ptr_y: Tensor | None, x: Tensor, y: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Pointers of one length: missing clouds at the end are empty.

    PyG makes each from its own batch vector, so the set that lacks the last clouds has the shorter
    one. A missing pointer means one cloud, which the other must have too.
    """
    if ptr_x is None and ptr_y is None:
        return None, None
    for name, ptr in (("ptr_x", ptr_x), ("ptr_y", ptr_y)):
        if ptr is not None and (ptr.dim() != 1 or ptr.shape[0] == 0):
            fail(op, name, "a vector of at least one element", f"shape {list(ptr.shape)}")
    ptr_x = _one_cloud(op, "ptr_x", x, "ptr_y", ptr_y) if ptr_x is None else ptr_x
    ptr_y = _one_cloud(op, "ptr_y", y, "ptr_x", ptr_x) if ptr_y is None else ptr_y
    longest = max(ptr_x.shape[0], ptr_y.shape[0])
    return _pad(ptr_x, longest), _pad(ptr_y, longest)


def _one_cloud(op: str, name: str, points: Tensor, other_name: str, other: Any) -> Tensor:
    if other.shape[0] > 2:
        got = f"None beside {other_name} of {other.shape[0] - 1} clouds"
        fail(op, name, f"given where {other_name} is", got, "pass both batch vectors")
    return torch.tensor([0, points.shape[0]], dtype=torch.int64, device=points.device)


def _pad(ptr: Tensor, length: int) -> Tensor:
    return torch.cat((ptr, ptr[-1:].expand(length - ptr.shape[0]))) if len(ptr) < length else ptr


def fps(src: Tensor, ptr: Tensor, ratio: float = 0.5, random_start: bool = True) -> Tensor:
    """`pyg::fps`: ceil(float32(n) * float32(ratio)) points of every cloud of n."""
    part = torch.tensor(ratio, dtype=torch.float32, device="cpu")
    picked: Tensor = _points.flat_fps(
        src, None, ptr, part, random_start, None, _FMA_XYZ, _LOWEST_INDEX, "pyg::fps"
    )
    return picked


def knn(
    x: Tensor,
    y: Tensor,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    k: int = 1,
    cosine: bool = False,
    num_workers: int = 1,
) -> Tensor:
    """`pyg::knn`: by distance, then index."""
    ptr_x, ptr_y = _two_pointers("knn", ptr_x, ptr_y, x, y)
    rule = _COSINE if cosine else _FMA_XYZ
    most = min(k, _MOST)
    edges: Tensor = _points.flat_knn(
        x, y, None, None, ptr_x, ptr_y, most, None, rule, False, "pyg::knn"
    )
    return edges


def radius(
    x: Tensor,
    y: Tensor,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    r: float = 1.0,
    max_num_neighbors: int = 32,
    num_workers: int = 1,
    ignore_same_index: bool = False,
) -> Tensor:
    """`pyg::radius`: the first `max_num_neighbors` inside, in the order of `x`."""
    ptr_x, ptr_y = _two_pointers("radius", ptr_x, ptr_y, x, y)
    most = min(max_num_neighbors, _MOST)
    limits = (r, most, None, ignore_same_index, _FMA_XYZ, False, "pyg::radius")
    edges: Tensor = _points.flat_radius(x, y, None, None, ptr_x, ptr_y, *limits)
    return edges


def nearest(
    x: Tensor, y: Tensor, ptr_x: Tensor | None = None, ptr_y: Tensor | None = None
) -> Tensor:
    """`pyg::nearest`: for every row of `x` the nearest row of `y`."""
    ptr_x, ptr_y = _two_pointers("nearest", ptr_x, ptr_y, x, y)
    index: Tensor = _points.flat_nearest(x, y, None, None, ptr_x, ptr_y, _FMA_XYZ)
    return index


def grid_cluster(
    pos: Tensor, size: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """`pyg::grid_cluster`."""
    cell: Tensor = _points.grid_cluster(pos, size, start, end)
    return cell


def graclus_cluster(rowptr: Tensor, col: Tensor, weight: Tensor | None = None) -> Tensor:
    """`pyg::graclus_cluster`."""
    cluster: Tensor = _points.graclus_csr(rowptr, col, weight)
    return cluster


def random_walk(
    rowptr: Tensor, col: Tensor, seed: Tensor, walk_length: int, p: float, q: float
) -> Tensor:
    """`pyg::random_walk`: nodes only; other p and q than 1, which pyg-lib refuses, are computed.

    Node2Vec keeps its graph on the CPU whatever its batches are on, so the graph follows the seeds.
    """
    for name, t in (("rowptr", rowptr), ("col", col), ("seed", seed)):
        check_integers("random_walk", name, t)
    if seed.dim() != 1:
        fail("random_walk", "seed", "a vector", f"shape {list(seed.shape)}")
    if seed.device.type == "cpu":
        fail("random_walk", "seed", "on mps, as the graph is", "device cpu")
    rowptr, col = (t.to(seed.device, torch.int64) for t in (rowptr, col))
    nodes, _ = _points.random_walk(rowptr, col, seed.to(torch.int64), walk_length, p, q)
    return nodes.to(seed.dtype)  # type: ignore[no-any-return]


def edge_sample(start: Tensor, rowptr: Tensor, count: int = 0, factor: float = 1.0) -> Tensor:
    """`pyg::edge_sample`: positions of sampled edges, without replacement, node by node.

    `count` edges of every node, or for `count < 1` the part `factor` of them, rounded up in
    float64 as pyg-lib does. Drawn from the generator of the device; one read-back, of the degrees.
    """
    op = "edge_sample"
    for name, t in (("start", start), ("rowptr", rowptr)):
        check_integers(op, name, t)
        if t.dim() != 1:
            fail(op, name, "a vector", f"shape {list(t.shape)}")
    if start.device != rowptr.device:
        fail(op, "start", f"on the device of rowptr ({rowptr.device})", f"device {start.device}")
    if rowptr.shape[0] < 2:
        if start.shape[0]:
            fail(op, "start", "empty, as the graph has no nodes", f"shape {list(start.shape)}")
        return start.new_empty(0)
    row = start.to(torch.int64)
    inside = (row >= 0) & (row < rowptr.shape[0] - 1)
    row = row.clamp(0, rowptr.shape[0] - 2)
    first = rowptr.to(torch.int64)[row]
    degrees = rowptr.to(torch.int64)[row + 1] - first
    known = torch.where(inside, degrees, -1).cpu()
    if (known < 0).any():
        fail(
            op,
            "start and rowptr",
            f"nodes from 0 to {rowptr.shape[0] - 2} and ascending",
            f"other values at place {int((known < 0).nonzero()[0])} of start",
        )
    sizes = torch.full_like(known, count)
    if count < 1:
        sizes = (known.to(torch.float64) * factor).ceil().to(torch.int64)
    sizes = sizes.clamp(min=0).minimum(known)
    total, taken = int(known.sum()), int(sizes.sum())
    if taken == 0:
        return start.new_empty(0)
    nodes = torch.arange(len(known), device="cpu")
    begin = known.cumsum(0) - known  # first candidate of every node
    row = nodes.repeat_interleave(known)
    edge = (first[row.to(start.device)] - begin[row].to(start.device)) + torch.arange(
        total, device=start.device
    )
    # a random order of all candidates, then stably by node: each node's are in random order
    keys = torch.randint(0, 2**31 - 1, (total,), dtype=torch.int32, device=start.device)
    order = stable_order(keys, 2**31 - 1)
    order = order[stable_order(row.to(start.device, torch.int32)[order], len(known))]
    row = nodes.repeat_interleave(sizes)
    place = begin[row] + torch.arange(taken, device="cpu") - (sizes.cumsum(0) - sizes)[row]
    return edge[order[place.to(start.device)]].to(start.dtype)
