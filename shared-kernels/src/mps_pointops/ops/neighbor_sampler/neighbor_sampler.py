"""Sampling of neighbours: public function and operator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import check_same_device, fail_type, fail_value
from mps_pointops._ragged import fetch, is_sorted
from mps_pointops._registry import register
from mps_pointops.ops.neighbor_sampler.cpu import sample_edges

_OP = "neighbor_sampler"


def neighbor_sampler(start: Tensor, rowptr: Tensor, size: float) -> Tensor:
    """Draw edges of each node of `start`, without replacement. CPU tensors only.

    Args:
        start: Nodes [S], int64 or int32, on cpu. A node that occurs twice is drawn for twice.
        rowptr: Where the edges of each node begin [N + 1], int64 or int32, ascending from 0.
        size: Above 1: edges a node, the integer part. At most 1: the part of a node's edges,
            `ceil(size * degree)` in float64; 1 is all of them.

    Returns:
        Positions of edges, int64 [T], node after node. A node with fewer edges gives all it has.
        Random numbers come from torch's generator of the CPU. Where at least 0.7 of the edges of
        a node are asked for, they are the first of a `torch.randperm(degree)`, called node after
        node before all else; otherwise they are in ascending order.

    Raises:
        TypeError: an argument of the wrong kind or dtype.
        ValueError: wrong shapes, tensors that are not on the CPU, a `rowptr` that does not ascend
            from 0, a `size` that is not positive.
        IndexError: a node outside 0 ... N - 1.

    There is no gradient. Contract: `ops/neighbor_sampler/README.md`.
    """
    for name, value in (("start", start), ("rowptr", rowptr)):
        if not isinstance(value, Tensor):
            fail_type(_OP, name, "a torch.Tensor", type(value).__name__)
    if isinstance(size, (bool, str, bytes)):
        fail_type(_OP, "size", "a number", type(size).__name__)
    try:
        number = float(size)
    except (TypeError, ValueError, RuntimeError):
        fail_type(_OP, "size", "a number", type(size).__name__)
    if not 0 < number < math.inf:  # NaN is not
        fail_value(_OP, "size", "positive and finite", str(number))
    if number <= 1:
        return neighbor_sampler_op(start, rowptr, -1, number)  # type: ignore[no-any-return]
    count = min(int(number), 2**62)  # fits the schema
    return neighbor_sampler_op(start, rowptr, count, -1.0)  # type: ignore[no-any-return]


def _check_vector(name: str, value: Tensor) -> None:
    if value.dtype not in (torch.int64, torch.int32):
        fail_type(_OP, name, "int64 or int32", str(value.dtype), "convert it with .long()")
    if value.dim() != 1:
        fail_value(_OP, name, "a tensor of one axis", f"shape {list(value.shape)}")


def _sample(start: Tensor, rowptr: Tensor, count: int, factor: float) -> Tensor:
    _check_vector("start", start)
    _check_vector("rowptr", rowptr)
    check_same_device(_OP, "rowptr", rowptr, "start", start)
    if rowptr.shape[0] == 0:
        fail_value(_OP, "rowptr", "of shape [N + 1]", "shape [0]")
    if count < 1 and not 0 <= factor < math.inf:
        fail_value(_OP, "factor", "finite and not negative when count is below 1", str(factor))
    begin, ordered = fetch([rowptr[0], is_sorted(rowptr)])
    if begin != 0 or not ordered:
        first = f"a first value of {begin}" if ordered else "values that descend"
        fail_value(_OP, "rowptr", "ascending from 0", first)
    if start.shape[0]:
        low, high = fetch(list(torch.aminmax(start)))
        if low < 0 or high >= rowptr.shape[0] - 1:
            wanted, got = f"from 0 to {rowptr.shape[0] - 2}", low if low < 0 else high
            raise IndexError(f"{_OP}: start must be {wanted}, got {got}")
    return sample_edges(start.to(torch.int64), rowptr.to(torch.int64), count, factor)


def _refuse(start: Tensor, rowptr: Tensor, count: int, factor: float) -> Tensor:
    hint = "it fills lists on the host: call it with .cpu() of both, and move the result"
    name, value = ("start", start) if start.device.type != "cpu" else ("rowptr", rowptr)
    fail_value(_OP, name, "on the CPU", f"device {value.device}", hint)


def _fake(start: Tensor, *arguments: Any) -> Tensor:
    size = torch.library.get_ctx().new_dynamic_size()
    return start.new_empty((size,), dtype=torch.int64)


neighbor_sampler_op = register(
    "neighbor_sampler(Tensor start, Tensor rowptr, SymInt count, float factor) -> Tensor",
    cpu=_sample,
    mps=_refuse,
    fake=_fake,
    tags=(torch.Tag.nondeterministic_seeded,),
)
