"""How many points of each cloud farthest point sampling draws, and where they go."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from mps_pointops._checks import (
    MAX_POINTS,
    as_int,
    check_same_device,
    fail_type,
    fail_value,
    plain,
)
from mps_pointops._flat_mps.picks import NUMBERED, ONE, POINTER, ROWS, Plan
from mps_pointops._flat_names import Names
from mps_pointops._ragged import (
    Facts,
    Judge,
    check_ptr,
    cumulative,
    fetch,
    is_sorted,
    judge_batch,
    judge_ptr,
)


@dataclass
class Picks:
    """Which part of every cloud is drawn.

    Attributes:
        ptr: Where clouds begin [B + 1], int64.
        out_ptr: Where their picks begin [B + 1], int64.
        clouds: B.
        total: Picks in all.
        largest: Points of the largest cloud.
        most: Picks of the cloud with most.
    """

    ptr: Tensor
    out_ptr: Tensor
    clouds: int
    total: int
    largest: int
    most: int

    def place(self, random: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Where clouds and their picks begin, and the first pick of every cloud [B], in it."""
        sizes = self.ptr[1:] - self.ptr[:-1]
        if not random:
            return self.ptr, self.out_ptr, torch.zeros_like(sizes)
        drawn = torch.rand(self.clouds, device=sizes.device, dtype=torch.float32) * sizes
        # the product may round up to the size
        starts = torch.minimum(drawn.to(torch.int64), (sizes - 1).clamp_(min=0))
        return self.ptr, self.out_ptr, starts


class Ratio:
    """Which part of a cloud to pick: [] or [B], on the CPU or on the device of the points."""

    def __init__(
        self, names: Names, value: Tensor | None, dtype: torch.dtype, points: Tensor
    ) -> None:
        self.op = op = names.op
        if value is None:  # in the dtype of the coordinates
            kind = dtype if dtype.is_floating_point else torch.float32
            value = torch.tensor(0.5, dtype=kind, device="cpu")
        if value.dtype in (torch.int64, torch.int32):
            value = value.to(torch.float32)
        if not value.is_floating_point() or value.dim() > 1:
            wanted = "a number or a float, int64 or int32 tensor of shape [] or [B]"
            fail_type(op, "ratio", wanted, f"{value.dtype} of shape {list(value.shape)}")
        if value.device.type != "cpu":
            check_same_device(op, "ratio", value, names.x, points)
        value = value.detach() if value.requires_grad else value
        self.value = value[0] if value.dim() == 1 and value.shape[0] == 1 else value
        # a single one, if the host has it
        self.number = self.value.item() if self.on_host and self.value.dim() == 0 else None
        # only the host has the dtype: all sizes go there
        self.needs_host = value.dtype == torch.float64 and points.device.type != "cpu"
        if self.value.dim() == 1 and not self.needs_host:
            self.value = self.value.to(points.device)

    @property
    def known(self) -> Tensor | float:
        """The number, if the host has it, or the tensor."""
        return self.value if self.number is None else self.number

    @property
    def on_host(self) -> bool:
        """Whether its values can be looked at without a read-back."""
        return self.value.device.type == "cpu"

    def check_length(self, clouds: int) -> None:
        """One ratio, or one a cloud."""
        if self.value.dim() == 1 and self.value.shape[0] != clouds:
            got = f"shape {list(self.value.shape)}"
            fail_value(self.op, "ratio", f"of shape [] or [{clouds}]", got)

    def judge_batch(self, clouds: int | None, is_given: bool) -> Judge:
        """As that of `_ragged`; unless their number is given, it is that of the ratios."""
        judge = judge_batch(self.op, "batch", clouds if is_given else None)

        def judge_both(ordered: int, lowest: int, highest: int) -> None:
            judge(ordered, lowest, highest)
            if clouds is not None:
                self.check_length(clouds if is_given else highest + 1)

        return judge_both

    def is_valid(self) -> Tensor:
        """Whether all values are numbers from 0: [], on its device."""
        return (torch.isfinite(self.value) & (self.value >= 0)).all()

    def is_known_wrong(self) -> bool:
        """Whether the host sees that it is none."""
        return self.number is not None and not 0.0 <= self.number < math.inf

    def check(self, valid: int, total: int) -> None:
        """Raise if a value has no meaning, or asks for more than can be counted."""
        if not valid:
            got = "a tensor with other values" if self.number is None else str(self.number)
            fail_value(self.op, "ratio", "finite and not negative", got)
        if total > MAX_POINTS:
            fail_value(self.op, "ratio", f"for at most {MAX_POINTS} picks in all", str(total))

    def counts(self, sizes: Tensor) -> Tensor:
        """ceil(size * ratio), both factors in the dtype of the ratio, as torch_cluster: int64.

        Where that dtype cannot hold the size, in float32.
        """
        exact = (sizes.to(self.value.dtype) * self.value).ceil()
        if exact.dtype != torch.float64:
            exact = exact.to(torch.float32)
        wide = (sizes.to(torch.float32) * self.value.to(torch.float32)).ceil()
        counts = torch.where(torch.isfinite(exact), exact, wide)
        return counts.clamp(min=0, max=2.0**31).to(torch.int64)


