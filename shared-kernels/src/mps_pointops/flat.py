"""Ragged calls: points [N, D] of several clouds, told apart by sorted batch vectors.

Signatures and counts follow torch_cluster; the kernels are those of the dense calls. Indices count
in the whole input. A batch vector may have gaps: missing numbers are empty clouds. Each call reads
the device at most once, for the size of its result and the order of its batch vectors together.
Every call is one operator of `torch.ops.mps_pointops`, so it can be compiled and exported.

Coordinates may be float32, float16 or bfloat16 (widened to float32), or integers: these are
shifted by the smallest value of each coordinate, exactly (not for the cosine), and then searched as
float32. On the CPU float64 is searched in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_float,
    as_int,
    check_device,
    check_same_device,
    fail_type,
    fail_value,
)
from mps_pointops._flat_fps import flat_fps
from mps_pointops._flat_search import flat_knn, flat_radius
from mps_pointops._rules import as_rule, as_ties
from mps_pointops.ops.graclus_cluster import graclus_cluster
from mps_pointops.ops.grid_cluster import grid_cluster
from mps_pointops.ops.nearest import nearest
from mps_pointops.ops.neighbor_sampler import neighbor_sampler
from mps_pointops.ops.random_walk import random_walk

__all__ = [
    "fps",
    "graclus_cluster",
    "grid_cluster",
    "knn",
    "nearest",
    "neighbor_sampler",
    "radius",
    "random_walk",
]


def _check_tensors(op: str, needed: dict[str, Any], optional: dict[str, Any]) -> None:
    """Tensors are tensors; what they hold is checked by the operator."""
    for name, value in needed.items():
        if not isinstance(value, Tensor):
            fail_type(op, name, "a torch.Tensor", type(value).__name__)
        check_device(op, name, value)
        if value.layout != torch.strided:
            fail_type(op, name, "a dense (strided) tensor", str(value.layout))
    for name, value in optional.items():
        if value is not None and not isinstance(value, Tensor):
            fail_type(op, name, "a torch.Tensor", type(value).__name__)


def _rule_number(op: str, rule: str, *, cosine: bool = False) -> int:
    """The number of a rule; whether it has a meaning for D is checked by the operator."""
    return as_rule(op, rule, 3, cosine=cosine).value


def _optional_int(op: str, name: str, value: Any) -> int | None:
    return None if value is None else as_int(op, name, value)


def fps(
    x: Tensor,
    batch: Tensor | None = None,
    ratio: float | Tensor | None = None,
    random_start: bool = True,
    ptr: Tensor | Sequence[int] | None = None,
    *,
    batch_size: int | None = None,
    rule: str = "separate",
    ties: str = "lowest_index",
) -> Tensor:
    """Farthest point sampling of a part of every cloud.

    Args:
        x: Points [N, D], any D >= 1; or [N, ...], axes after the first joined. Dtypes: see above.
        batch: Cloud of every point [N], sorted, int64 or int32; None: one cloud.
        ratio: Part of each cloud to pick, a number, a tensor of one number, or one number per
            cloud [B]; None: 0.5. `ceil(n * ratio)` points of a cloud of n are picked, computed
            in the dtype of `ratio`, which for a number is that of `x` (float32 for integers): 25
            points at 0.6 give 16. A tensor may be on the CPU; values above 1 repeat points.
        random_start: First pick drawn from torch's generator of the device; else the first point.
        ptr: Where clouds begin [B + 1], from 0 to N, instead of `batch`.
        batch_size: Number of clouds, if known; at least the largest of `batch` + 1.
        rule: Rounding of squared distances: 'separate', 'fma_xyz' or (D = 3) 'fma_yxz'.
        ties: Order among equally far points: 'lowest_index' or 'bit_reversed'.

    Returns:
        Indices into `x`, int64 [S], cloud by cloud in the order of picking. For order, ties and
        points that are not finite see `furthest_point_sample`.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes, `batch` not sorted, a `ptr` that does not run from 0 to N, a
            negative or non-finite `ratio`, or one of the wrong length.

    There is no gradient. Contract: `ops/fps/README.md`.
    """
    op = "flat.fps"
    if ptr is not None and not isinstance(ptr, Tensor):
        ptr = _listed_ptr(op, ptr, x)
    elif ptr is not None and isinstance(x, Tensor):
        check_same_device(op, "ptr", ptr, "x", x)
    _check_tensors(op, {"x": x}, {"batch": batch})
    if ratio is not None and not isinstance(ratio, Tensor):
        kind = x.dtype if x.is_floating_point() else torch.float32
        # a CPU scalar: rounded once, not moved
        ratio = torch.tensor(as_float(op, "ratio", ratio), dtype=kind, device="cpu")
    return flat_fps(  # type: ignore[no-any-return]
        x,
        batch,
        ptr,
        ratio,
        bool(random_start),
        _optional_int(op, "batch_size", batch_size),
        _rule_number(op, rule),
        as_ties(op, ties).value,
    )


def _listed_ptr(op: str, ptr: Any, x: Any) -> Tensor:
    """Numbers of the host stay there, so that nothing is read back."""
    if isinstance(ptr, (str, bytes)) or not isinstance(ptr, Sequence):
        fail_type(op, "ptr", "a tensor or a sequence of integers", type(ptr).__name__)
    numbers = [as_int(op, "ptr", p) for p in ptr]
    if not numbers:
        fail_value(op, "ptr", f"ascending from 0 to {len(x)}", "[]")
    return torch.tensor(numbers, dtype=torch.int64, device="cpu")


def _complete(x: Tensor, batch_x: Tensor | None, batch_y: Tensor | None) -> Tensor | None:
    """The batch vector of `x`: cloud 0 where only the other set has one."""
    if batch_x is None and batch_y is not None and x.dim():
        return x.new_zeros(x.shape[0], dtype=torch.int64)
    return batch_x


def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    *,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    batch_size: int | None = None,
    rule: str = "separate",
) -> Tensor:
    """Edges from every query to its k nearest reference points in the same cloud.

    Args:
        x: Reference points [N, D], any D >= 1, or [N] for D = 1. Dtypes: see above.
        y: Queries [M, D] or [M], same device; integers if `x` has integers.
        k: Neighbours per query, >= 0. A cloud with fewer points gives all it has.
        batch_x: Cloud of every row of `x` [N], sorted, int64 or int32; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.
        ptr_x: Where clouds begin in `x` [B + 1], from 0 to N, int64 or int32, instead of `batch_x`.
        ptr_y: Where clouds begin in `y` [B + 1], from 0 to M, likewise; both or none.
        batch_size: Number of clouds, if known: cloud numbers must be below it.
        rule: Rounding of squared distances: 'separate', 'fma_xyz' or (D = 3) 'fma_yxz'; 'cosine'
            for the distance `1 - q.r / (|q| |r|)` instead.

    Returns:
        Edges [2, E], int64: row 0 the index into `y`, ascending; row 1 the index into `x`, per
        query by squared (or cosine) distance, then index. Points that are not finite have no
            edges, nor have zero vectors for the cosine.

    Raises:
        TypeError, ValueError: as `mps_pointops.knn`; also if a batch vector is not sorted or a
            ptr does not ascend from 0 to the number of points.

    There is no gradient. Contract: `ops/knn/README.md`.
    """
    op = "flat.knn"
    given = {"batch_x": batch_x, "batch_y": batch_y, "ptr_x": ptr_x, "ptr_y": ptr_y}
    _check_tensors(op, {"x": x, "y": y}, given)
    return flat_knn(  # type: ignore[no-any-return]
        x,
        y,
        _complete(x, batch_x, batch_y),
        _complete(y, batch_y, batch_x),
        ptr_x,
        ptr_y,
        as_int(op, "k", k),
        _optional_int(op, "batch_size", batch_size),
        _rule_number(op, rule, cosine=True),
    )


def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    max_num_neighbors: int | None = 32,
    *,
    ptr_x: Tensor | None = None,
    ptr_y: Tensor | None = None,
    batch_size: int | None = None,
    ignore_same_index: bool = False,
    rule: str = "fma_xyz",
) -> Tensor:
    """Edges from every query to the reference points of its cloud closer than r.

    Args:
        x: Reference points [N, D], any D >= 1, or [N] for D = 1. Dtypes: see above.
        y: Queries [M, D] or [M], same device; integers if `x` has integers.
        r: Radius, in the unit of `x`, finite and >= 0. A point is inside when its squared distance
            is below `fl32(r * r)` with the product in float64.
        batch_x: Cloud of every row of `x` [N], sorted, int64 or int32; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise.
        max_num_neighbors: Edges per query at most, the first in the order of `x`; None: no limit.
        ptr_x: Where clouds begin in `x` [B + 1], from 0 to N, int64 or int32, instead of `batch_x`.
        ptr_y: Where clouds begin in `y` [B + 1], from 0 to M, likewise; both or none.
        batch_size: Number of clouds, if known: cloud numbers must be below it.
        ignore_same_index: Leave out pairs of equal row number, before counting.
        rule: Rounding of squared distances: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

    Returns:
        Edges [2, E], int64: row 0 the index into `y`, ascending; row 1 the index into `x`,
        ascending per query.

    Raises:
        TypeError, ValueError: as `mps_pointops.ball_query`; also if a batch vector is not sorted
            or a ptr does not ascend from 0 to the number of points.

    There is no gradient. Contract: `ops/ball_query/README.md`.
    """
    op = "flat.radius"
    given = {"batch_x": batch_x, "batch_y": batch_y, "ptr_x": ptr_x, "ptr_y": ptr_y}
    _check_tensors(op, {"x": x, "y": y}, given)
    return flat_radius(  # type: ignore[no-any-return]
        x,
        y,
        _complete(x, batch_x, batch_y),
        _complete(y, batch_y, batch_x),
        ptr_x,
        ptr_y,
        as_float(op, "r", r),
        _optional_int(op, "max_num_neighbors", max_num_neighbors),
        _optional_int(op, "batch_size", batch_size),
        bool(ignore_same_index),
        _rule_number(op, rule),
    )
