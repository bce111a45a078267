"""The six operators of pointnet2_ops as autograd Functions, and the two grouping modules.

Every operator is the `apply` of its Function, with the original's argument names and order.
"""

from __future__ import annotations

import warnings  # noqa: F401  # star imports of this module bring it and typing, as there
from typing import *  # noqa: F403
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

import mps_pointops
from pointnet2_ops import _ext, options


class FurthestPointSampling(Function):
    """`furthest_point_sample(xyz, npoint)`."""

    @staticmethod
    def forward(xyz: Tensor, npoint: int) -> Tensor:
        """Pick points one by one, each the farthest from those already picked.

        Args:
            xyz: Clouds [B, N, 3], contiguous.
            npoint: Picks per cloud; may exceed N.

        Returns:
            Indices [B, npoint], int32, beginning with 0. Ties go as in the CUDA kernel. Points
            near the origin are skipped (`pointnet2_ops.options.skip_near_origin`). No gradient.
        """
        return _ext._sample("furthest_point_sample", "xyz", xyz, "npoint", npoint)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Integers have no gradient: to mark them is needless, and fails in compiled code."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, None]:
        """There is none."""
        return None, None


class GatherOperation(Function):
    """`gather_operation(features, idx)`."""

    @staticmethod
    def forward(features: Tensor, idx: Tensor) -> Tensor:
        """Features of the indexed points.

        Args:
            features: Features [B, C, N], contiguous.
            idx: Indices [B, M], int32 or int64, contiguous.

        Returns:
            Features [B, C, M]. The gradient adds in a fixed order.
        """
        return _ext._gather("gather_operation", "features", features, idx)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what the sums need."""
        ctx.save_for_backward(inputs[1])
        ctx.size = inputs[0].shape[2]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        """Gradients [B, C, M] summed where they came from, [B, C, N]."""
        (idx,) = ctx.saved_tensors
        return mps_pointops.scatter_points(grads[0], idx, ctx.size), None


class ThreeNN(Function):
    """`three_nn(unknown, known)`."""

    @staticmethod
    def forward(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        """The three nearest points.

        Args:
            unknown: Points [B, n, 3], contiguous.
            known: Points [B, m, 3], contiguous.

        Returns:
            Euclidean distances, float32, and indices into m, int32; both [B, n, 3]. Ties go to the
            smaller index. Missing neighbours (m < 3) have distance inf and index 0. No gradient.
        """
        return _ext._nearest(False, unknown=unknown, known=known)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Neither output has a gradient."""
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, None]:
        """There is none."""
        return None, None


