"""Clouds and picks of ragged farthest point sampling on MPS: launches of `picks.metal`."""

from __future__ import annotations

from functools import reduce
from operator import or_

import torch
from torch import Tensor

from mps_pointops._flat_mps.parts import NUMBERS, parts_of, running
from mps_pointops._metal import Source, launch

ROWS, NUMBERED, POINTER, ONE = 0, 1, 2, 3  # as in picks.metal
_EACH = 2 * NUMBERS

SOURCE = Source(
    __package__,
    "picks",
    {"RULE": (0,), "DIM": (0,)},
    "parts",
    kernels=("count_picks", "plan_picks"),
)


class Plan:
    """Clouds of a set of points, and their picks.

    Args:
        points: The points [N, D].
        form: What tells clouds apart: `ROWS` or `NUMBERED` a batch vector [N], `POINTER` where
            they begin [B + 1]; `ONE` nothing.
        told: That tensor, int64; for `ONE` None.
        clouds: B; for `ROWS` known once they are counted.
        ratio: Picks a point of a cloud: a number of float32, or float32 [] or [B] on the device.

    Attributes:
        clouds: B.
        total: Picks in all.
        largest: Points of the cloud with most.
        most: Picks of the cloud with most.
        ordered: Whether `told` ascends,
        ends: its first and last number,
        valid: and whether the ratios on the device are numbers from 0.
    """

    def __init__(
        self, points: Tensor, form: int, told: Tensor | None, clouds: int, ratio: Tensor | float
    ) -> None:
        self.form, self.clouds = form, clouds
        self.rows = points.shape[0]
        self.items = self.rows if form == ROWS else clouds
        device = points.device
        self.told = torch.empty(1, dtype=torch.int64, device=device) if told is None else told
        self.length = 0 if told is None else told.shape[0]
        # nothing is read where there is nothing to give
        self.ratios = points if points.numel() else self.told.view(torch.float32)
        self.ratio_count, self.ratio = 0, 0.0
        if not isinstance(ratio, Tensor):
            self.ratio = ratio
        elif ratio.numel():
            self.ratios = ratio.reshape(-1).contiguous()
            self.ratio_count = self.ratios.shape[0]
        self.parts = parts_of(max(self.items, self.length, self.ratio_count))
        self.total = self.largest = self.most = 0
        self.ordered = self.valid = True
        self.ends = 0, 0
        self._begins = [0], [0]

    @property
    def numbers(self) -> int:
        """How many numbers a pass finds."""
        return self.parts.count * _EACH

    def count(self, numbers: Tensor) -> None:
        """A pass that finds the numbers for `take`, on the device."""
        launch(
            SOURCE.kernel(0, 0, name="count_picks"),
            self.told,
            self.ratios,
            numbers,
            self.ratio,
            [self.items, self.rows, self.length, self.parts.span, self.form, self.ratio_count],
            **self.parts.grid,
        )

    def take(self, numbers: list[int]) -> None:
        """What the parts found, read."""
        picks, self.total = running(numbers[::_EACH])
        clouds, self.clouds = running(numbers[3::_EACH])
        self._begins = clouds, picks
        self.most, self.largest = max(numbers[1::_EACH]), max(numbers[4::_EACH])
        flags = reduce(or_, numbers[2::_EACH])
        self.ordered, self.valid = not flags & 1, not flags & 2
        self.ends = numbers[5], numbers[6]

    def know(self, picks: list[int], largest: int) -> None:
        """What the host knows without a pass: picks of every cloud, and the largest cloud."""
        span = self.parts.span
        sums = [sum(picks[i : i + span]) for i in range(0, max(len(picks), 1), span)]
        before, self.total = running(sums)
        self._begins = [i * span for i in range(len(sums))], before
        self.largest, self.most = largest, max(picks, default=0)

    def place(self, random: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Where clouds begin, where their picks begin [B + 1], and first picks [B], int64."""
        device, kind = self.told.device, torch.int64
        ptr = torch.empty(self.clouds + 1, dtype=kind, device=device)
        out_ptr = torch.empty(self.clouds + 1, dtype=kind, device=device)
        starts = torch.empty(self.clouds, dtype=kind, device=device)
        drawn = self.ratios
        if random:
            drawn = torch.rand(self.clouds, device=device, dtype=torch.float32)
        shape = [self.items, self.rows, self.clouds, self.total, self.parts.span, self.form]
        launch(
            SOURCE.kernel(0, 0, name="plan_picks"),
            self.told,
            self.ratios,
            drawn if drawn.numel() else self.ratios,
            ptr,
            out_ptr,
            starts if self.clouds else ptr,
            *self._begins,
            self.ratio,
            [*shape, self.ratio_count, int(random)],
            **self.parts.grid,
        )
        return ptr, out_ptr, starts
