"""Queries of an index of clouds of different sizes: the rows that each looks at."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._checks import check_same_device, check_same_size, fail_type, fail_value
from mps_pointops._integers import around_zero
from mps_pointops._ragged import Facts, check_ptr

# First row and row after the last, for each query [M], int64
Ranges = tuple[Tensor | None, Tensor | None]


def cloud_ranges(
    op: str,
    begins: Tensor | None,
    query: Tensor,
    batch: Tensor | None,
    ptr: Tensor | None,
    facts: Facts,
) -> Ranges:
    """Rows of the cloud of each query; none if there are no clouds of different sizes.

    Args:
        op: Name for messages.
        begins: Where the clouds of the index begin [B + 1], if they have different sizes.
        query: Queries [M, D].
        batch: Number of the cloud of each query [M], or
        ptr: where each cloud begins in the queries [B + 1].
        facts: Gets what has to be known about `batch` or `ptr`; until then ranges may be wrong,
            but are inside the points.
    """
    given = {name: t for name, t in (("batch", batch), ("ptr", ptr)) if t is not None}
    for name, tensor in given.items():
        if not isinstance(tensor, Tensor):
            fail_type(op, name, "a torch.Tensor", type(tensor).__name__)
    if begins is None:
        for name in given:
            fail_value(op, name, "None, as the index was made without a ptr", "a tensor")
        return None, None
    if len(given) != 1:
        got = "both" if given else "neither"
        fail_value(op, "batch", "given, or ptr, as the index was made with one", got)
    clouds = begins.shape[0] - 1
    if ptr is not None:
        ptr = check_ptr(op, "ptr", ptr, "query", query)
        check_same_size(op, "ptr", "length", len(ptr), "the ptr of the index", clouds + 1)
        facts.add_ptr("ptr", ptr, len(query))
        row = torch.arange(len(query), device=query.device)
        cloud = torch.searchsorted(ptr, row, right=True) - 1
    else:
        assert batch is not None
        cloud = _checked(op, batch, query, clouds, facts)
    if clouds == 0:  # then there are neither points nor, if all is well, queries
        return None, None
    cloud = cloud.clamp(min=0, max=clouds - 1)
    return begins[cloud], begins[cloud + 1]


def _checked(op: str, batch: Tensor, query: Tensor, clouds: int, facts: Facts) -> Tensor:
    """Cloud numbers, int64."""
    if batch.dtype not in (torch.int64, torch.int32):
        fail_type(op, "batch", "int64 or int32", str(batch.dtype))
    if batch.shape != (len(query),):
        wanted = f"of shape [{len(query)}], one cloud number a query"
        fail_value(op, "batch", wanted, f"shape {list(batch.shape)}")
    check_same_device(op, "batch", batch, "query", query)
    batch = batch.detach().to(torch.int64)

    def judge(lowest: int, highest: int) -> None:
        if lowest < 0 or highest >= clouds:
            got = lowest if lowest < 0 else highest
            fail_value(op, "batch", f"from 0 to {clouds - 1}, the clouds of the index", str(got))

    if len(batch):
        facts.add(judge, *around_zero(batch))
    return batch
