"""`pyg::scatter_*`, `segment_*_coo` and `gather_coo`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._integers import floor_divide
from pyg_lib_mps_plugin._ops import segments as core
from pyg_lib_mps_plugin._ops.plans import (
    FLOATS,
    NUMBERS,
    coo_plan,
    extreme_of,
    mean_of,
    scatter_plan,
    sizes_of,
    sum_of,
)
from pyg_lib_mps_plugin._ops.sizes import check_index, check_out, check_values, fail


def scatter_sum(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
) -> Tensor:
    """`pyg::scatter_sum`."""
    return sum_of(scatter_plan("scatter_sum", src, index, dim, out, dim_size), out)


def scatter_mul(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
) -> Tensor:
    """`pyg::scatter_mul`; 1 where nothing points."""
    plan = scatter_plan("scatter_mul", src, index, dim, out, dim_size)
    result = plan.back(core.product(plan.rows(src), plan.segments), plan.segments.count)
    return result if out is None else out.mul_(result)


def scatter_mean(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
) -> Tensor:
    """`pyg::scatter_mean`; means of integers are rounded down, `out` is added to before."""
    plan = scatter_plan("scatter_mean", src, index, dim, out, dim_size)
    if not src.is_floating_point() and out is None:
        plan.src = src.to(torch.int64)  # sums of narrow integers would wrap
    if src.is_floating_point() and out is None:
        return mean_of(plan)
    result = sum_of(plan, out)
    sizes = sizes_of(plan).clamp(min=1)
    if not plan.by_element:
        sizes = sizes.expand(-1, plan.rows(result).shape[1])
    sizes = plan.back(sizes, plan.segments.count)
    if src.is_floating_point():
        return result.div_(sizes)
    means = floor_divide(result.to(torch.int64), sizes).to(src.dtype)
    return means if out is None else out.copy_(means)


def scatter_min(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`pyg::scatter_min`: values and where they were; 0 at src.size(dim) where nothing points."""
    plan = scatter_plan("scatter_min", src, index, dim, out, dim_size)
    return extreme_of(plan, core.SMALLEST, out)


def scatter_max(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`pyg::scatter_max`."""
    plan = scatter_plan("scatter_max", src, index, dim, out, dim_size)
    return extreme_of(plan, core.LARGEST, out)


def segment_sum_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """`pyg::segment_sum_coo`."""
    return sum_of(coo_plan("segment_sum_coo", src, index, out, dim_size), out)


def segment_mean_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """`pyg::segment_mean_coo`; writes over segments of `out` that have members."""
    plan = coo_plan("segment_mean_coo", src, index, out, dim_size)
    check_values(plan.op, src, FLOATS)
    result = mean_of(plan)
    if out is None:
        return result
    rows = torch.where(sizes_of(plan) > 0, plan.rows(result), plan.rows(out))
    return out.copy_(plan.back(rows, plan.segments.count))


def segment_min_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """`pyg::segment_min_coo`."""
    return extreme_of(coo_plan("segment_min_coo", src, index, out, dim_size), core.SMALLEST, out)


def segment_max_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """`pyg::segment_max_coo`."""
    return extreme_of(coo_plan("segment_max_coo", src, index, out, dim_size), core.LARGEST, out)


def _missing(src: Tensor) -> float:
    """What an index out of range reads: no value, where the dtype can say so."""
    return torch.nan if src.is_floating_point() else 0


def gather_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """`pyg::gather_coo`: out[..., e, ...] = src[..., index[..., e], ...]."""
    op = "gather_coo"
    check_values(op, src, NUMBERS)
    check_index(op, "index", index, src)
    dim = index.dim() - 1
    if not 0 <= dim < src.dim() or index.shape[:dim] != src.shape[:dim]:
        fail(
            op, "index", f"of the first axes of src {list(src.shape)}", f"shape {list(index.shape)}"
        )
    shape = list(src.shape)
    shape[dim] = index.shape[dim]
    lead = index.shape[:dim].numel()
    rows = src.reshape(src.shape[: dim + 1].numel(), src.shape[dim + 1 :].numel())
    index = index.reshape(lead, index.shape[dim])
    result = core.pick(rows, index, src.shape[dim], _missing(src)).reshape(shape)
    if out is None:
        return result
    check_out(op, out, src, dim)
    return out.copy_(result)
