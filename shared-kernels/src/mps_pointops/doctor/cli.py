"""Options of the doctor and the order of its work."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mps_pointops.doctor.finding import Finding

_DESCRIPTION = """\
Says for every import name of this project whose files an import takes, whether they are as they
were installed and what lies beside them; looks at torch, the device, the Metal kernels and PyG; and
runs every operator against its reference. Every problem is followed by what to run. Exit code: 0 if
nothing is wrong, 1 if something is, 2 for a bad option.
"""


def add_command(subparsers: Any) -> None:
    """Add `doctor` to the commands of `python -m mps_pointops`."""
    parser = subparsers.add_parser(
        "doctor",
        help="find out what is installed, what is wrong and what to run",
        description=_DESCRIPTION,
    )
    add = parser.add_argument
    add("--json", action="store_true", help="print one JSON object instead of text")
    add("--device", choices=("mps", "cpu"), help="default: mps if there is an Apple GPU, else cpu")
    add("--emulated", action="store_true", help="run the Metal kernels in software, without a GPU")
    add("--all-kernels", action="store_true", help="compile every kernel for all its options")
    add("--install-only", action="store_true", help="look at what is installed and run nothing")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look at everything; returns the exit code."""
    # here and not above, so that --help is quick
    from mps_pointops.demo.device import pick_device
    from mps_pointops.demo.errors import DemoError
    from mps_pointops.doctor import report

    # before torch is asked whether MPS is there: it remembers the answer
    if options.emulated:
        try:
            pick_device(options.device, emulated=True)
        except DemoError as error:
            print(f"mps_pointops doctor: error: {error}", file=sys.stderr)
            return 2
    findings, facts = examine(
        sys.path,
        options.device,
        emulated=options.emulated,
        all_kernels=options.all_kernels,
        install_only=options.install_only,
    )
    print(report.as_json(findings, facts) if options.json else report.as_text(findings))
    return 1 if report.has_problem(findings) else 0


def examine(
    path: Sequence[str],
    device: str | None = None,
    *,
    emulated: bool = False,
    all_kernels: bool = False,
    install_only: bool = False,
) -> tuple[list[Finding], dict[str, Any]]:
    """All findings, and the facts behind them.

    Args:
        path: Module path whose distributions are looked at.
        device: 'mps', 'cpu' or None: mps where it is available, else cpu.
        emulated: Whether the emulation was asked for; a Mac ignores it.
        all_kernels: Compile every library, not one of each file.
        install_only: Leave out device, kernels and operators.
    """
    import torch

    from mps_pointops import __version__
    from mps_pointops.demo.device import emulation_active
    from mps_pointops.doctor import environment, installed, kernels, selftest
    from mps_pointops.doctor.finding import PROBLEM

    if device is None:
        device = "mps" if emulated or torch.backends.mps.is_available() else "cpu"
    emulated = device == "mps" and emulation_active()  # also by whoever started this process
    findings: list[Finding] = []
    facts: dict[str, Any] = {"version": __version__, "device": device, "emulated": emulated}
    names = []
    facts["names"] = []
    for name in installed.NAMES:
        finding, told = installed.check_name(name, path)
        findings.append(finding)
        facts["names"].append(told)
        if any(d["name"] == name.ours and d["active"] for d in told["distributions"]):
            names.append(name)
    findings += installed.check_requirements(path)
    findings += installed.check_imports(names, path)
    some, facts["torch"] = environment.check_torch()
    findings += some
    some, facts["pyg"] = environment.check_pyg(path)
    findings += some
    facts["kernels"], facts["operators"] = None, None
    if install_only:
        return findings, facts
    some = environment.check_device(device, emulated)
    findings += some
    if device == "mps" and any(finding.level == PROBLEM for finding in some):
        return findings, facts
    if device == "mps":
        some, facts["kernels"] = kernels.check_kernels(every=all_kernels)
        findings += some
    some, facts["operators"] = selftest.check_operators(device)
    return findings + some, facts
