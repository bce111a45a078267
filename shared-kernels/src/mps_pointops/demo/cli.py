"""Options of the demo and the order of its work."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from mps_pointops.demo.errors import DemoError

_DESCRIPTION = """\
Reads a cloud of points and runs farthest point sampling -> gather -> k nearest neighbours -> ball
query on it. Every result is compared, bit for bit, with the reference in the same run; only then
are times shown. Exit code: 0 if everything is equal, 1 if not, 2 for a bad file or option.
"""


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got {text!r}")
    return value


def _length(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected a finite number above 0, got {text!r}")
    return value


def add_command(subparsers: Any) -> None:
    """Add `demo` to the commands of `python -m mps_pointops`."""
    parser = subparsers.add_parser(
        "demo",
        help="run the operators on a file of points and check every result",
        description=_DESCRIPTION,
    )
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="points: .npz, .npy, .ply or .xyz")
    add("--array", metavar="NAME", help="array of an .npz (default: points, else the largest)")
    add("--device", choices=("mps", "cpu"), help="default: mps if there is an Apple GPU, else cpu")
    add("--emulated", action="store_true", help="run the Metal kernels in software, without a GPU")
    add("--npoint", metavar="N", type=_count, default=1024, help="points to sample (%(default)s)")
    add("--k", metavar="K", type=_count, default=32, help="neighbours per centre (%(default)s)")
    add("--radius", metavar="R", type=_length, help="radius of the balls (default: from the data)")
    add(
        "--max-hits",
        metavar="K",
        type=_count,
        default=32,
        help="points per ball at most (%(default)s)",
    )
    add("--check-all", action="store_true", help="check every result however long it takes")
    add("--plot", metavar="OUT.png", type=Path, help="draw the cloud, its centres and one group")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the demo; returns the exit code."""
    try:
        return _run(options)
    except DemoError as error:
        print(f"mps_pointops demo: error: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    # here and not above, so that --help is quick
    from mps_pointops.demo import plot, report
    from mps_pointops.demo.device import pick_device
    from mps_pointops.demo.pipeline import run_pipeline, shrink
    from mps_pointops.demo.progress import Progress
    from mps_pointops.demo.read import read_cloud

    # what can be wrong is found before the long work
    if options.plot is not None:
        plot.check_target(options.plot)
    progress = Progress(sys.stderr)
    with progress.stage(f"reading {options.file}"):
        cloud = read_cloud(options.file, options.array)
    with progress.stage("preparing the device"):
        target = pick_device(options.device, options.emulated)
    sizes = shrink(
        len(cloud.points), options.npoint, options.k, options.max_hits, options.check_all
    )
    print(f"{options.file}: {len(cloud.points)} points ({cloud.source})")
    for note in (*cloud.notes, *target.notes, *sizes.notes):
        print(f"note: {note}")
    # a slow run should show what it runs on before it is done
    sys.stdout.flush()
    result = run_pipeline(cloud.points, target, sizes, options.radius, progress)
    print(report.table(result, target))
    if options.plot is not None:
        with progress.stage(f"drawing {options.plot}"):
            plot.draw(options.plot, options.file.name, cloud.points, result, target)
        print(f"picture: {options.plot}")
    return 0 if result.mismatches == 0 else 1
