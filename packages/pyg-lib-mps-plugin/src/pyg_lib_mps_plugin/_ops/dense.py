"""Matrix products by segment or group, and `pyg::sampled_op`. Made of torch's own operators."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyg_lib_mps_plugin._ops import segments as core
from pyg_lib_mps_plugin._ops.sizes import check_index, check_integers, fail

_FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
}


def segment_matmul(input: Tensor, ptr: Tensor, other: Tensor) -> Tensor:
    """`pyg::segment_matmul`: rows of a segment times the matrix of it; 0 outside of all.

    `ptr` may be on the CPU, which spares a read-back.
    """
    op = "segment_matmul"
    if input.dim() != 2 or other.dim() != 3 or input.shape[1] != other.shape[1]:
        got = f"shapes {list(input.shape)} and {list(other.shape)}"
        fail(op, "input and other", "of shapes [N, K] and [B, K, M]", got)
    if ptr.dim() != 1 or ptr.shape[0] != other.shape[0] + 1:
        fail(op, "ptr", f"of shape [{other.shape[0] + 1}]", f"shape {list(ptr.shape)}")
    check_integers(op, "ptr", ptr)
    places = ptr.tolist()
    ascending = all(a <= b for a, b in zip([0, *places], [*places, len(input)], strict=True))
    if not ascending:
        fail(op, "ptr", f"ascending from 0 to at most {len(input)}", str(places))
    sizes = [b - a for a, b in zip([0, *places], [*places, len(input)], strict=True)]
    parts = torch.split(input, sizes)
    products = [part @ matrix for part, matrix in zip(parts[1:-1], other.unbind(), strict=True)]
    dtype = products[0].dtype if products else input.dtype  # of autocast, where it is on
    outside = input.new_zeros((1, other.shape[2]), dtype=dtype)
    before, after = outside.expand(sizes[0], -1), outside.expand(sizes[-1], -1)
    return torch.cat([before, *products, after])


def grouped_matmul(input: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    """`pyg::grouped_matmul`."""
    if len(input) != len(other):
        fail("grouped_matmul", "other", f"a list of {len(input)}, as input", f"{len(other)}")
    return [left @ right for left, right in zip(input, other, strict=True)]


def sampled_op(
    left: Tensor, right: Tensor, left_index: Tensor | None, right_index: Tensor | None, op: str
) -> Tensor:
    """`pyg::sampled_op`: left[left_index] op right[right_index], row by row.

    An index out of range reads NaN (0 for integers).
    """
    if op not in _FUNCTIONS:
        fail("sampled_op", "op", f"one of {', '.join(_FUNCTIONS)}", repr(op))
    left = _rows("left_index", left, left_index)
    right = _rows("right_index", right, right_index)
    return _FUNCTIONS[op](left, right)


def _rows(name: str, values: Tensor, index: Tensor | None) -> Tensor:
    if index is None:
        return values
    check_index("sampled_op", name, index, values)
    if index.dim() != 1 or values.dim() != 2:
        got = f"shapes {list(index.shape)} and {list(values.shape)}"
        fail("sampled_op", f"{name} and its values", "of shapes [E] and [N, F]", got)
    missing = torch.nan if values.is_floating_point() else 0
    return core.pick(values, index.unsqueeze(0), values.shape[0], missing)
