"""k nearest neighbours of padded clouds, with a gradient."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from mps_pointops._checks import as_int, check_pair, fail_value
from mps_pointops._integers import repeated
from mps_pointops._registry import in_shape
from mps_pointops._rules import Rule
from mps_pointops.ops.gather.gather import gather, scatter
from mps_pointops.ops.knn.knn import knn_search
from mps_pointops.pytorch3d.gather import knn_gather
from mps_pointops.pytorch3d.lengths import Rows, in_cloud
from mps_pointops.pytorch3d.manhattan import nearest_by_sum


class KNN(NamedTuple):
    """What `knn_points` and `ball_query` return.

    Attributes:
        dists: Distances [N, P1, K], squared for `norm=2`.
        idx: Indices into P2 [N, P1, K], int64.
        knn: Points [N, P1, K, D], or None.
    """

    dists: Tensor
    idx: Tensor
    knn: Tensor | None


def knn_points(
    p1: Tensor,
    p2: Tensor,
    lengths1: Tensor | None = None,
    lengths2: Tensor | None = None,
    norm: int = 2,
    K: int = 1,
    version: int = -1,
    return_nn: bool = False,
    return_sorted: bool = True,
) -> KNN:
    """The K points of `p2` nearest to every point of `p1`.

    Args:
        p1: Clouds of queries [N, P1, D], any D >= 1; float32, float16 or bfloat16 (widened to
            float32), on the CPU also float64 (searched in float64); on cpu or mps.
        p2: Clouds that are searched [N, P2, D], same device.
        lengths1: How many queries of each cloud are real [N], int64 or int32, on the device of the
            points or on the CPU; None: all.
        lengths2: How many points of `p2` are real [N], likewise.
        norm: 2 for squared Euclidean distances, 1 for sums of absolute differences.
        K: Neighbours per query, >= 0. It may exceed P2.
        version: Accepted; there is one implementation.
        return_nn: Whether to return the points too.
        return_sorted: Accepted; results are always sorted.

    Returns:
        KNN of `dists` [N, P1, K], ascending; `idx` into P2 [N, P1, K], int64; and `knn`, points
        [N, P1, K, D], or None. Ties go to the smaller index. Slots from `lengths2` on, and all of
        queries beyond `lengths1`, hold distance 0, index 0; of `knn` slots from `lengths2` on are
        zeros. A point with a NaN or infinite coordinate is nobody's neighbour and has none: slots
        that this leaves over hold distance inf, index 0.

    Raises:
        TypeError: wrong kinds or dtypes.
        ValueError: wrong shapes, sizes that differ, different devices, another `norm`, a negative
            `K`; lengths outside 0 to the padded size, which are looked at on the CPU; on MPS only
            with MPS_POINTOPS_CHECK_INDICES=1, and count as 0 or all points otherwise.

    `dists` has a gradient in both, of any order, for the points that were chosen (`norm=1`: the
    sign of 0 is -1); `knn` in `p2` only. Contract: `pytorch3d/README.md`.
    """
    op = "pytorch3d.knn_points"
    p1, p2 = check_pair(op, "p1", p1, "p2", p2, rank=3, double=True)
    if norm not in (1, 2):
        fail_value(op, "norm", "1 or 2", repr(norm))
    K = as_int(op, "K", K)
    where = Rows(op, p1, p2, lengths1, lengths2)
    most = min(K, p2.shape[1])
    left, right = searched(p1, p2)
    if right is left:  # compiled code breaks off at a Function that is given one tensor twice
        right = left.view_as(left)
    dists, idx = cast(
        "tuple[Tensor, Tensor]",
        _Nearest.apply(
            left, right, where.first, where.last, where.base, where.sizes, most, int(norm)
        ),
    )
    idx = idx.clamp(min=0)
    if where.sizes is not None:
        slot = torch.arange(most, device=p1.device)
        dists = dists.masked_fill(slot >= where.sizes.unsqueeze(2), 0)
    if most < K:
        more = (*dists.shape[:2], K - most)
        dists = torch.cat((dists, dists.new_zeros(more)), dim=2)
        idx = torch.cat((idx, idx.new_zeros(more)), dim=2)
    return KNN(dists, idx, knn_gather(p2, idx, lengths2) if return_nn else None)


def searched(*points: Tensor) -> tuple[Tensor, ...]:
    """Coordinates in the dtype of the search, still in the graph."""
    double = any(p.dtype == torch.float64 for p in points)
    return tuple(p.to(torch.float64 if double else torch.float32) for p in points)


class _Nearest(torch.autograd.Function):
    """The search, and the gradient of the distances for the pairs that it chose."""

    @staticmethod
    def forward(
        p1: Tensor,
        p2: Tensor,
        first: Tensor | None,
        last: Tensor | None,
        base: Tensor | None,
        sizes: Tensor | None,
        k: int,
        norm: int,
    ) -> tuple[Tensor, Tensor]:
        """Distances and indices into P2 [N, P1, k]; (inf, -1) in slots without a neighbour."""
        p1, p2 = p1.detach(), p2.detach()
        if norm == 1:
            return nearest_by_sum(p1, p2, sizes, k)
        clouds, rows, dim = p1.shape
        distance, index = knn_search(
            p1.reshape(clouds * rows, dim).contiguous(),
            p2.reshape(clouds * p2.shape[1], dim).contiguous(),
            first,
            last,
            clouds if first is None else 1,
            k,
            False,
            Rule.FMA_XYZ.value,
        )
        distance = in_shape(distance, (clouds, rows, k))
        return distance, in_cloud(index.view(clouds, rows, k), base)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keep what the gradient needs."""
        ctx.norm = inputs[7]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], inputs[1], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        """Norm 2: d|a - b|^2 = 2 (a - b) . (da - db); norm 1: the signs of a - b."""
        p1, p2, index = ctx.saved_tensors
        rows, slots = index.shape[1:]
        size = p2.shape[1]
        if index.numel() == 0:
            return torch.zeros_like(p1), torch.zeros_like(p2), *[None] * 6
        hit = (index >= 0).unsqueeze(1)
        row = torch.arange(rows, device=index.device).view(1, -1, 1).expand_as(index).flatten(1)
        # a slot without a point adds zero somewhere: spread, so that no sum grows long
        spread = repeated(rows, size, index.device).view(1, -1, 1).expand_as(index).flatten(1)
        chosen = torch.where(index.flatten(1) >= 0, index.flatten(1), spread)
        points = gather(p2.transpose(1, 2), chosen).unflatten(2, (rows, slots))
        # and it may stand on a point that is not finite
        difference = torch.where(hit, p1.transpose(1, 2).unsqueeze(3) - points, 0.0)
        slope = 2.0 * difference
        if ctx.norm == 1:
            slope = torch.where(difference > 0, torch.ones_like(difference), -1.0)
        pull = torch.where(hit, grad.unsqueeze(1) * slope, 0.0).flatten(2)
        grad1 = grad2 = None
        if ctx.needs_input_grad[0]:
            grad1 = scatter(pull, row, None, rows).transpose(1, 2)
        if ctx.needs_input_grad[1]:
            grad2 = scatter(-pull, chosen, None, size).transpose(1, 2)
        return grad1, grad2, *[None] * 6
