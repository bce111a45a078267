"""The nearest point of the same cloud: public function and operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import check_batch, check_same_size, fail_type, fail_value
from mps_pointops._flat_points import check_rule, coordinates
from mps_pointops._integers import largest_where
from mps_pointops._ragged import Facts, check_ptr, ranges_of_ptr
from mps_pointops._registry import register
from mps_pointops._rules import as_rule
from mps_pointops.ops.knn.knn import knn_search

_OP = "nearest"


def nearest(
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    *,
    rule: str = "fma_xyz",
) -> Tensor:
    """The row of `y` nearest to every row of `x` in the same cloud.

    Args:
        x: Queries [N, D], any D >= 1, on cpu or mps; other ranks are taken as (N, -1), a vector
            has D = 1. float32, float16, bfloat16 (widened to float32), float64 (CPU only, searched
            in float64, whatever `rule` says) or integers, which are shifted by their smallest
            coordinates, exactly, and then become float32.
        y: Points [M, D], likewise, same device. M >= 1 unless N = 0.
        batch_x: Cloud of every row of `x` [N], sorted, int64 or int32; None: all in cloud 0.
        batch_y: Cloud of every row of `y` [M], likewise. Both have the same cloud numbers.
        rule: Rounding of squared distances: 'fma_xyz', 'separate' or (D = 3) 'fma_yxz'.

    Returns:
        Rows of `y` [N], int64. Of equally near points the one with the smallest index. A query
        that is not finite, or whose cloud has no finite point, has -1.

    Raises:
        TypeError: an argument is not a tensor of those dtypes.
        ValueError: wrong shapes, different devices, a batch vector that is not sorted or has
            negative numbers, a cloud that has points on one side only, no points in `y`.

    There is no gradient. Contract: `ops/nearest/README.md`.
    """
    for name, value in (("x", x), ("y", y), ("batch_x", batch_x), ("batch_y", batch_y)):
        if not isinstance(value, Tensor) and (value is not None or name in "xy"):
            fail_type(_OP, name, "a torch.Tensor", type(value).__name__)
        if isinstance(value, Tensor) and value.layout != torch.strided:
            fail_type(_OP, name, "a dense (strided) tensor", str(value.layout))
    number = as_rule(_OP, rule, 3).value
    return flat_nearest(x, y, batch_x, batch_y, None, None, number)  # type: ignore[no-any-return]


def _nearest(
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None,
    batch_y: Tensor | None,
    ptr_x: Tensor | None,
    ptr_y: Tensor | None,
    rule: int,
) -> Tensor:
    x, y = coordinates(_OP, {"x": x, "y": y}, any_rank=True)
    rule = check_rule(_OP, rule, x.shape[1])
    facts = Facts(_OP)
    if ptr_x is not None or ptr_y is not None:
        if batch_x is not None or batch_y is not None:
            name = "ptr_x" if ptr_x is not None else "ptr_y"
            fail_value(_OP, name, "None when a batch vector is given", "both", "give one of them")
        first, last = _ranges_of_ptr(facts, x, y, ptr_x, ptr_y)
    elif batch_x is not None or batch_y is not None:
        first, last = _ranges_of_batches(facts, x, y, batch_x, batch_y)
    else:
        first = last = None
    if x.shape[0] and not y.shape[0]:
        fail_value(_OP, "y", "of at least one point, as x has some", f"shape {list(y.shape)}")
    facts.fetch()
    _, index = knn_search(x, y, first, last, 1, min(1, y.shape[0]), False, rule)
    return index.reshape(x.shape[0])  # type: ignore[no-any-return]


def _ranges_of_batches(
    facts: Facts, x: Tensor, y: Tensor, batch_x: Tensor | None, batch_y: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Rows of `y` [N] to look at for every row of `x`."""
    both = {}
    for name, batch, points in (("batch_x", batch_x, x), ("batch_y", batch_y, y)):
        if batch is None:
            both[name] = points.new_zeros(points.shape[0], dtype=torch.int64)
        else:
            batch = check_batch(_OP, name, batch, points, name[-1])
            both[name] = batch.detach().to(torch.int64).contiguous()
            facts.add_batch(name, both[name], None)
    batch_x, batch_y = both["batch_x"], both["batch_y"]
    first = torch.searchsorted(batch_y, batch_x)
    last = torch.searchsorted(batch_y, batch_x, right=True)
    if x.shape[0] and y.shape[0]:
        other_first = torch.searchsorted(batch_x, batch_y)
        other_last = torch.searchsorted(batch_x, batch_y, right=True)
        _add_one_sided(facts, "batch_x", batch_x, first == last, "batch_y")
        _add_one_sided(facts, "batch_y", batch_y, other_first == other_last, "batch_x")
    return first, last


def _add_one_sided(
    facts: Facts, name: str, batch: Tensor, missing: Tensor, other_name: str
) -> None:
    def judge(found: int) -> None:
        if found:
            wanted = f"of clouds that {other_name} has too (without a vector all are in cloud 0)"
            fail_value(_OP, name, wanted, f"a cloud {found - 1}")

    facts.add(judge, largest_where(missing, batch))


def _ranges_of_ptr(
    facts: Facts, x: Tensor, y: Tensor, ptr_x: Tensor | None, ptr_y: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    if ptr_x is None or ptr_y is None:
        name, other = ("ptr_x", "ptr_y") if ptr_x is None else ("ptr_y", "ptr_x")
        fail_value(_OP, name, f"given, as {other} is", "None")
    ptr_x = check_ptr(_OP, "ptr_x", ptr_x, "x", x)
    ptr_y = check_ptr(_OP, "ptr_y", ptr_y, "y", y)
    check_same_size(_OP, "ptr_y", "length", ptr_y.shape[0], "ptr_x", ptr_x.shape[0])
    facts.add_ptr("ptr_x", ptr_x, x.shape[0])
    facts.add_ptr("ptr_y", ptr_y, y.shape[0])
    if ptr_x.shape[0] == 1:  # right if there are no points, and then nothing is searched
        return None, None
    first, last, cloud = ranges_of_ptr(ptr_x, x.shape[0], ptr_y, y.shape[0])

    def judge(found: int) -> None:
        if found:
            wanted = "of at least one point in every cloud in which x has some"
            fail_value(_OP, "ptr_y", wanted, f"none in cloud {found - 1}")

    if x.shape[0]:
        facts.add(judge, largest_where(first >= last, cloud))
    return first, last


def _fake(x: Tensor, *arguments: Any) -> Tensor:
    return x.new_empty((x.shape[0],), dtype=torch.int64)


# Batch vectors and ptrs: none, or batch_x and batch_y, or ptr_x and ptr_y. `rule`: `_rules.Rule`.
flat_nearest = register(
    "flat_nearest(Tensor x, Tensor y, Tensor? batch_x, Tensor? batch_y, Tensor? ptr_x,"
    " Tensor? ptr_y, int rule) -> Tensor",
    cpu=_nearest,
    mps=_nearest,
    fake=_fake,
)
