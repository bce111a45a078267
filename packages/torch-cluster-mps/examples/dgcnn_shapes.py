"""DGCNN of PyG tells toy shapes apart: its graphs are searched by torch_cluster, layer by layer.

Needs torch_geometric up to 2.7.

    python dgcnn_shapes.py                   # the Apple GPU if there is one, else the CPU
    python dgcnn_shapes.py --emulated        # the Metal kernels in software (source checkout)
"""

from __future__ import annotations

import argparse
import math
import sys

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP, DynamicEdgeConv, global_max_pool

SHAPES = ("sphere", "box", "ring")


def surface(kind: int, number: int, rng: torch.Generator) -> Tensor:
    """Points [number, 3] of a shape of about unit size, with some noise."""
    points = torch.randn(number, 3, generator=rng)
    if SHAPES[kind] == "sphere":
        points = points / points.norm(dim=1, keepdim=True)
    elif SHAPES[kind] == "box":
        points = 0.8 * points / points.abs().amax(dim=1, keepdim=True)
    else:
        angle = 2 * math.pi * torch.rand(number, generator=rng)
        points = torch.stack([angle.cos(), angle.sin(), 0.2 * points[:, 2]], dim=1)
    return points + 0.02 * torch.randn(number, 3, generator=rng)


def batch(size: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Points of `size` clouds, the cloud of each point, and the shape of each cloud."""
    labels = torch.arange(size) % len(SHAPES)
    clouds = [surface(int(kind), 48 + 8 * (n % 4), rng) for n, kind in enumerate(labels)]
    sizes = torch.tensor([len(cloud) for cloud in clouds])
    return torch.cat(clouds), torch.arange(size).repeat_interleave(sizes), labels


class DGCNN(nn.Module):
    """Two layers on graphs of the 8 nearest: among the points, then among their features."""

    def __init__(self) -> None:
        super().__init__()
        self.first = DynamicEdgeConv(MLP([2 * 3, 16, 16]), k=8, aggr="max")
        self.second = DynamicEdgeConv(MLP([2 * 16, 32]), k=8, aggr="max")
        self.head = MLP([16 + 32, 32, len(SHAPES)], norm=None)

    def forward(self, points: Tensor, cloud: Tensor, number: int) -> Tensor:
        """Points [N, 3] of `number` clouds to logits [number, shapes]."""
        near = self.first(points, cloud)
        alike = self.second(near, cloud)
        return self.head(global_max_pool(torch.cat([near, alike], dim=1), cloud, number))


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
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=12)
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device, chosen.emulated)

    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(1)
    model = DGCNN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(chosen.steps):
        points, cloud, labels = (tensor.to(device) for tensor in batch(chosen.batch, rng))
        loss = nn.functional.cross_entropy(model(points, cloud, chosen.batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 10 == 0 or step == chosen.steps - 1:
            print(f"step {step:3d}  loss {losses[-1]:.3f}")

    model.eval()
    with torch.no_grad():
        points, cloud, labels = batch(2 * chosen.batch, rng)
        found = model(points.to(device), cloud.to(device), 2 * chosen.batch).argmax(dim=1).cpu()
    accuracy = float((found == labels).float().mean())
    chance = 1 / len(SHAPES)
    print(f"{device}: accuracy on new clouds {accuracy:.2f}, by chance {chance:.2f}")
    return 0 if losses[-1] < losses[0] and accuracy > chance else 1


if __name__ == "__main__":
    sys.exit(main())
