"""How many points of each padded cloud are real, and which rows a query then looks at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import check_same_device, fail_type, fail_value, may_look_at
from mps_pointops._integers import around_zero


def check_lengths(
    op: str, name: str, value: Any, points_name: str, points: Tensor, *, on_host: bool = False
) -> Tensor:
    """Lengths [N], int64, on the device of the points [N, P, D], each from 0 to P.

    `on_host`: the caller reads them anyhow and checks them itself; they stay where they are, and
    other real dtypes are truncated. Else a tensor on the CPU is looked at. On MPS that would cost
    a read-back: there values out of range count as 0 or P, and MPS_POINTOPS_CHECK_INDICES=1 turns
    the check on.
    """
    if not isinstance(value, Tensor):
        fail_type(op, name, "a torch.Tensor or None", type(value).__name__)
    lengths: Tensor = value
    if on_host:
        check_number(op, name, lengths)
    elif lengths.dtype not in (torch.int64, torch.int32):
        fail_type(op, name, "int64 or int32", str(lengths.dtype))
    clouds, size = points.shape[:2]
    if lengths.dim() != 1 or lengths.shape[0] != clouds:
        wanted = f"of shape [{clouds}], one a cloud of {points_name}"
        fail_value(op, name, wanted, f"shape {list(lengths.shape)}")
    if lengths.device.type != "cpu":
        check_same_device(op, name, lengths, points_name, points)
    lengths = lengths.detach().to(torch.int64)
    if on_host:
        return lengths
    if clouds and may_look_at(lengths):
        check_range(op, name, torch.stack(around_zero(lengths)).tolist(), points_name, size)
    return lengths.clamp(min=0, max=size).to(points.device)


def check_number(op: str, name: str, values: Tensor) -> None:
    """Numbers that can be truncated to integers."""
    if values.is_complex() or values.dtype == torch.bool:
        fail_type(op, name, "numbers", str(values.dtype))


def check_range(op: str, name: str, lengths: list[int], points_name: str, size: int) -> None:
    """Lengths on the host must be from 0 to the padded size."""
    for length in lengths:
        if not 0 <= length <= size:
            wanted = f"from 0 to the number of points of {points_name} ({size})"
            fail_value(op, name, wanted, str(length))


class Rows:
    """Which rows of p2, all clouds below one another, each row of p1 looks at.

    Attributes:
        first: First row [N * P1], int64; None if both sides are full: then clouds are equal parts,
            and the core counts indices in them.
        last: Row after the last [N * P1]; None likewise.
        base: First row of each cloud [N, 1, 1]; None likewise.
        sizes: How many points each row looks at [N, P1]; None likewise.
    """

    def __init__(
        self,
        op: str,
        p1: Tensor,
        p2: Tensor,
        lengths1: Tensor | None,
        lengths2: Tensor | None,
    ) -> None:
        self.first = self.last = self.base = self.sizes = None
        if lengths1 is not None:
            lengths1 = check_lengths(op, "lengths1", lengths1, "p1", p1)
        if lengths2 is not None:
            lengths2 = check_lengths(op, "lengths2", lengths2, "p2", p2)
        if lengths1 is None and lengths2 is None:
            return
        clouds, rows, _ = p1.shape
        size = p2.shape[1]
        number = torch.arange(clouds, device=p1.device)
        sizes = (torch.full_like(number, size) if lengths2 is None else lengths2).unsqueeze(1)
        if lengths1 is not None:  # padding looks at nothing
            row = torch.arange(rows, device=p1.device)
            sizes = torch.where(row < lengths1.unsqueeze(1), sizes, 0)
        self.sizes = sizes.expand(clouds, rows)
        self.base = (number * size).view(-1, 1, 1)
        self.first = (number * size).repeat_interleave(rows)
        self.last = self.first + self.sizes.reshape(-1)


def in_cloud(index: Tensor, base: Tensor | None) -> Tensor:
    """Indices [N, P1, K] as the core gave them -> counted in the cloud; -1 stays."""
    return index if base is None else torch.where(index < 0, -1, index - base)
