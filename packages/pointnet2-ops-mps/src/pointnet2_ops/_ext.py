"""The nine low-level functions, named and called as those of the compiled extension.

No gradients: code that has autograd Functions of its own calls these. Arguments are checked as the
original does, in its order and with its words: contiguity, dtype, device. Beyond the original, CPU
tensors, half precision, float64 (searches compute it in float32) and int64 indices work.
"""

from __future__ import annotations

import torch
from torch import Tensor

import mps_pointops
from mps_pointops import _checks
from mps_pointops.ops.gather import gather as _features
from mps_pointops.ops.interpolate import interpolate as _weighted
from pointnet2_ops import options

_RULE = "fma_yxz"  # how nvcc contracts the squared distance
_INTEGERS = (torch.int32, torch.int64)


def _check(call: str, **arguments: Tensor) -> None:
    """RuntimeError with the original's phrase for the first argument that does not fit."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{call}: {name} must be a torch.Tensor, got {type(value).__name__}")
        if not value.is_contiguous():
            raise RuntimeError(
                f"{call}: {name} must be a contiguous tensor, got strides {value.stride()} for "
                f"shape {list(value.shape)}; call .contiguous()"
            )
    for name, value in arguments.items():
        if name == "idx":
            if value.dtype not in _INTEGERS:
                raise RuntimeError(f"{call}: idx must be an int tensor, got {value.dtype}")
        elif not value.is_floating_point():
            raise RuntimeError(f"{call}: {name} must be a float tensor, got {value.dtype}")
    (first, leader), *others = arguments.items()
    for name, value in others:
        if value.device != leader.device:
            raise RuntimeError(
                f"{call}: {name} must be on the device of {first} ({leader.device}), got "
                f"{value.device}"
            )


def _coordinates(points: Tensor) -> Tensor:
    """Searches are float32 on every device."""
    return points.float() if points.dtype == torch.float64 else points


def gather_points(points: Tensor, idx: Tensor) -> Tensor:
    """Features [B, C, N] at indices [B, M] -> [B, C, M]."""
    return _gather("gather_points", "points", points, idx)


def _gather(call: str, name: str, points: Tensor, idx: Tensor) -> Tensor:
    """For `call`, which calls the features `name`."""
    _check(call, **{name: points, "idx": idx})
    return _features.gather_named(call, name, points.detach(), "idx", idx)


def gather_points_grad(grad_out: Tensor, idx: Tensor, n: int) -> Tensor:
    """Sums of gradients [B, C, M] at indices [B, M] -> [B, C, n]."""
    call = "gather_points_grad"
    _check(call, grad_out=grad_out, idx=idx)
    return _features.scatter_named(call, "grad_out", grad_out.detach(), "idx", idx, "n", n, 3)


def group_points(points: Tensor, idx: Tensor) -> Tensor:
    """Features [B, C, N] at indices [B, M, S] -> [B, C, M, S]."""
    return _group("group_points", "points", points, idx)


def _group(call: str, name: str, points: Tensor, idx: Tensor) -> Tensor:
    """For `call`, which calls the features `name`."""
    _check(call, **{name: points, "idx": idx})
    return _features.group_named(call, name, points.detach(), "idx", idx)


def group_points_grad(grad_out: Tensor, idx: Tensor, n: int) -> Tensor:
    """Sums of gradients [B, C, M, S] at indices [B, M, S] -> [B, C, n]."""
    call = "group_points_grad"
    _check(call, grad_out=grad_out, idx=idx)
    return _features.scatter_named(call, "grad_out", grad_out.detach(), "idx", idx, "n", n, 4)


def furthest_point_sampling(points: Tensor, nsamples: int) -> Tensor:
    """Indices [B, nsamples], int32, of farthest points of clouds [B, N, 3], from point 0 on.

    Ties go as in the thread block of the CUDA kernel. Points near the origin are skipped unless
    `pointnet2_ops.options.skip_near_origin` is False.
    """
    return _sample("furthest_point_sampling", "points", points, "nsamples", nsamples)


def _sample(call: str, name: str, points: Tensor, size_name: str, nsamples: int) -> Tensor:
    """For `call`, which calls its arguments by those names."""
    _check(call, **{name: points})
    _checks.check_points(call, name, points, rank=3, dim=3, double=True)
    nsamples = _checks.as_int(call, size_name, nsamples)
    if points.shape[1] == 0 and nsamples > 0 and points.shape[0] > 0:
        shape = f"shape {list(points.shape)}"
        _checks.fail_value(call, name, "clouds of at least one point", shape)
    index = mps_pointops.furthest_point_sample(
        _coordinates(points),
        nsamples,
        0,
        options.skip_near_origin,
        rule=_RULE,
        ties="bit_reversed",
    )
    return index.to(torch.int32)


def ball_query(new_xyz: Tensor, xyz: Tensor, radius: float, nsample: int) -> Tensor:
    """Indices [B, M, nsample], int32, of the first points within a radius of centres [B, M, 3].

    Points [B, N, 3] in input order; slots left over repeat the first, and are 0 if there is none.
    """
    call = "ball_query"
    _check(call, new_xyz=new_xyz, xyz=xyz)
    # here the arguments have other names than below
    _checks.check_pair(call, "new_xyz", new_xyz, "xyz", xyz, rank=3, dim=3, double=True)
    nsample = _checks.as_int(call, "nsample", nsample)
    radius = _checks.as_float(call, "radius", radius, infinite=True)
    if radius == float("inf"):
        radius = torch.finfo(torch.float32).max
    _, index = mps_pointops.ball_query(
        _coordinates(new_xyz.detach()), _coordinates(xyz.detach()), radius, nsample, rule=_RULE
    )
    return torch.where(index < 0, index[:, :, :1].clamp(min=0), index).to(torch.int32)


def _nearest(squared: bool, **points_by_name: Tensor) -> tuple[Tensor, Tensor]:
    """Distances and int32 indices: what `pointnet2_utils.three_nn` returns."""
    call = "three_nn"
    _check(call, **points_by_name)
    (first, unknown), (second, known) = points_by_name.items()
    _checks.check_pair(call, first, unknown, second, known, rank=3, dim=3, double=True)
    points = _coordinates(unknown.detach()), _coordinates(known.detach())
    distance, index = mps_pointops.three_nn(*points, rule=_RULE, squared=squared)
    return distance, index.to(torch.int32)


def three_nn(unknowns: Tensor, knows: Tensor) -> list[Tensor]:
    """Squared distances, float32, and indices, int32, of the three nearest; both [B, n, 3].

    Points [B, n, 3] and [B, m, 3]. Missing neighbours have distance inf and index 0.
    """
    return list(_nearest(True, unknowns=unknowns, knows=knows))


def three_interpolate(points: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """Weighted sums of features [B, C, m] at indices and weights [B, n, 3] -> [B, C, n]."""
    return _interpolate("points", points, idx, weight)


def _interpolate(name: str, points: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """For a caller that calls the features `name`."""
    call = "three_interpolate"
    _check(call, **{name: points, "idx": idx, "weight": weight})
    return _weighted.interpolate_named(call, name, points.detach(), "idx", idx, weight.detach())


def three_interpolate_grad(grad_out: Tensor, idx: Tensor, weight: Tensor, m: int) -> Tensor:
    """Weighted sums of gradients [B, C, n] at the features they came from -> [B, C, m]."""
    call = "three_interpolate_grad"
    _check(call, grad_out=grad_out, idx=idx, weight=weight)
    values, constant = grad_out.detach(), weight.detach()
    return _weighted.three_scatter_named(call, "grad_out", values, "idx", idx, constant, "m", m)
