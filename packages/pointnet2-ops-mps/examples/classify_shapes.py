"""A small PointNet++ from pointnet2_ops modules learns to tell toy shapes apart.

python classify_shapes.py                # the Apple GPU if there is one, else the CPU
python classify_shapes.py --emulated     # the Metal kernels in software (source checkout)
"""

from __future__ import annotations

import argparse
import math
import sys

import torch
from torch import Tensor, nn

from pointnet2_ops.pointnet2_modules import PointnetSAModule

SHAPES = ("sphere", "box", "torus", "cone")


def surface(kind: int, number: int, rng: torch.Generator) -> Tensor:
    """Points [number, 3] of a shape of about unit size, turned about its axis, with some noise."""
    u, v, w = torch.rand(3, number, generator=rng)
    angle = 2 * math.pi * u
    if SHAPES[kind] == "sphere":
        points = torch.randn(number, 3, generator=rng)
        points = points / points.norm(dim=1, keepdim=True)
    elif SHAPES[kind] == "box":
        points = 1.4 * torch.rand(number, 3, generator=rng) - 0.7
        axis = (3 * w).long()
        points[torch.arange(number), axis] = 0.7 * (1 - 2 * (v < 0.5).float())
    elif SHAPES[kind] == "torus":
        ring = 0.75 + 0.25 * torch.cos(2 * math.pi * v)
        height = 0.25 * torch.sin(2 * math.pi * v)
        points = torch.stack([ring * angle.cos(), ring * angle.sin(), height], dim=1)
    else:
        radius = v.sqrt()
        points = torch.stack([radius * angle.cos(), radius * angle.sin(), 1 - 2 * radius], dim=1)
    turn = 2 * math.pi * float(torch.rand((), generator=rng))
    cos, sin = math.cos(turn), math.sin(turn)
    points = points @ torch.tensor([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    return points + 0.02 * torch.randn(number, 3, generator=rng)


def batch(size: int, number: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Clouds [size, number, 3] and the number of the shape of each."""
    labels = torch.arange(size) % len(SHAPES)
    return torch.stack([surface(int(kind), number, rng) for kind in labels]), labels


class PointNet2(nn.Module):
    """Two levels of balls around sampled centres, then one over the whole cloud."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            [
                PointnetSAModule(npoint=48, radius=0.4, nsample=16, mlp=[0, 16, 32]),
                PointnetSAModule(npoint=12, radius=0.8, nsample=16, mlp=[32, 32, 64]),
                PointnetSAModule(mlp=[64, 64]),
            ]
        )
        self.head = nn.Linear(64, len(SHAPES))
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.momentum = 0.3  # in few steps, running variances must forget their first 1

    def forward(self, points: Tensor) -> Tensor:
        """Clouds [B, N, 3] to logits [B, number of shapes]."""
        xyz, features = points, None
        for level in self.levels:
            xyz, features = level(xyz, features)
        return self.head(features.squeeze(-1))


def pick_device(device: str | None, emulated: bool) -> str:
    """The device asked for, else the Apple GPU if there is one."""
    if emulated:
        import mps_emulator

        mps_emulator.install()
        return "mps"
    return device or ("mps" if torch.backends.mps.is_available() else "cpu")


def main(arguments: list[str] | None = None) -> int:
    """Trains and tests; gives exit status 1 if nothing was learned."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=["mps", "cpu"])
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device, chosen.emulated)

    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(1)
    model = PointNet2().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for step in range(chosen.steps):
        points, labels = (tensor.to(device) for tensor in batch(chosen.batch, chosen.points, rng))
        loss = nn.functional.cross_entropy(model(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0 or step == chosen.steps - 1:
            print(f"step {step:3d}  loss {losses[-1]:.3f}")

    model.eval()
    with torch.no_grad():
        points, labels = batch(2 * chosen.batch, chosen.points, rng)
        found = model(points.to(device)).argmax(dim=1).cpu()
    accuracy = float((found == labels).float().mean())
    chance = 1 / len(SHAPES)
    print(f"{device}: accuracy on new clouds {accuracy:.2f}, by chance {chance:.2f}")
    return 0 if losses[-1] < losses[0] and accuracy > chance else 1


if __name__ == "__main__":
    sys.exit(main())
