"""Clouds of different sizes: from batch vectors to ranges, from padded results to edges.

The device is read at most once a call. What has to be known on the host, sizes and whether the
input was in order, is computed on the device and fetched together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from mps_pointops._checks import check_same_device, fail_type, fail_value

_SORTED = "sorted in ascending order"
_SORT_HINT = "sort the points by it first"


@dataclass
class Picks:
    """Which part of every cloud farthest point sampling draws.

    Attributes:
        ptr: Where clouds begin [B + 1].
        out_ptr: Where their picks begin [B + 1].
        clouds: B.
        total: Picks in all.
    """

    ptr: Tensor
    out_ptr: Tensor
    clouds: int
    total: int

    def starts(self, random: bool) -> Tensor:
        """First pick of every cloud [B], counted in the cloud."""
        sizes = self.ptr[1:] - self.ptr[:-1]
        if not random:
            return torch.zeros_like(sizes)
        drawn = torch.rand(self.clouds, device=sizes.device) * sizes
        # the product may round up to the size
        return torch.minimum(drawn.to(torch.int64), (sizes - 1).clamp_(min=0))


def _counts(sizes: Tensor, ratio: float | Tensor, dtype: torch.dtype) -> Tensor:
    """Points to pick: ceil(size * ratio), both in the dtype of the ratio, as torch_cluster."""
    if not isinstance(ratio, Tensor):
        ratio = torch.tensor(ratio, dtype=dtype)  # a CPU scalar: rounded once, not moved
    return (sizes.to(ratio.dtype) * ratio).ceil().to(torch.int64)


def _cumulative(counts: Tensor) -> Tensor:
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


def _is_sorted(values: Tensor) -> Tensor:
    return (values[1:] >= values[:-1]).all()


def plan_picks(
    op: str,
    points: Tensor,
    batch: Tensor | None,
    ptr: Tensor | Sequence[int] | None,
    ratio: float | Tensor,
    batch_size: int | None,
) -> Picks:
    """Sizes and counts of every cloud; reads the device once, or not at all."""
    total_points = points.shape[0]
    if ptr is None and batch is None:
        ptr = [0, total_points] if batch_size != 0 else [0]
    if ptr is not None and not isinstance(ptr, Tensor):
        return _plan_on_host(op, points, [int(p) for p in ptr], ratio)
    if isinstance(ptr, Tensor):
        check_same_device(op, "ptr", ptr, "x", points)
        if ptr.dtype not in (torch.int64, torch.int32) or ptr.dim() != 1 or ptr.shape[0] < 1:
            fail_type(
                op, "ptr", "int64 of shape [B + 1]", f"{ptr.dtype} of shape {list(ptr.shape)}"
            )
        return _plan_ptr(op, points, ptr.to(torch.int64), ratio)
    assert batch is not None
    if batch_size is None and isinstance(ratio, Tensor) and ratio.dim() == 1:
        batch_size = ratio.shape[0]
    if total_points == 0:
        return _plan_on_host(op, points, [0] * ((batch_size or 0) + 1), ratio)
    if batch_size is not None:
        return _plan_sized(op, points, batch, batch_size, ratio)
    return _plan_unsized(op, points, batch, ratio)


def _check_ratio_length(op: str, ratio: float | Tensor, clouds: int) -> None:
    if isinstance(ratio, Tensor) and ratio.dim() == 1 and ratio.shape[0] != clouds:
        fail_value(op, "ratio", f"of shape [] or [{clouds}]", f"shape {list(ratio.shape)}")


def _check_ratio_values(op: str, smallest: int) -> None:
    if smallest < 0:
        fail_value(op, "ratio", "finite and not negative", "a tensor with other values")


def _plan_on_host(op: str, points: Tensor, ptr: list[int], ratio: float | Tensor) -> Picks:
    clouds = len(ptr) - 1
    ordered = all(a <= b for a, b in pairwise(ptr))
    if clouds < 0 or ptr[0] != 0 or ptr[-1] != points.shape[0] or not ordered:
        fail_value(op, "ptr", f"ascending from 0 to {points.shape[0]}", str(ptr))
    _check_ratio_length(op, ratio, clouds)
    host = torch.tensor(ptr, dtype=torch.int64)
    sizes = host[1:] - host[:-1]
    if not isinstance(ratio, Tensor) or ratio.device.type == "cpu":
        counts = _counts(sizes, ratio, points.dtype)
        out_ptr = _cumulative(counts)
        total, smallest = int(out_ptr[-1]), int(counts.min()) if clouds else 0
    else:  # a ratio that only the device knows
        counts = _counts(sizes.to(points.device), ratio, points.dtype)
        out_ptr = _cumulative(counts)
        total, smallest = torch.stack((out_ptr[-1], counts.min())).tolist() if clouds else (0, 0)
    _check_ratio_values(op, smallest)
    return Picks(host.to(points.device), out_ptr.to(points.device), clouds, total)


def _plan_ptr(op: str, points: Tensor, ptr: Tensor, ratio: float | Tensor) -> Picks:
    clouds = ptr.shape[0] - 1
    _check_ratio_length(op, ratio, clouds)
    counts = _counts(ptr[1:] - ptr[:-1], ratio, points.dtype)
    out_ptr = _cumulative(counts)
    smallest = counts.min() if clouds else out_ptr[0]
    facts = torch.stack((ptr[0], ptr[-1], _is_sorted(ptr).to(torch.int64), out_ptr[-1], smallest))
    first, last, ordered, total, least = facts.tolist()
    if first != 0 or last != points.shape[0] or not ordered:
        got = f"{first} to {last}" if ordered else "values that descend"
        fail_value(op, "ptr", f"ascending from 0 to {points.shape[0]}", got)
    _check_ratio_values(op, least)
    return Picks(ptr, out_ptr, clouds, total)


def _plan_sized(
    op: str, points: Tensor, batch: Tensor, clouds: int, ratio: float | Tensor
) -> Picks:
    _check_ratio_length(op, ratio, clouds)
    numbers = torch.arange(clouds + 1, dtype=batch.dtype, device=batch.device)
    ptr = torch.searchsorted(batch.contiguous(), numbers)
    counts = _counts(ptr[1:] - ptr[:-1], ratio, points.dtype)
    out_ptr = _cumulative(counts)
    smallest = counts.min() if clouds else out_ptr[0]
    facts = (batch[0], batch[-1], _is_sorted(batch), out_ptr[-1], smallest)
    lowest, highest, ordered, total, least = torch.stack(
        [fact.to(torch.int64) for fact in facts]
    ).tolist()
    _check_order(op, "batch", bool(ordered), lowest)
    if highest >= clouds:
        fail_value(op, "batch", f"below the number of clouds ({clouds})", f"a cloud {highest}")
    _check_ratio_values(op, least)
    return Picks(ptr, out_ptr, clouds, total)


def _plan_unsized(op: str, points: Tensor, batch: Tensor, ratio: float | Tensor) -> Picks:
    """The number of clouds and the number of picks, fetched together.

    The picks are summed over the first points of the clouds, so the number of clouds need not be
    known for it.
    """
    batch = batch.contiguous()
    begin = torch.searchsorted(batch, batch)
    end = torch.searchsorted(batch, batch, right=True)
    is_first = begin == torch.arange(batch.shape[0], device=batch.device)
    counts = torch.where(is_first, _counts(end - begin, ratio, points.dtype), 0)
    facts = (batch[0], batch[-1], _is_sorted(batch), counts.sum(), counts.min())
    lowest, highest, ordered, total, least = torch.stack(
        [fact.to(torch.int64) for fact in facts]
    ).tolist()
    _check_order(op, "batch", bool(ordered), lowest)
    _check_ratio_values(op, least)
    clouds = highest + 1
    numbers = torch.arange(clouds + 1, dtype=batch.dtype, device=batch.device)
    ptr = torch.searchsorted(batch, numbers)
    out_ptr = _cumulative(_counts(ptr[1:] - ptr[:-1], ratio, points.dtype))
    return Picks(ptr, out_ptr, clouds, total)


def _check_order(op: str, name: str, ordered: bool, lowest: int) -> None:
    if not ordered:
        fail_value(op, name, _SORTED, "values that descend", _SORT_HINT)
    if lowest < 0:
        fail_value(op, name, "cloud numbers from 0", str(lowest))


def segments(
    x: Tensor, y: Tensor, batch_x: Tensor | None, batch_y: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """For every row of `y` the rows of `x` in its cloud: first [M], last [M] (exclusive), int64.

    None, None where all is one cloud. Vectors that are not sorted give wrong ranges inside the
    input, never outside; `edges` reports them.
    """
    if batch_x is None and batch_y is None:
        return None, None
    if batch_x is None:
        batch_x = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    if batch_y is None:
        batch_y = torch.zeros(y.shape[0], dtype=torch.int64, device=y.device)
    batch_x, batch_y = batch_x.to(torch.int64).contiguous(), batch_y.to(torch.int64).contiguous()
    first = torch.searchsorted(batch_x, batch_y)
    last = torch.searchsorted(batch_x, batch_y, right=True)
    return first, last


def edges(op: str, index: Tensor, **batches: Tensor | None) -> Tensor:
    """Padded neighbours [M, K], -1 where none, as edges [2, E]; checks the batch vectors too."""
    rows, places = index.shape
    if index.numel() == 0:
        return index.new_empty((2, 0))
    given = {name: batch for name, batch in batches.items() if batch is not None and len(batch)}
    found = (index >= 0).flatten()
    place = found.cumsum(0)
    facts = [place[-1]]
    for batch in given.values():
        facts += [_is_sorted(batch).to(torch.int64), batch[0].to(torch.int64)]
    count, *orders = torch.stack(facts).tolist()
    for name, ordered, lowest in zip(given, orders[::2], orders[1::2], strict=True):
        _check_order(op, name, bool(ordered), lowest)
    row = torch.arange(rows, device=index.device).unsqueeze(1).expand(rows, places).flatten()
    column = index.flatten()
    if count < rows * places:
        # compaction without asking the device again: empty slots write one place past the end
        target = torch.where(found, place - 1, count)
        row = torch.empty_like(row[: count + 1]).scatter_(0, target, row)[:count]
        column = torch.empty_like(column[: count + 1]).scatter_(0, target, column)[:count]
    return torch.stack((row, column))
