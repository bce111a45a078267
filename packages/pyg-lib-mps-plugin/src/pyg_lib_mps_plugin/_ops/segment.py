"""`pyg::segment_*_csr`, `gather_csr` and `softmax_csr`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyg_lib_mps_plugin._ops import segments as core
from pyg_lib_mps_plugin._ops.plans import (
    FLOATS,
    PointerPlan,
    check_pointer,
    csr_plan,
    extreme_of,
    mean_of,
    sum_of,
)
from pyg_lib_mps_plugin._ops.sizes import check_index, check_out, check_values, fail


def segment_sum_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """`pyg::segment_sum_csr`."""
    return sum_of(csr_plan("segment_sum_csr", src, indptr, out), out)


def segment_mean_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """`pyg::segment_mean_csr`; writes over all of `out`."""
    plan = csr_plan("segment_mean_csr", src, indptr, out)
    check_values(plan.op, src, FLOATS)
    result = mean_of(plan)
    return result if out is None else out.copy_(result)


def segment_min_csr(
    src: Tensor, indptr: Tensor, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`pyg::segment_min_csr`."""
    return extreme_of(csr_plan("segment_min_csr", src, indptr, out), core.SMALLEST, out)


def segment_max_csr(
    src: Tensor, indptr: Tensor, out: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """`pyg::segment_max_csr`."""
    return extreme_of(csr_plan("segment_max_csr", src, indptr, out), core.LARGEST, out)


def gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """`pyg::gather_csr`: each row as often as its segment is long.

    Positions of `out` that belong to no segment keep their value. Without `out` one read-back
    gives the length of the result.
    """
    op = "gather_csr"
    dim = check_pointer(op, src, indptr)
    if src.shape[dim] != indptr.shape[dim] - 1 and src.shape[dim]:
        wanted = f"of {indptr.shape[dim] - 1} segments in axis {dim}, as indptr has"
        fail(op, "src", wanted, f"shape {list(src.shape)}")
    if out is not None:
        check_out(op, out, src, dim)
        length = out.shape[dim]
    else:
        length = max(int(indptr.flatten()[-1]), 0) if src.numel() else 0
    if src.numel() == 0:
        shape = list(src.shape)
        shape[dim] = length
        return src.sum(dim, keepdim=True).expand(shape).clone() if out is None else out
    plan = PointerPlan(op, src, indptr, length)
    result = core.take(plan.rows(src), plan.segments)
    if out is None:
        return plan.back(result, length)
    inside = (plan.segments.target < plan.rows(src).shape[0]).unsqueeze(1)
    return out.copy_(plan.back(torch.where(inside, result, plan.rows(out)), length))


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, segments: core.Segments) -> Tensor:
        highest, _ = core.extreme(rows, segments, core.LARGEST)
        powers = (rows - core.take(highest, segments)).exp()
        out = powers / core.take(core.total(powers, segments), segments, 1)
        outside = segments.target >= segments.rows * segments.count
        out = out.masked_fill(outside.unsqueeze(1), 0)
        ctx.segments = segments
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (out,) = ctx.saved_tensors
        return _softmax_gradient(out, grads[0], ctx.segments), None


def _softmax_gradient(out: Tensor, grad: Tensor, segments: core.Segments) -> Tensor:
    mean = core.take(core.total(out * grad, segments), segments)
    return out * (grad - mean)


def _softmax_rows(op: str, src: Tensor, ptr: Tensor, dim: int) -> tuple[Tensor, core.Segments]:
    """Rows with the axis in front, in float32, and the segments along it."""
    check_values(op, src, FLOATS)
    check_index(op, "ptr", ptr, src)
    if ptr.dim() != 1 or ptr.shape[0] == 0:
        fail(op, "ptr", "a vector of segments + 1", f"shape {list(ptr.shape)}")
    if not -src.dim() <= dim < src.dim():
        fail(op, "dim", f"from {-src.dim()} to {src.dim() - 1}", str(dim))
    length = src.shape[dim]
    rows = src.movedim(dim, 0).reshape(length, -1 if src.numel() else 0).to(torch.float32)
    return rows, core.of_pointer(ptr.unsqueeze(0), length)


def _softmax_back(rows: Tensor, src: Tensor, dim: int) -> Tensor:
    moved = src.movedim(dim, 0).shape
    return rows.reshape(moved).movedim(0, dim).to(src.dtype).contiguous()


def softmax_csr(src: Tensor, ptr: Tensor, dim: int = 0) -> Tensor:
    """`pyg::softmax_csr`: softmax within every segment; 0 outside of all."""
    if src.numel() == 0:
        return src.clone()
    rows, segments = _softmax_rows("softmax_csr", src, ptr, dim)
    out: Tensor = _Softmax.apply(rows, segments)
    return _softmax_back(out, src, dim)


def softmax_csr_backward(out: Tensor, out_grad: Tensor, ptr: Tensor, dim: int = 0) -> Tensor:
    """`pyg::softmax_csr_backward`."""
    if out.shape != out_grad.shape:
        shapes = f"shapes {list(out.shape)} and {list(out_grad.shape)}"
        fail("softmax_csr_backward", "out_grad", "of the shape of out", shapes)
    if out.numel() == 0:
        return out_grad.clone()
    rows, segments = _softmax_rows("softmax_csr_backward", out, ptr, dim)
    grad, _ = _softmax_rows("softmax_csr_backward", out_grad, ptr, dim)
    return _softmax_back(_softmax_gradient(rows, grad, segments), out, dim)
