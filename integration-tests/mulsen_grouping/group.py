"""The patches of the Point-MAE family: our own, or MulSen-AD's class as it stands."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from knn_cuda import KNN
from pointnet2_ops.pointnet2_utils import furthest_point_sample, gather_operation


class Group(nn.Module):
    """Samples centres and gives each its nearest points, as MulSen-AD's class of this name does."""

    def __init__(self, num_group: int, group_size: int) -> None:
        super().__init__()
        self.num_group = num_group
        self.search = KNN(k=group_size, transpose_mode=True)

    def forward(self, xyz: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Points [B, N, 3] to patches [B, G, M, 3], centres, and the indices of both."""
        rows = xyz.contiguous()
        picked = furthest_point_sample(rows, self.num_group)
        columns = rows.transpose(1, 2).contiguous()
        centre = gather_operation(columns, picked).transpose(1, 2).contiguous()
        _, index = self.search(xyz, centre)
        batch = torch.arange(len(xyz), device=xyz.device)[:, None, None]
        return rows[batch, index] - centre[:, :, None], centre, index, picked


def mulsen_group(code: Path) -> type[nn.Module]:
    """`models.models.Group` of a checkout of MulSen-AD, unmodified."""
    if not (code / "models" / "models.py").is_file():
        raise SystemExit(f"--mulsen-code: there is no models/models.py in {code}")
    sys.path.insert(0, str(code.resolve()))
    try:
        return importlib.import_module("models.models").Group
    except ImportError as error:
        raise SystemExit(
            f"--mulsen-code: models/models.py does not import here: {error}; it takes timm, which "
            "takes torchvision: pip install timm torchvision"
        ) from error