def plan_picks(
    names: Names,
    points: Tensor,
    batch: Tensor | None,
    ptr: Tensor | None,
    ratio: Ratio,
    batch_size: int | None,
) -> Picks | Plan:
    """Sizes and counts of every cloud; reads the device once, or not at all."""
    op, total_points = names.op, points.shape[0]
    if batch_size is not None:
        batch_size = as_int(op, "batch_size", batch_size)
    if batch is not None and ptr is not None:
        fail_value(op, "ptr", "None when batch is given", "both", "give one of them")
    if batch is None and batch_size is not None:
        fail_value(op, "batch_size", "None without batch", str(batch_size), "give batch too")
    # the kernels multiply in float32
    by_kernels = points.device.type != "cpu" and ratio.value.dtype == torch.float32
    if ptr is not None:
        known = ptr.device.type == "cpu"
        ptr = check_ptr(op, "ptr", ptr, names.x, ptr if known else points)
        if by_kernels and not (known and not ratio.on_host):
            return _plan(points, POINTER, ptr, ptr.shape[0] - 1, ratio)
        if known or ratio.needs_host:
            return _on_host(points, ptr.tolist(), ratio)
        return _from_ptr(points, ptr, ratio)
    if batch is None and by_kernels and ratio.on_host:
        ratio.check_length(1)
        return _plan_one(points, ratio)
    if batch is None:
        return _on_host(points, [0, total_points], ratio)
    is_given = batch_size is not None
    if batch_size is None and ratio.value.dim() == 1:
        batch_size = ratio.value.shape[0]
    if total_points == 0:
        return _on_host(points, [0] * ((batch_size or 0) + 1), ratio)
    batch = batch.contiguous()
    if by_kernels:
        form = ROWS if batch_size is None else NUMBERED
        return _plan(points, form, batch, batch_size or 0, ratio, is_given)
    if ratio.needs_host:
        batch = batch.cpu()
    if batch_size is not None:
        picks = _of_known_number(batch, batch_size, ratio, is_given)
    else:
        picks = _of_unknown_number(batch, ratio)
    picks.ptr, picks.out_ptr = picks.ptr.to(points.device), picks.out_ptr.to(points.device)
    return picks


def _plan(
    points: Tensor, form: int, told: Tensor, clouds: int, ratio: Ratio, is_given: bool = True
) -> Plan:
    """By the kernels: counted in one pass that is read, or on the host where sizes are known."""
    op, size = ratio.op, points.shape[0]
    told = plain(told, torch.int64)
    if form != ROWS:
        ratio.check_length(clouds)
    if told.device.type == "cpu":  # a ptr
        begins = told.tolist()
        ordered = all(a <= b for a, b in pairwise(begins))
        if begins[0] != 0 or begins[-1] != size or not ordered:
            fail_value(op, "ptr", f"ascending from 0 to {size}", str(begins))
        sizes = told[1:] - told[:-1]
        counts = ratio.counts(sizes).tolist()
        ratio.check(not ratio.is_known_wrong(), sum(counts))
        plan = Plan(points, POINTER, told.to(points.device), clouds, ratio.known)
        plan.know(counts, max(sizes.tolist(), default=0))
        return plan
    plan = Plan(points, form, told, clouds, ratio.known)
    facts = Facts(op)
    plan.count(facts.add_room(plan.take, plan.numbers, told))
    facts.fetch()
    if form == POINTER:
        judge_ptr(op, "ptr", size)(plan.ordered, *plan.ends)
    else:
        known = None if form == ROWS else clouds
        ratio.judge_batch(known, is_given)(plan.ordered, *plan.ends)
    ratio.check(plan.valid and not ratio.is_known_wrong(), plan.total)
    return plan