class ThreeInterpolate(Function):
    """`three_interpolate(features, idx, weight)`."""

    @staticmethod
    def forward(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
        """Weighted sums of three features.

        Args:
            features: Features [B, C, m], contiguous.
            idx: Indices [B, n, 3], int32 or int64, contiguous.
            weight: Weights [B, n, 3], contiguous.

        Returns:
            Features [B, C, n] in the dtype of `features`, computed in float32 or float64. The
            gradient of `weight` is zero, as in the original, unless
            `pointnet2_ops.options.weight_gradient` is set.
        """
        return _ext._interpolate("features", features, idx, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what the sums need."""
        features, idx, weight = inputs
        ctx.true_weight = options.weight_gradient
        ctx.size = features.shape[2]
        ctx.save_for_backward(idx, weight, features if ctx.true_weight else None)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, None, Tensor | None]:
        """Gradients [B, C, n] weighted and summed where they came from, [B, C, m]."""
        (grad,) = grads
        idx, weight, features = ctx.saved_tensors
        grad_features = grad_weight = None
        if ctx.needs_input_grad[0]:
            constant = weight if ctx.true_weight else weight.detach()
            grad_features = mps_pointops.three_scatter(grad, idx, constant, ctx.size)
        if ctx.needs_input_grad[2]:
            if ctx.true_weight:
                picked = mps_pointops.group_points(features, idx)
                grad_weight = (picked * grad.unsqueeze(3)).sum(dim=1).to(weight.dtype)
            else:
                grad_weight = torch.zeros_like(weight)
        return grad_features, None, grad_weight


class GroupingOperation(Function):
    """`grouping_operation(features, idx)`."""

    @staticmethod
    def forward(features: Tensor, idx: Tensor) -> Tensor:
        """Features of groups of points.

        Args:
            features: Features [B, C, N], contiguous.
            idx: Indices [B, M, S], int32 or int64, contiguous.

        Returns:
            Features [B, C, M, S]. The gradient adds in a fixed order.
        """
        return _ext._group("grouping_operation", "features", features, idx)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keep what the sums need."""
        ctx.save_for_backward(inputs[1])
        ctx.size = inputs[0].shape[2]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:
        """Gradients [B, C, M, S] summed where they came from, [B, C, N]."""
        (idx,) = ctx.saved_tensors
        return mps_pointops.scatter_points(grads[0], idx, ctx.size), None


class BallQuery(Function):
    """`ball_query(radius, nsample, xyz, new_xyz)`."""

    @staticmethod
    def forward(radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor) -> Tensor:
        """The first points, in input order, strictly within a radius of every centre.

        Args:
            radius: Radius of the balls.
            nsample: Slots per centre.
            xyz: Points [B, N, 3], contiguous.
            new_xyz: Centres [B, M, 3], contiguous.

        Returns:
            Indices [B, M, nsample], int32. Slots left over repeat the first hit; all are 0 if
            there is none. No gradient.
        """
        return _ext.ball_query(new_xyz, xyz, radius, nsample)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Integers have no gradient: to mark them is needless, and fails in compiled code."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, None, None, None]:
        """There is none."""
        return None, None, None, None


furthest_point_sample = FurthestPointSampling.apply
gather_operation = GatherOperation.apply
three_nn = ThreeNN.apply
three_interpolate = ThreeInterpolate.apply
grouping_operation = GroupingOperation.apply
ball_query = BallQuery.apply


class QueryAndGroup(nn.Module):
    """Groups of points around centres, found by ball query.

    Args:
        radius: Radius of the balls.
        nsample: Points per group.
        use_xyz: Put the coordinates, relative to the centre, before the features.
    """

    def __init__(self, radius: float, nsample: int, use_xyz: bool = True) -> None:
        super().__init__()
        self.radius, self.nsample, self.use_xyz = radius, nsample, use_xyz

    def forward(self, xyz: Tensor, new_xyz: Tensor, features: Tensor | None = None) -> Tensor:
        """Group.

        Args:
            xyz: Points [B, N, 3].
            new_xyz: Centres [B, M, 3].
            features: Features of the points [B, C, N].

        Returns:
            Groups [B, 3 + C, M, nsample]; [B, C, ...] without `use_xyz`, [B, 3, ...] without
            features.
        """
        idx = ball_query(self.radius, self.nsample, xyz, new_xyz)
        parts = []
        if self.use_xyz or features is None:
            assert self.use_xyz, "QueryAndGroup: without features, use_xyz must be True"
            grouped = grouping_operation(xyz.transpose(1, 2).contiguous(), idx)
            parts.append(grouped - new_xyz.transpose(1, 2).unsqueeze(-1))
        if features is not None:
            parts.append(grouping_operation(features, idx))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class GroupAll(nn.Module):
    """One group of all points.

    Args:
        use_xyz: Put the coordinates, as they are, before the features.
    """

    def __init__(self, use_xyz: bool = True) -> None:
        super().__init__()
        self.use_xyz = use_xyz

    def forward(self, xyz: Tensor, new_xyz: Any, features: Tensor | None = None) -> Tensor:
        """Group.

        Args:
            xyz: Points [B, N, 3].
            new_xyz: Not looked at.
            features: Features of the points [B, C, N].

        Returns:
            One group [B, 3 + C, 1, N]; [B, C, 1, N] without `use_xyz`, [B, 3, 1, N] without
            features.
        """
        grouped = xyz.transpose(1, 2).unsqueeze(2)
        if features is None:
            return grouped
        one = features.unsqueeze(2)
        return torch.cat((grouped, one), dim=1) if self.use_xyz else one
