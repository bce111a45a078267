"""From the arguments of scatter, segment and gather operators to rows and segments.

An index in any order, a sorted index and a pointer name the same thing. A sorted index is not
trusted to be sorted. With `out` the result is written into it and it is returned, as pyg-lib does.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pyg_lib_mps_plugin._ops import segments as core
from pyg_lib_mps_plugin._ops.segments import Segments
from pyg_lib_mps_plugin._ops.sizes import check_index, check_out, check_values, fail

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
NUMBERS = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class Plan:
    """A reduction of axis `dim` of `src`: its values as rows, its segments, and the way back."""

    def __init__(self, op: str, src: Tensor, dim: int) -> None:
        self.op, self.src, self.dim = op, src, dim
        self.by_element = False  # each element has an index of its own
        self.segments: Segments

    @classmethod
    def of_index(
        cls,
        op: str,
        src: Tensor,
        index: Tensor,
        dim: int,
        out: Tensor | None,
        dim_size: int | None,
    ) -> Plan:
        """From an index that is broadcast to `src` already (axes of extent 1 or stride 0)."""
        plan = cls(op, src, dim)
        count = _segment_count(op, index, out, dim, dim_size)
        length = src.shape[dim]
        others = [axis for axis in range(index.dim()) if axis != dim]
        if src.numel() == 0:
            index = index.new_zeros((1, length))  # of nothing
        elif all(index.shape[axis] == 1 or index.stride(axis) == 0 for axis in others):
            for axis in reversed(others):
                index = index.select(axis, 0)
            index = index.unsqueeze(0)
        else:
            plan.by_element = True
            index = index.expand(src.shape).movedim(dim, -1).reshape(-1, length)
        plan.segments = core.of_index(index, count)
        return plan

    def rows(self, tensor: Tensor) -> Tensor:
        """[R * E, K] or [R * N, K] of a tensor that is laid out as `src` is."""
        if self.by_element:
            return tensor.movedim(self.dim, -1).reshape(-1, 1)
        channels = math.prod(self.src.shape[: self.dim] + self.src.shape[self.dim + 1 :])
        return tensor.movedim(self.dim, 0).reshape(tensor.shape[self.dim], channels)

    def back(self, rows: Tensor, length: int) -> Tensor:
        """The tensor whose rows these are, `length` long in the axis."""
        others = list(self.src.shape)
        del others[self.dim]
        if self.by_element:
            return rows.reshape(*others, length).movedim(-1, self.dim).contiguous()
        return rows.reshape(length, *others).movedim(0, self.dim).contiguous()


def _segment_count(
    op: str, index: Tensor, out: Tensor | None, dim: int, dim_size: int | None
) -> int:
    """The number of segments; one read-back where nothing says it."""
    if out is not None:
        return out.shape[dim]
    if dim_size is not None:
        if dim_size < 0:
            fail(op, "dim_size", "at least 0", str(dim_size))
        return dim_size
    return int((index.to(torch.int64).clamp(min=-1) + 1).max()) if index.numel() else 0


def scatter_plan(
    op: str,
    src: Tensor,
    index: Tensor,
    dim: int,
    out: Tensor | None,
    dim_size: int | None,
) -> Plan:
    check_values(op, src, NUMBERS)
    check_index(op, "index", index, src)
    if not -src.dim() <= dim < src.dim():
        fail(op, "dim", f"from {-src.dim()} to {src.dim() - 1}", str(dim))
    dim %= src.dim()
    shape = list(index.shape)
    if index.dim() == 1:
        index = index.view(*[1] * dim, -1)
    index = index.view(*index.shape, *[1] * (src.dim() - index.dim()))
    fits = index.dim() == src.dim() and index.shape[dim] == src.shape[dim]
    if not fits or any(a not in (1, b) for a, b in zip(index.shape, src.shape, strict=True)):
        fail(op, "index", f"broadcastable to src {list(src.shape)} at axis {dim}", f"shape {shape}")
    if out is not None:
        check_out(op, out, src, dim)
    return Plan.of_index(op, src, index, dim, out, dim_size)


def coo_plan(op: str, src: Tensor, index: Tensor, out: Tensor | None, dim_size: int | None) -> Plan:
    check_values(op, src, NUMBERS)
    check_index(op, "index", index, src)
    dim = index.dim() - 1
    shape = list(index.shape)
    fits = 0 <= dim < src.dim() and index.shape[dim] == src.shape[dim]
    if not fits or any(a not in (1, b) for a, b in zip(shape, src.shape, strict=False)):
        fail(op, "index", f"of the first axes of src {list(src.shape)}", f"shape {shape}")
    index = index.view(*shape, *[1] * (src.dim() - index.dim()))
    if out is not None:
        check_out(op, out, src, dim)
    return Plan.of_index(op, src, index, dim, out, dim_size)


class PointerPlan(Plan):
    """Rows of a leading part of the axes, for pointers with one vector a row."""

    def __init__(self, op: str, src: Tensor, pointer: Tensor, length: int) -> None:
        super().__init__(op, src, pointer.dim() - 1)
        pointer = pointer.expand(*src.shape[: self.dim], pointer.shape[-1])
        self.segments = core.of_pointer(pointer.reshape(-1, pointer.shape[-1]), length)

    def rows(self, tensor: Tensor) -> Tensor:
        """Leading axes and the reduced one are rows already, if the memory is in order."""
        lead = tensor.shape[: self.dim + 1].numel()
        return tensor.reshape(lead, tensor.shape[self.dim + 1 :].numel())

    def back(self, rows: Tensor, length: int) -> Tensor:
        """The way back."""
        shape = list(self.src.shape)
        shape[self.dim] = length
        return rows.reshape(shape)


def check_pointer(op: str, src: Tensor, pointer: Tensor) -> int:
    """Returns the axis that the pointer is about."""
    check_values(op, src, NUMBERS)
    check_index(op, "indptr", pointer, src)
    dim = pointer.dim() - 1
    fits = 0 <= dim < src.dim() and pointer.shape[dim] >= 1
    if not fits or any(
        a not in (1, b) for a, b in zip(pointer.shape[:dim], src.shape, strict=False)
    ):
        wanted = f"of the first axes of src {list(src.shape)}, ending in segments + 1"
        fail(op, "indptr", wanted, f"shape {list(pointer.shape)}")
    return dim


def csr_plan(op: str, src: Tensor, pointer: Tensor, out: Tensor | None) -> Plan:
    dim = check_pointer(op, src, pointer)
    plan = PointerPlan(op, src, pointer, src.shape[dim])
    if out is not None:
        check_out(op, out, src, dim)
        if out.shape[dim] != plan.segments.count:
            wanted = f"of {plan.segments.count} segments in axis {dim}, as indptr has"
            fail(op, "out", wanted, f"shape {list(out.shape)}")
    return plan


def sum_of(plan: Plan, out: Tensor | None) -> Tensor:
    result = plan.back(core.total(plan.rows(plan.src), plan.segments), plan.segments.count)
    return result if out is None else out.add_(result)


def sizes_of(plan: Plan) -> Tensor:
    """Members of every segment [R * N, 1]."""
    return plan.segments.sizes.unsqueeze(1)


def mean_of(plan: Plan) -> Tensor:
    """Means of floats; 0 for a segment of nothing. Half precision is divided in float32."""
    src = plan.src
    values = plan.rows(src).to(torch.float32)
    means = core.total(values, plan.segments) / sizes_of(plan).clamp(min=1)
    return plan.back(means, plan.segments.count).to(src.dtype)


def extreme_of(plan: Plan, op: int, out: Tensor | None) -> tuple[Tensor, Tensor]:
    best, place = core.extreme(plan.rows(plan.src), plan.segments, op)
    count = plan.segments.count
    best, place = plan.back(best, count), plan.back(place, count)
    if out is None:
        return best, place
    # goes on from what `out` holds
    found = place < plan.segments.length
    better = found & ((best < out) if op == core.SMALLEST else (best > out))
    place = torch.where(better, place, plan.segments.length)
    return out.copy_(torch.where(better, best, out)), place
