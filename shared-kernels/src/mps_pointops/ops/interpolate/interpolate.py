"""Interpolation from three neighbours: public functions, operator and gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mps_pointops._checks import (
    as_int,
    check_features,
    check_index,
    fail_value,
    refuse_forward_mode,
)
from mps_pointops._registry import register, register_gradient
from mps_pointops.ops.gather.gather import check_weight, gather, scatter
from mps_pointops.ops.interpolate.cpu import interpolate_cpu
from mps_pointops.ops.interpolate.mps import interpolate_mps


def three_interpolate(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """Features at new points, from three weighted neighbours each.

    Args:
        features: Features [B, C, m] of any float dtype, on cpu or mps.
        index: Neighbours [B, n, 3] from 0 to m - 1, int32 or int64, same device.
        weight: Their weights [B, n, 3], float, same device.

    Returns:
        Features [B, C, n] in the dtype of `features`:
        `fma(p3, w3, fma(p1, w1, p2 * w2))` in float32 (rounded separately in float64).

    Raises:
        TypeError: an argument is not a tensor of those dtypes.
        ValueError: wrong shapes or devices.
        IndexError: as `gather_points`; unchecked on MPS, such an index gives NaN.

    `features` and `weight` have a gradient, of any order; that of `features` is `three_scatter`.
    Contract: `ops/interpolate/README.md`.
    """
    op = "three_interpolate"
    return interpolate_named(op, "features", features, "index", index, weight)


def interpolate_named(
    op: str, features_name: str, features: Any, index_name: str, index: Any, weight: Any
) -> Tensor:
    """`three_interpolate` for a caller whose errors name itself and its own arguments."""
    features = check_features(op, features_name, features)
    _refuse_forward_mode(op, weight)
    index = check_index(op, index_name, index, 3, features, features.shape[2], features_name)
    if index.shape[2] != 3:
        fail_value(op, index_name, "of shape (B, n, 3)", f"shape {list(index.shape)}")
    weight = check_weight(op, weight, index)
    return interpolate(features, index, weight)  # type: ignore[no-any-return]


def three_scatter(values: Tensor, index: Tensor, weight: Tensor, size: int) -> Tensor:
    """Weighted sums of values that point to the same target; the adjoint of interpolation.

    Args:
        values: Values [B, C, n] of any float dtype, on cpu or mps.
        index: Targets [B, n, 3] from 0 to size - 1, int32 or int64, same device.
        weight: Weights [B, n, 3], float, same device.
        size: Targets per cloud, m.

    Returns:
        Sums [B, C, m] in the dtype of `values`: products and sums rounded one after the other,
        in ascending (n, neighbour).

    Raises:
        TypeError, ValueError, IndexError: as `three_interpolate`; unchecked on MPS, a target out
            of range is left out.

    `values` and `weight` have a gradient, of any order. Contract: `ops/interpolate/README.md`.
    """
    op = "three_scatter"
    return three_scatter_named(op, "values", values, "index", index, weight, "size", size)


def three_scatter_named(
    op: str,
    values_name: str,
    values: Any,
    index_name: str,
    index: Any,
    weight: Any,
    size_name: str,
    size: Any,
) -> Tensor:
    """`three_scatter` for a caller whose errors name itself and its own arguments."""
    values = check_features(op, values_name, values)
    size = as_int(op, size_name, size)
    _refuse_forward_mode(op, weight)
    index = check_index(op, index_name, index, 3, values, size, values_name)
    if index.shape[1:] != (values.shape[2], 3):
        wanted = f"of shape {[values.shape[0], values.shape[2], 3]}"
        fail_value(op, index_name, wanted, f"shape {list(index.shape)}")
    weight = check_weight(op, weight, index)
    return scatter(values, index.flatten(1), weight.flatten(1), size)  # type: ignore[no-any-return]


def _refuse_forward_mode(op: str, weight: Any) -> None:
    # before the index is looked at, which torch 2.7 cannot do in forward mode
    if isinstance(weight, Tensor):
        refuse_forward_mode(op, weight)


def _fake(features: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    return features.new_empty((features.shape[0], features.shape[1], index.shape[1]))


interpolate = register(
    "interpolate(Tensor features, Tensor index, Tensor weight) -> Tensor",
    cpu=interpolate_cpu,
    mps=interpolate_mps,
    fake=_fake,
)


def _setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    features, index, weight = ctx.saved_tensors
    grad_features = grad_weight = None
    if ctx.needs_input_grad[0]:
        grad_features = scatter(grad, index.flatten(1), weight.flatten(1), features.shape[2])
    if ctx.needs_input_grad[2]:
        neighbours = gather(features, index.flatten(1)).unflatten(2, (-1, 3))
        grad_weight = (neighbours * grad.unsqueeze(3)).sum(dim=1).to(weight.dtype)
    return grad_features, None, grad_weight


register_gradient("interpolate", _backward, _setup_context)
