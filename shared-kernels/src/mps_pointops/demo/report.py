"""The table of a run, and what it ran on."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import torch

import mps_pointops
from mps_pointops.demo.device import Target
from mps_pointops.demo.pipeline import Result, Row

_HEAD = ("operator", "input", "output", "time", "first call", "checked", "mismatches")
_RIGHT = frozenset({3, 4, 6})


def table(result: Result, target: Target) -> str:
    """The run as text: a row an operator, the radius, the device and versions, the verdict."""
    cells = [_HEAD, *map(_cells, result.rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    lines = [""]
    for row in cells:
        padded = (
            cell.rjust(width) if column in _RIGHT else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(padded).rstrip())
    lines.insert(2, "  ".join("-" * width for width in widths))
    runs = sorted({row.runs for row in result.rows})
    shown = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    facts = [
        ("times", f"median of {shown} calls after the first{_of_what(target)}"),
        ("radius", f"{result.radius:g} ({result.radius_from})"),
        ("device", target.describe()),
        ("versions", ", ".join(_versions())),
        ("platform", platform.platform()),
    ]
    lines += ["", *(f"{name:<9} {text}" for name, text in facts), "", _summary(result)]
    return "\n".join(lines)


def _of_what(target: Target) -> str:
    return "; of the emulation, NOT of a GPU" if target.emulated else ""


def _cells(row: Row) -> tuple[str, ...]:
    # a wrong result has no speed
    right = row.verdict.mismatches == 0
    return (
        row.name,
        row.sizes,
        str(list(row.shape)),
        _time(row.median) if right else "-",
        _time(row.first) if right else "-",
        row.verdict.describe(),
        str(row.verdict.mismatches),
    )


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    milliseconds = 1000 * seconds
    digits = 3 if milliseconds < 1 else 2 if milliseconds < 10 else 1
    return f"{milliseconds:.{digits}f} ms"


def _summary(result: Result) -> str:
    if result.mismatches:
        wrong = ", ".join(row.name for row in result.rows if row.verdict.mismatches)
        return f"MISMATCH: {result.mismatches} values differ from the reference ({wrong})"
    partial = any(row.verdict.checked < row.verdict.total for row in result.rows)
    if partial:
        return "0 mismatches in what was checked; --check-all checks everything"
    return "0 mismatches: every result equals the reference, bit for bit"


def _versions() -> list[str]:
    versions = [f"mps_pointops {mps_pointops.__version__}"]
    commit = commit_of(Path(mps_pointops.__file__))
    if commit:
        versions.append(f"commit {commit}")
    return [*versions, f"torch {torch.__version__}", f"Python {platform.python_version()}"]


def commit_of(file: Path) -> str | None:
    """The commit of the checkout that tracks this file; None if there is none, or no git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(file.parent), *arguments]
        # a foreign GIT_DIR (a hook, a rebase) would answer for another repository
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        shown = subprocess.run(
            command, capture_output=True, text=True, timeout=5, check=True, env=clean
        )
        return shown.stdout.strip()

    try:
        # an installed package may lie inside a checkout of something else
        git("ls-files", "--error-unmatch", file.name)
        return git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return None
