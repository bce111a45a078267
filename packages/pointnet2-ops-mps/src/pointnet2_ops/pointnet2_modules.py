"""Set abstraction and feature propagation, with the original's layers, names and positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from pointnet2_ops import pointnet2_utils


def build_shared_mlp(mlp_spec: Sequence[int], bn: bool = True) -> nn.Sequential:
    """A chain of 1 x 1 convolutions, each with (batch norm and) ReLU.

    Args:
        mlp_spec: Channels, from the input on.
        bn: Batch norm after every convolution, which then has no bias.
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(mlp_spec):
        layers.append(nn.Conv2d(before, after, kernel_size=1, bias=not bn))
        if bn:
            layers.append(nn.BatchNorm2d(after))
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class _PointnetSAModuleBase(nn.Module):
    """Sample centres, group points around them, and pool a feature of every group.

    A subclass fills in `npoint` (None: one group of all points), `groupers` and `mlps`.
    """

    npoint: int | None
    groupers: Any
    mlps: Any

    def __init__(self) -> None:
        super().__init__()
        self.npoint = None
        self.groupers = None
        self.mlps = None

    def forward(self, xyz: Tensor, features: Tensor | None) -> tuple[Tensor | None, Tensor]:
        """Coordinates and features of the centres.

        Args:
            xyz: Points [B, N, 3], contiguous.
            features: Features [B, C, N], contiguous.

        Returns:
            Centres [B, npoint, 3] (None if `npoint` is) and features [B, sum of widths, npoint].
        """
        centres = None
        if self.npoint is not None:
            idx = pointnet2_utils.furthest_point_sample(xyz, self.npoint)
            columns = xyz.transpose(1, 2).contiguous()
            centres = pointnet2_utils.gather_operation(columns, idx).transpose(1, 2).contiguous()
        pooled = []
        for grouper, mlp in zip(self.groupers, self.mlps, strict=True):
            groups = mlp(grouper(xyz, centres, features))
            # not amax: it would share a gradient among the copies that pad a group
            best = max_pool2d(groups, kernel_size=[1, groups.shape[3]])
            pooled.append(best.squeeze(-1))
        return centres, torch.cat(pooled, dim=1)


class PointnetSAModuleMSG(_PointnetSAModuleBase):
    """Set abstraction on several scales.

    Args:
        npoint: Centres; None for one group of all points.
        radii: Radius of every scale.
        nsamples: Points per group of every scale.
        mlps: Channels of every scale, from the features on. With `use_xyz` the first entry of
            every list grows by 3 **in place**, as in the original.
        bn: Batch norm.
        use_xyz: Use relative coordinates as features too.
    """

    def __init__(
        self,
        npoint: int | None,
        radii: Sequence[float | None],
        nsamples: Sequence[int | None],
        mlps: Sequence[list[int]],
        bn: bool = True,
        use_xyz: bool = True,
    ) -> None:
        super().__init__()
        assert len(radii) == len(nsamples) == len(mlps), (
            f"PointnetSAModuleMSG: radii, nsamples and mlps must have one entry a scale, got "
            f"{len(radii)}, {len(nsamples)} and {len(mlps)}"
        )
        self.npoint = npoint
        self.groupers = nn.ModuleList()
        self.mlps = nn.ModuleList()
        for radius, nsample, mlp_spec in zip(radii, nsamples, mlps, strict=True):
            grouper: nn.Module
            if npoint is None:
                grouper = pointnet2_utils.GroupAll(use_xyz)
            else:
                grouper = pointnet2_utils.QueryAndGroup(radius, nsample, use_xyz)  # type: ignore[arg-type]  # given when npoint is
            self.groupers.append(grouper)
            if use_xyz:
                mlp_spec[0] += 3
            self.mlps.append(build_shared_mlp(mlp_spec, bn))


class PointnetSAModule(PointnetSAModuleMSG):
    """Set abstraction on one scale.

    Args:
        mlp: Channels, from the features on; see `PointnetSAModuleMSG`.
        npoint: Centres; None for one group of all points.
        radius: Radius of the balls.
        nsample: Points per group.
        bn: Batch norm.
        use_xyz: Use relative coordinates as features too.
    """

    def __init__(
        self,
        mlp: list[int],
        npoint: int | None = None,
        radius: float | None = None,
        nsample: int | None = None,
        bn: bool = True,
        use_xyz: bool = True,
    ) -> None:
        super().__init__(npoint, [radius], [nsample], [mlp], bn=bn, use_xyz=use_xyz)


class PointnetFPModule(nn.Module):
    """Carry features from a sparse set of points to a dense one.

    Args:
        mlp: Channels, from the concatenated features on.
        bn: Batch norm.
    """

    def __init__(self, mlp: Sequence[int], bn: bool = True) -> None:
        super().__init__()
        self.mlp = build_shared_mlp(mlp, bn=bn)

    def forward(
        self,
        unknown: Tensor,
        known: Tensor | None,
        unknow_feats: Tensor | None,
        known_feats: Tensor,
    ) -> Tensor:
        """Features of the dense points.

        Args:
            unknown: Dense points [B, n, 3], contiguous.
            known: Sparse points [B, m, 3], contiguous; None if there is one feature a cloud.
            unknow_feats: Features [B, C1, n] that the dense points have already.
            known_feats: Features [B, C2, m] of the sparse points, contiguous.

        Returns:
            Features [B, mlp[-1], n], interpolated by inverse distance and passed through the
            layers together with `unknow_feats`.
        """
        if known is None:
            spread = known_feats.expand(-1, -1, unknown.shape[1])
        else:
            distance, idx = pointnet2_utils.three_nn(unknown, known)
            inverse = 1.0 / (distance + 1e-8)
            weight = inverse / inverse.sum(dim=2, keepdim=True)
            spread = pointnet2_utils.three_interpolate(known_feats, idx, weight)
        if unknow_feats is not None:
            spread = torch.cat((spread, unknow_feats), dim=1)
        out: Tensor = self.mlp(spread.unsqueeze(-1))
        return out.squeeze(-1)
