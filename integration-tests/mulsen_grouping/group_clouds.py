"""Groups clouds as MulSen-AD does, checks every index against an oracle, and takes the time."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloud_files
import grouping_oracle
import numpy as np
import timings
import torch
from group import Group, mulsen_group
from numpy.typing import NDArray
from torch import Tensor

import knn_cuda
import pointnet2_ops

DATA = Path(__file__).resolve().parents[1] / "data"


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--mulsen-code", type=Path, help="checkout of MulSen-AD; else our own Group"
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder or file, .stl and .npz")
    parser.add_argument("--per-class", type=int, default=2, help="clouds of a folder, 0: all")
    parser.add_argument("--num-group", type=int, default=1024)
    parser.add_argument("--group-size", type=int, default=128)
    parser.add_argument("--device", choices=["mps", "cpu"], help="default: mps where it is")
    parser.add_argument("--emulated", action="store_true", help="the Metal kernels in software")
    parser.add_argument("--quick", action="store_true", help="first 1500 points, 64 groups of 32")
    parser.add_argument("--repeats", type=int, default=5, help="calls to time, 0: none")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.num_group, chosen.group_size = 64, 32
        chosen.repeats = min(chosen.repeats, 1)
    return chosen


def pick_device(chosen: argparse.Namespace) -> tuple[str, str]:
    """The device for torch and its name in words."""
    if chosen.emulated:
        if chosen.device == "cpu":
            sys.exit("--emulated runs Metal kernels: it does not go with --device cpu")
        import mps_emulator

        if mps_emulator.install():
            return "mps", "mps, emulated (times are of the emulation, not of a GPU)"
    real = torch.backends.mps.is_available()
    if chosen.device == "mps" and not real:
        sys.exit("--device mps: no Apple GPU here; use --emulated or --device cpu")
    device = chosen.device or ("mps" if real else "cpu")
    words = f"{device}, {platform.machine()}, {torch.get_num_threads()} CPU threads"
    return device, words


def as_the_detector(points: NDArray[np.float64], device: str) -> Tensor:
    """What reaches Group: columns made float32, [1, 3, N], then a transposed view of them."""
    return torch.from_numpy(points.T.copy())[None].float().to(device).transpose(-1, -2)


def check(xyz: Tensor, found: tuple[Tensor, ...], group_size: int) -> dict[str, Any]:
    """How many values differ from the oracle, of each of the four results."""
    patches, centre, index, picks = (tensor.cpu().numpy()[0] for tensor in found)
    points = np.ascontiguousarray(xyz.cpu().numpy()[0])
    wanted = grouping_oracle.sample(points, len(picks))
    near = grouping_oracle.neighbours(points, points[wanted], group_size)
    parts = points[near] - points[wanted][:, None]
    return {
        "wrong centre indices": int((picks != wanted).sum()),
        "wrong centres": int((centre != points[wanted]).any(1).sum()),
        "wrong neighbour indices": int((index != near).sum()),
        "wrong patch coordinates": int((patches != parts).sum()),
        "repeated centres": int(len(wanted) - len(np.unique(wanted))),
    }


def passed(report: dict[str, Any]) -> bool:
    return not any(count for name, count in report.items() if name.startswith("wrong"))


def run_cloud(
    name: str,
    points: NDArray[np.float64],
    group: Callable[[Tensor], tuple[Tensor, ...]],
    device: str,
    chosen: argparse.Namespace,
) -> dict[str, Any]:
    """Groups one cloud; gives what is written about it."""
    xyz = as_the_detector(points, device)
    found = group(xyz)
    report = check(xyz, found, chosen.group_size)
    report = {"cloud": name, "points": len(points), "passed": passed(report), **report}
    if chosen.repeats:
        sizes = (chosen.num_group, chosen.group_size)
        report["milliseconds"] = timings.compare(group, xyz, sizes, chosen.repeats)
    return report


def show(report: dict[str, Any]) -> None:
    verdict = "as the oracle" if report["passed"] else "NOT as the oracle"
    print(f"{report['cloud']}: {report['points']} points, centres and neighbours {verdict}")
    wrong = {n: c for n, c in report.items() if n.startswith("wrong") and c}
    for name, count in wrong.items():
        print(f"    {count} {name}")
    for name, time in report.get("milliseconds", {}).items():
        print(f"    {name:<24} {time:10.2f} ms")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; gives the exit status, 1 if any value is wrong."""
    chosen = options(arguments)
    device, words = pick_device(chosen)
    kind = mulsen_group(chosen.mulsen_code) if chosen.mulsen_code else Group
    group = kind(num_group=chosen.num_group, group_size=chosen.group_size).to(device)
    print(f"{kind.__module__}.{kind.__name__} on {words}")
    files = cloud_files.find(chosen.data, chosen.per_class)
    folder = chosen.data if chosen.data.is_dir() else chosen.data.parent
    reports = []
    for file in files:
        for inside, points in cloud_files.load(file):
            name = str(file.relative_to(folder).parent / inside)
            some = points[:1500] if chosen.quick else points
            if len(some) < max(chosen.num_group, chosen.group_size):
                sys.exit(f"{name} has {len(some)} points, too few for the groups asked for")
            reports.append(run_cloud(name, some, group, device, chosen))
            show(reports[-1])
    if not reports:
        sys.exit(f"--data: no .stl or .npz cloud in {chosen.data}")
    good = sum(report["passed"] for report in reports)
    print(f"{good} of {len(reports)} clouds as the oracle")
    if chosen.json:
        about = {
            "group": f"{kind.__module__}.{kind.__name__}",
            "num_group": chosen.num_group,
            "group_size": chosen.group_size,
            "device": words,
            "torch": torch.__version__,
            "pointnet2_ops": pointnet2_ops.__mps_version__,
            "knn_cuda": knn_cuda.__mps_version__,
        }
        chosen.json.write_text(json.dumps({**about, "clouds": reports}, indent=1) + "\n")
    return 0 if good == len(reports) else 1


if __name__ == "__main__":
    sys.exit(main())
