"""Covers a scan with patches: torch_cluster's fps, radius and nearest, each result checked.

python group_scan.py scan.npz            # the Apple GPU if there is one, else the CPU
python group_scan.py scan.npz --emulated # the Metal kernels in software (source checkout)
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import torch_cluster


def load(path: Path, array: str | None, every: int) -> Tensor:
    """Points [N, 3] of an .npz, around their mean, in units of their spread."""
    with np.load(path) as arrays:
        points = arrays[array or arrays.files[-1]][::every].astype(np.float64)
    points -= points.mean(axis=0)
    return torch.from_numpy(points / points.std()).float()


def group(points: Tensor, ratio: float, most: int) -> dict[str, Tensor]:
    """Centres, the patch of each, and the centre nearest to every point.

    Args:
        points: Scan [N, 3].
        ratio: Share of the points that become centres.
        most: Points of a patch at most.

    Returns:
        `centres` [G] as indices, `radius` [], `patch` and `member` [E]: point `member` is in patch
        `patch`; `owner` [N]: the patch whose centre is nearest.
    """
    centres = torch_cluster.fps(points, ratio=ratio, random_start=False)
    middle = points[centres]
    batch = torch.zeros(len(points), dtype=torch.int64, device=points.device)
    owner = torch_cluster.nearest(points, middle, batch, batch[: len(middle)])
    # farthest point sampling leaves no point farther from its centre than this
    reach = (points - middle[owner]).norm(dim=1).max() * 1.01
    patch, member = torch_cluster.radius(points, middle, float(reach), max_num_neighbors=most)
    return {"centres": centres, "radius": reach, "patch": patch, "member": member, "owner": owner}


def check(points: Tensor, found: dict[str, Tensor], most: int) -> list[str]:
    """What is wrong with a grouping, by plain torch in float64."""
    points = points.cpu().double()
    found = {name: tensor.cpu() for name, tensor in found.items()}
    distance = torch.cdist(points[found["centres"]], points)
    problems = []
    if len(found["centres"].unique()) != len(found["centres"]):
        problems.append("a centre was picked twice")
    own = distance.gather(0, found["owner"][None])[0]
    if not torch.allclose(own, distance.min(dim=0).values, rtol=1e-5):
        problems.append("a point has an owner that is not the nearest centre")
    sizes = torch.bincount(found["patch"], minlength=len(distance))
    inside = (distance < float(found["radius"])).sum(dim=1).clamp(max=most)
    if (sizes - inside).abs().max() > 0:
        problems.append("a patch has not as many points as lie in its ball")
    if (distance[found["patch"], found["member"]] > found["radius"] * (1 + 1e-5)).any():
        problems.append("a patch has a point outside its ball")
    return problems


def pick_device(device: str | None, emulated: bool) -> str:
    """The device asked for, else the Apple GPU if there is one."""
    if emulated:
        import mps_emulator

        mps_emulator.install()
        return "mps"
    return device or ("mps" if torch.backends.mps.is_available() else "cpu")


def main(arguments: list[str] | None = None) -> int:
    """Groups a scan; gives exit status 1 if the check finds anything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scan", type=Path, help=".npz with points [N, 3]")
    parser.add_argument("--array", help="name in the .npz; default: the last")
    parser.add_argument("--every", type=int, default=1, help="take every n-th point")
    parser.add_argument("--ratio", type=float, default=0.02)
    parser.add_argument("--most", type=int, default=64, help="points of a patch")
    parser.add_argument("--device", choices=["mps", "cpu"])
    parser.add_argument("--emulated", action="store_true")
    chosen = parser.parse_args(arguments)
    device = pick_device(chosen.device, chosen.emulated)

    points = load(chosen.scan, chosen.array, chosen.every).to(device)
    found = group(points, chosen.ratio, chosen.most)
    sizes = torch.bincount(found["patch"].cpu())
    print(f"{device}: {len(points)} points, {len(sizes)} patches of {float(found['radius']):.3f}")
    print(f"points of a patch: {int(sizes.min())} to {int(sizes.max())}")
    problems = check(points, found, chosen.most)
    print("\n".join(problems) or "checked: every point is in reach of its nearest centre")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
