"""Farthest point sampling of padded clouds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from mps_pointops._checks import (
    as_int,
    check_points,
    check_same_device,
    check_same_size,
    fail_value,
)
from mps_pointops._rules import Rule, Ties
from mps_pointops.ops.fps.fps import fps
from mps_pointops.pytorch3d.gather import masked_gather
from mps_pointops.pytorch3d.lengths import check_lengths, check_number, check_range

_OP = "pytorch3d.sample_farthest_points"
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def sample_farthest_points(
    points: Tensor,
    lengths: Tensor | None = None,
    K: int | Sequence[int] | Tensor = 50,
    random_start_point: bool = False,
) -> tuple[Tensor, Tensor]:
    """Pick points of every cloud one by one, each the farthest from those already picked.

    Args:
        points: Clouds [N, P, D], any D >= 1; float32, float16, bfloat16, integers or, on the CPU,
            float64 (all converted to float32); on cpu or mps.
        lengths: How many points of each cloud are real [N], numbers (truncated), on the device of
            the points or on the CPU; None: all.
        K: Picks per cloud, >= 0: an integer, or one number a cloud (truncated) as a list or tensor
            [N]. It may exceed the size of the cloud, of which all points are then picked.
        random_start_point: First pick drawn from torch's generator of the device; else the first
            point.

    Returns:
        Picked points [N, max K, D], float32, and indices into P [N, max K], int64, in the order of
        picking. Ties go to the smaller index. Slots beyond the K of a cloud or beyond its size hold
        zeros and index -1. Points with a NaN or infinite coordinate are never picked, except as
        the start.

    Raises:
        TypeError, ValueError: wrong kinds, dtypes, shapes or devices, a negative K, lengths
            outside 0 to P.

    The picked points have a gradient in `points`, indices have none. The device is read once if
    `lengths` or `K` is a tensor there, else never. Contract: `pytorch3d/README.md`.
    """
    if isinstance(points, Tensor) and points.dtype in _INTEGERS:
        points = points.to(torch.float32)
    points = check_points(_OP, "points", points, rank=3, double=True).to(torch.float32)
    if lengths is not None:
        lengths = check_lengths(_OP, "lengths", lengths, "points", points, on_host=True)
    sizes, picks = _on_host(points, lengths, K)
    # no clouds, but picks of them
    most = max(picks, default=0 if isinstance(K, (Tensor, Sequence)) else as_int(_OP, "K", K))
    if points.device.type == "meta":
        idx = points.new_empty((points.shape[0], most), dtype=torch.int64)
    else:
        padded, random = lengths is not None, bool(random_start_point)
        idx = _picked(points.detach(), sizes, picks, most, padded, random)
    return masked_gather(points, idx), idx


def _on_host(points: Tensor, lengths: Tensor | None, K: Any) -> tuple[list[int], list[int]]:
    """Sizes of the clouds and their K; one read of the device for both."""
    clouds, size = points.shape[:2]
    wanted = _check_picks(points, K)
    asked = [t for t in (lengths, wanted) if isinstance(t, Tensor)]
    if len(asked) == 2 and asked[0].device == asked[1].device:
        read = torch.stack(asked).tolist()
    else:
        read = [t.tolist() for t in asked]
    sizes = read.pop(0) if lengths is not None else [size] * clouds
    picks = read.pop(0) if isinstance(wanted, Tensor) else wanted
    check_range(_OP, "lengths", sizes, "points", size)
    return sizes, [as_int(_OP, "K", k) for k in picks]


def _check_picks(points: Tensor, K: Any) -> Tensor | list[Any]:
    """One K a cloud, a tensor where it is, else numbers that are not looked at yet."""
    clouds = points.shape[0]
    if isinstance(K, Tensor) and K.dim() == 0:
        K = K.expand(clouds)
    if isinstance(K, Tensor):
        check_number(_OP, "K", K)
        if K.dim() != 1:
            fail_value(_OP, "K", f"a number or of shape [{clouds}]", f"shape {list(K.shape)}")
        if K.device.type != "cpu":
            check_same_device(_OP, "K", K, "points", points)
        check_same_size(_OP, "K", "batch size", K.shape[0], "points", clouds)
        return K.detach().to(torch.int64)
    if isinstance(K, Sequence) and not isinstance(K, (str, bytes)):
        check_same_size(_OP, "K", "batch size", len(K), "points", clouds)
        return [int(k) if isinstance(k, float) and math.isfinite(k) else k for k in K]
    return [as_int(_OP, "K", K)] * clouds


def _picked(
    points: Tensor, sizes: list[int], picks: list[int], most: int, padded: bool, random: bool
) -> Tensor:
    """Indices [N, most]; -1 in slots without a pick."""
    clouds, size, dim = points.shape
    device = points.device
    counts = [min(k, n) for k, n in zip(picks, sizes, strict=True)]
    equal = not random and all(n == size for n in sizes) and len(set(counts)) <= 1
    total = sum(counts)
    if total == 0:
        return torch.full((clouds, most), -1, dtype=torch.int64, device=device)
    ptr = out_ptr = start = None
    if not equal:
        # points and picks of all clouds below one another; padding is a cloud without picks
        bounds = [b for n, s in enumerate(sizes) for b in (n * size, n * size + s)]
        ptr = torch.tensor([*bounds, clouds * size], dtype=torch.int64, device=device)
        ends = accumulate((c for k in counts for c in (k, 0)), initial=0)
        out_ptr = torch.tensor(list(ends), dtype=torch.int64, device=device)
        start = torch.zeros(2 * clouds, dtype=torch.int64, device=device)
        if random:
            start[::2] = _starts(points, sizes, padded)
    picked = fps(
        points.reshape(clouds * size, dim).contiguous(),
        ptr,
        out_ptr,
        start,
        clouds if equal else 2 * clouds,
        total,
        max(*sizes, size - min(sizes)),
        max(counts),
        0,
        False,
        Rule.FMA_XYZ.value,
        Ties.LOWEST_INDEX.value,
    )
    if out_ptr is None:
        index = picked.view(clouds, counts[0])
        rest = index.new_full((clouds, most - counts[0]), -1)
        return torch.cat((index, rest), dim=1)
    slot = torch.arange(most, device=device)
    filled = slot < torch.tensor(counts, dtype=torch.int64, device=device).unsqueeze(1)
    place = out_ptr[:-1:2].unsqueeze(1) + slot
    base = torch.arange(clouds, device=device).unsqueeze(1) * size
    return torch.where(filled, picked[place.clamp(max=total - 1)] - base, -1)


def _starts(points: Tensor, sizes: list[int], padded: bool) -> Tensor:
    """First pick of every cloud [N], int64, drawn on its device."""
    clouds, size, device = points.shape[0], points.shape[1], points.device
    if not padded:
        return torch.randint(size, (clouds,), device=device)
    limits = torch.tensor(sizes, dtype=torch.int64, device=device)
    drawn = torch.rand(clouds, dtype=torch.float32, device=device) * limits
    # 1 is not drawn, but a pick outside the cloud would be read
    return torch.minimum(drawn.to(torch.int64), (limits - 1).clamp(min=0))
