"""Gather, group and scatter: public functions, operators and gradients."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mps_pointops._checks import (
    as_int,
    check_features,
    check_index,
    fail_value,
)
from mps_pointops._registry import in_shape, register, register_gradient
from mps_pointops.ops.gather.cpu import gather_cpu, scatter_cpu
from mps_pointops.ops.gather.mps import gather_mps, scatter_mps


def gather_points(features: Tensor, index: Tensor) -> Tensor:
    """Features of the indexed points: `out[b, c, m] = features[b, c, index[b, m]]`.

    Args:
        features: Features [B, C, N] of any float dtype, on cpu or mps.
        index: Indices [B, M] from 0 to N - 1, int32 or int64, same device.

    Returns:
        Features [B, C, M] in the dtype of `features`.

    Raises:
        TypeError: an argument is not a tensor of those dtypes.
        ValueError: wrong shapes or devices.
        IndexError: an index is out of range. Looked at on the CPU; on MPS only with
            MPS_POINTOPS_CHECK_INDICES=1, which costs a read-back. Unchecked there, such an index
            gives NaN.

    The gradient of `features` (of any order) is `scatter_points` of the gradient: sums in
    ascending position, the same bits on every run. Contract: `ops/gather/README.md`.
    """
    return gather_named("gather_points", "features", features, "index", index)


def gather_named(op: str, features_name: str, features: Any, index_name: str, index: Any) -> Tensor:
    """`gather_points` for a caller whose errors name itself and its own arguments."""
    features = check_features(op, features_name, features)
    index = check_index(op, index_name, index, 2, features, features.shape[2], features_name)
    return gather(features, index)  # type: ignore[no-any-return]


def group_points(features: Tensor, index: Tensor) -> Tensor:
    """Features of groups of points: `out[b, c, m, s] = features[b, c, index[b, m, s]]`.

    Args:
        features: Features [B, C, N] of any float dtype, on cpu or mps.
        index: Indices [B, M, S] from 0 to N - 1, int32 or int64, same device.

    Returns:
        Features [B, C, M, S] in the dtype of `features`.

    Raises:
        TypeError, ValueError, IndexError: as `gather_points`.

    The gradient is that of `gather_points`. Contract: `ops/gather/README.md`.
    """
    return group_named("group_points", "features", features, "index", index)


def group_named(op: str, features_name: str, features: Any, index_name: str, index: Any) -> Tensor:
    """`group_points` for a caller whose errors name itself and its own arguments."""
    features = check_features(op, features_name, features)
    index = check_index(op, index_name, index, 3, features, features.shape[2], features_name)
    clouds, groups, samples = index.shape
    flat = gather(features, index.reshape(clouds, groups * samples))
    return in_shape(flat, (clouds, features.shape[1], groups, samples))


def scatter_points(values: Tensor, index: Tensor, size: int) -> Tensor:
    """Sums of values that point to the same target; the adjoint of gather and group.

    Args:
        values: Values [B, C, M] or [B, C, M, S] of any float dtype, on cpu or mps.
        index: Targets [B, M] or [B, M, S] from 0 to size - 1, int32 or int64, same device.
        size: Targets per cloud, N.

    Returns:
        Sums [B, C, N] in the dtype of `values`, each added one after the other in ascending
        position, in float32 (float64 for float64 values); 0 where nothing points.

    Raises:
        TypeError, ValueError, IndexError: as `gather_points`; unchecked on MPS, a target out of
            range is left out.

    The gradient of `values` (of any order) is `gather_points` of the gradient. Contract:
    `ops/gather/README.md`.
    """
    rank = values.dim() if isinstance(values, Tensor) else 3
    if rank not in (3, 4):
        fail_value("scatter_points", "values", "of shape (B, C, M) or (B, C, M, S)", f"{rank} axes")
    return scatter_named("scatter_points", "values", values, "index", index, "size", size, rank)


def scatter_named(
    op: str,
    values_name: str,
    values: Any,
    index_name: str,
    index: Any,
    size_name: str,
    size: Any,
    rank: int,
) -> Tensor:
    """`scatter_points` of values of so many axes, for a caller whose errors name its own."""
    values = check_features(op, values_name, values, rank)
    size = as_int(op, size_name, size)
    index = check_index(op, index_name, index, rank - 1, values, size, values_name)
    if index.shape[1:] != values.shape[2:]:
        wanted = f"of shape {[values.shape[0], *values.shape[2:]]}, as {values_name}"
        fail_value(op, index_name, wanted, f"shape {list(index.shape)}")
    return scatter(values.flatten(2), index.flatten(1), None, size)  # type: ignore[no-any-return]


def check_weight(op: str, weight: Any, index: Tensor) -> Tensor:
    """Weights of the shape of the index, on its device."""
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        raise TypeError(f"{op}: weight must be a float tensor, got {_kind(weight)}")
    if weight.shape != index.shape:
        fail_value(op, "weight", f"of shape {list(index.shape)}", f"shape {list(weight.shape)}")
    if weight.device != index.device:
        fail_value(op, "weight", f"on device {index.device}", f"device {weight.device}")
    return weight


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def _fake_gather(features: Tensor, index: Tensor) -> Tensor:
    return features.new_empty((features.shape[0], features.shape[1], index.shape[1]))


def _fake_scatter(values: Tensor, index: Tensor, weight: Tensor | None, size: Any) -> Tensor:
    return values.new_empty((values.shape[0], values.shape[1], size))


gather = register(
    "gather(Tensor features, Tensor index) -> Tensor",
    cpu=gather_cpu,
    mps=gather_mps,
    fake=_fake_gather,
)
# With a weight the positions come in threes that share one value: values (B, C, M / 3).
scatter = register(
    "scatter(Tensor values, Tensor index, Tensor? weight, SymInt size) -> Tensor",
    cpu=scatter_cpu,
    mps=scatter_mps,
    fake=_fake_scatter,
)


def _gather_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.size = inputs[0].shape[2]


def _gather_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (index,) = ctx.saved_tensors
    return scatter(grad, index, None, ctx.size), None


def _scatter_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, index, weight, _ = inputs
    ctx.save_for_backward(values, index, weight)


def _scatter_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    values, index, weight = ctx.saved_tensors
    picked = gather(grad, index)
    if weight is None:
        return picked, None, None, None
    picked = picked.unflatten(2, (-1, 3))
    grad_values = (picked * weight.unflatten(1, (-1, 3)).unsqueeze(1)).sum(dim=3)
    grad_weight = (picked * values.unsqueeze(3)).sum(dim=1).flatten(1)
    return grad_values.to(values.dtype), None, grad_weight.to(weight.dtype), None


register_gradient("gather", _gather_backward, _gather_context)
register_gradient("scatter", _scatter_backward, _scatter_context)
