"""Arguments of `grid_cluster`: checked, in one dtype, with the default bounds."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import DEVICES, check_same_device, fail_type, fail_value
from mps_pointops._integers import extremes

_OP = "grid_cluster"
_DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)


def check_tensor(name: str, value: Any) -> None:
    """A dense tensor of numbers."""
    if not isinstance(value, Tensor):
        fail_type(_OP, name, "a torch.Tensor", type(value).__name__)
    if value.dtype not in _DTYPES:
        fail_type(_OP, name, "a tensor of floats or integers", str(value.dtype))
    if value.layout != torch.strided:
        fail_type(_OP, name, "a dense (strided) tensor", str(value.layout))


def prepare(
    pos: Tensor, size: Tensor, start: Tensor | None, end: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Points [N, D], size [D], start [D] and end [D]: float32, float64 or int64, contiguous."""
    given = {"pos": pos, "size": size, "start": start, "end": end}
    tensors = {name: value for name, value in given.items() if value is not None}
    for name, value in tensors.items():
        check_tensor(name, value)
    if pos.dim() == 0:
        fail_value(_OP, "pos", "of shape (N, ...)", "shape []")
    if pos.device.type not in DEVICES:
        fail_value(_OP, "pos", "on device cpu or mps", f"device {pos.device}")
    points = pos.detach().reshape(pos.shape[0], pos.shape[1:].numel())
    dim = points.shape[1]
    if dim < 1:
        fail_value(_OP, "pos", "of shape (N, D) with D >= 1", f"shape {list(pos.shape)}")
    for name, value in list(tensors.items())[1:]:
        if value.dim() != 1 or value.shape[0] != dim:
            wanted = f"of shape [{dim}], one number a coordinate of pos"
            fail_value(_OP, name, wanted, f"shape {list(value.shape)}")
        check_same_device(_OP, name, value, "pos", pos)

    common = functools.reduce(torch.promote_types, (value.dtype for value in tensors.values()))
    if not common.is_floating_point:
        common = torch.int64
    elif common != torch.float64:
        common = torch.float32
    points = points.to(common)
    low, high = (
        None if bound is None else bound.detach().to(common).contiguous() for bound in (start, end)
    )
    if low is None or high is None:
        lowest, highest = _bounds(points)
        low = lowest if low is None else low
        high = highest if high is None else high
    return points.contiguous(), size.detach().to(common).contiguous(), low, high


def _bounds(points: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest and highest coordinates [D] of the finite points; infinite if there is none."""
    if points.shape[0] == 0:
        return points.new_zeros(points.shape[1]), points.new_zeros(points.shape[1])
    if not points.is_floating_point():
        return extremes(points)
    finite = torch.isfinite(points).all(dim=1, keepdim=True)
    low = torch.where(finite, points, torch.inf).amin(dim=0)
    return low, torch.where(finite, points, -torch.inf).amax(dim=0)
