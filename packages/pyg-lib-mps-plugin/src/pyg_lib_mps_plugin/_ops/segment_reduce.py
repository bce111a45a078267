"""`torch._segment_reduce` on MPS, which PyG's `segment` and its softmax with pointers call.

Registered only where the installed torch has no MPS kernel of its own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from pyg_lib_mps_plugin._ops import segments as core
from pyg_lib_mps_plugin._ops.segments import Segments

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def _fail(text: str) -> None:
    raise ValueError(f"aten::segment_reduce: {text}")


def _segments(
    data: Tensor, reduce: str, lengths: Tensor | None, offsets: Tensor | None, axis: int
) -> tuple[Segments, int]:
    """Segments along the last axis of `lengths` or `offsets`, and that axis."""
    if reduce not in _START:
        _fail(f"reduce must be one of {', '.join(_START)}, got {reduce!r}")
    if not data.is_floating_point():
        raise TypeError(f"aten::segment_reduce: data must be a float tensor, got {data.dtype}")
    if (lengths is None) == (offsets is None):
        _fail("one of lengths and offsets must be given, and not both")
    if lengths is not None:
        offsets = torch.nn.functional.pad(lengths.to(torch.int64).cumsum(-1), (1, 0))
    assert offsets is not None
    axis = axis % max(data.dim(), 1)
    if offsets.device != data.device:
        _fail(f"lengths or offsets must be on device {data.device}, got {offsets.device}")
    if axis != offsets.dim() - 1 or offsets.shape[:-1] != data.shape[:axis]:
        shapes = f"{list(data.shape)} and {list(offsets.shape)}"
        _fail(f"axis must be the last of lengths or offsets, got {axis} for shapes {shapes}")
    pointer = offsets.reshape(-1, offsets.shape[-1])
    return core.of_pointer(pointer, data.shape[axis]), axis


def _rows(tensor: Tensor, axis: int) -> Tensor:
    """Rows [R * E, K] in float32."""
    lead = math.prod(tensor.shape[: axis + 1])
    return tensor.reshape(lead, math.prod(tensor.shape[axis + 1 :])).to(torch.float32)


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """`aten::segment_reduce`, in float32, in the order of positions; NaN spreads."""
    if indices is not None:
        _fail("indices are not supported, as in torch")
    segments, axis = _segments(data, reduce, lengths, offsets, axis)
    rows = _rows(data.detach(), axis)
    start = _START[reduce] if initial is None else float(initial)
    sizes = segments.sizes.unsqueeze(1)
    if reduce in ("max", "min"):
        largest = reduce == "max"
        best, place = core.extreme(rows, segments, core.LARGEST if largest else core.SMALLEST)
        best = best.masked_fill(place == segments.length, start)
        out = best.clamp(min=start) if largest else best.clamp(max=start)
        spoiled, _ = core.reduce(rows.isnan().to(torch.int32), segments, core.SUM)
        out = out.masked_fill(spoiled > 0, torch.nan)
    elif reduce == "prod":
        out = core.reduce(rows, segments, core.PRODUCT)[0] * start
    else:
        out = core.reduce(rows, segments, core.SUM)[0] + start
        if reduce == "mean":
            out = out / sizes.clamp(min=1)
            if initial is None:
                out = out.masked_fill(sizes == 0, torch.nan)
    shape = list(data.shape)
    shape[axis] = segments.count
    return out.reshape(shape).to(data.dtype)


def segment_reduce_backward(
    grad: Tensor,
    output: Tensor,
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    initial: Any = None,
) -> Tensor:
    """`aten::_segment_reduce_backward`; equal extremes share the gradient, as in torch."""
    segments, axis = _segments(data, reduce, lengths, offsets, axis)
    grads, rows = _rows(grad, axis), _rows(data, axis)
    if reduce == "sum":
        out = core.take(grads, segments)
    elif reduce == "mean":
        out = core.take(grads / segments.sizes.unsqueeze(1).clamp(min=1), segments)
    elif reduce == "prod":
        start = 1.0 if initial is None else float(initial)
        zero = rows == 0
        others = core.total(zero.to(torch.int32), segments)  # zeros of every segment
        product, _ = core.reduce(rows.masked_fill(zero, 1), segments, core.PRODUCT)
        rest = core.take(grads * product * start, segments) / rows.masked_fill(zero, 1)
        out = rest.masked_fill(core.take(others, segments) != zero, 0)
    else:
        best = core.take(_rows(output, axis), segments)
        taken = (rows == best) | rows.isnan()
        number = core.total(taken.to(torch.float32), segments).clamp(min=1)
        out = core.take(grads / number, segments).masked_fill(~taken, 0)
    return out.reshape(data.shape).to(data.dtype)