def _plan_one(points: Tensor, ratio: Ratio) -> Plan:
    """One cloud, on the host."""
    size, part, valid = points.shape[0], ratio.number, not ratio.is_known_wrong()
    assert part is not None
    # the product of two floats is exact here
    product = float(np.float32(size)) * part if valid else 0.0
    wanted = math.ceil(np.float32(product)) if product < 2.0**31 else 2**31
    ratio.check(valid, wanted)
    plan = Plan(points, ONE, None, 1, ratio.known)
    plan.know([wanted], size)
    return plan


def _maximum(values: Tensor) -> Tensor:
    return values.max() if values.shape[0] else values.sum()


def _on_host(points: Tensor, ptr: list[int], ratio: Ratio) -> Picks:
    clouds, size = len(ptr) - 1, points.shape[0]
    ordered = all(a <= b for a, b in pairwise(ptr))
    if clouds < 0 or ptr[0] != 0 or ptr[-1] != size or not ordered:
        fail_value(ratio.op, "ptr", f"ascending from 0 to {size}", str(ptr))
    ratio.check_length(clouds)
    begins = torch.tensor(ptr, dtype=torch.int64, device="cpu")
    if not ratio.on_host:  # the counts are made where the ratio is
        begins = begins.to(points.device)
    sizes = begins[1:] - begins[:-1]
    counts = ratio.counts(sizes)
    valid, total, most = fetch([ratio.is_valid(), counts.sum(), _maximum(counts)])
    ratio.check(valid, total)
    out_ptr = cumulative(counts).to(points.device)
    largest = max((b - a for a, b in pairwise(ptr)), default=0)
    return Picks(begins.to(points.device), out_ptr, clouds, total, largest, most)


def _from_ptr(points: Tensor, ptr: Tensor, ratio: Ratio) -> Picks:
    facts = Facts(ratio.op)
    facts.add_ptr("ptr", ptr, points.shape[0])
    return _of_sizes(ptr, ratio, facts)


def _of_known_number(batch: Tensor, clouds: int, ratio: Ratio, is_given: bool) -> Picks:
    numbers = torch.arange(clouds + 1, dtype=batch.dtype, device=batch.device)
    facts = Facts(ratio.op)
    facts.add(ratio.judge_batch(clouds, is_given), is_sorted(batch), batch[0], batch[-1])
    return _of_sizes(torch.searchsorted(batch, numbers), ratio, facts)


def _of_sizes(ptr: Tensor, ratio: Ratio, facts: Facts) -> Picks:
    clouds = ptr.shape[0] - 1
    ratio.check_length(clouds)
    sizes = ptr[1:] - ptr[:-1]
    counts = ratio.counts(sizes)
    sums = [counts.sum(), _maximum(sizes), _maximum(counts)]
    valid, total, largest, most = facts.fetch(ratio.is_valid().to(ptr.device), *sums)
    ratio.check(valid, total)
    return Picks(ptr, cumulative(counts), clouds, total, largest, most)


def _of_unknown_number(batch: Tensor, ratio: Ratio) -> Picks:
    """Clouds that have points, however they are numbered; all sums over their first points."""
    total_points = batch.shape[0]
    if batch.device.type == "cpu":  # nothing is read back: where clouds begin is looked up
        begins = (batch[1:] != batch[:-1]).nonzero().view(-1) + 1
        ends = begins.new_tensor([0, total_points])
        facts = Facts(ratio.op)
        facts.add_batch("batch", batch, None)
        return _of_sizes(torch.cat((ends[:1], begins, ends[1:])), ratio, facts)
    number = torch.arange(total_points, device=batch.device)
    begin = torch.searchsorted(batch, batch)
    sizes = torch.searchsorted(batch, batch, right=True) - begin
    is_first = begin == number
    counts = torch.where(is_first, ratio.counts(sizes), 0)
    facts = Facts(ratio.op)
    facts.add_batch("batch", batch, None)
    sums = [is_first.sum(), counts.sum(), sizes.max(), counts.max()]
    valid, clouds, total, largest, most = facts.fetch(ratio.is_valid().to(batch.device), *sums)
    ratio.check(valid, total)
    # the first points, in order: others write one place past the end
    place = torch.where(is_first, is_first.cumsum(0) - 1, clouds)
    firsts = torch.empty_like(number[: clouds + 1]).scatter_(0, place, number)[:clouds]
    ptr = torch.cat((firsts, firsts.new_full((1,), total_points)))
    return Picks(ptr, cumulative(counts[firsts]), clouds, total, largest, most)
