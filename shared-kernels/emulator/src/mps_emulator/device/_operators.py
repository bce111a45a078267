"""Which aten operators have an MPS kernel, read from the table that PyTorch ships."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterable
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

FLOOR = "2.7.0"

# Operators that a Mac without their MPS kernel runs on the CPU, with PyTorch's warning.
CPU_SIDE: dict[str, str] = {
    "embedding_renorm_": "registered as a CPU fallback by the MPS backend itself",
    "_linalg_svd": "part of linalg_svd, which the MPS backend registers as a CPU fallback",
    "_linalg_svd.U": "part of linalg_svd, which the MPS backend registers as a CPU fallback",
    "col2im": "registered as a CPU fallback by the MPS backend itself",
}

# Operators that PyTorch takes apart before they reach a device, and that have to arrive whole.
WHOLE: dict[str, str] = {
    "convolution": "its parts ask for a convolution that only a build with Metal has",
    "convolution_backward": "its parts ask for a convolution that only a build with Metal has",
    "_euclidean_dist": "known to be inexact as a whole; its parts do not show it",
    "ldexp.Tensor": "calls a kernel table that has no entry for MPS in a build without Metal",
    "ldexp_": "calls a kernel table that has no entry for MPS in a build without Metal",
    "ldexp.out": "calls a kernel table that has no entry for MPS in a build without Metal",
}


@dataclasses.dataclass
class Entry:
    """One operator of ``native_functions.yaml``, as far as the device needs it."""

    name: str
    delegate: str | None = None
    keys: list[str] = dataclasses.field(default_factory=list)
    device_check: bool = True


def parse(text: str) -> dict[str, Entry]:
    """Reads the operators out of ``native_functions.yaml``.

    A line reader for the one layout that this file has: a YAML parser takes seconds for it, and
    would be a dependency.

    Args:
        text: The file's content.
    """
    entries: dict[str, Entry] = {}
    entry: Entry | None = None
    in_dispatch = False
    for line in text.splitlines():
        if line.startswith("- func:"):
            entry = Entry(line[len("- func:") :].split("(", 1)[0].strip())
            entries[entry.name] = entry
            in_dispatch = False
        elif entry is None or not line.strip() or line.lstrip().startswith("#"):
            continue
        elif line.startswith("    ") and in_dispatch:
            keys = line.split(":", 1)[0]
            entry.keys += [key.strip() for key in keys.split(",")]
        elif match := re.match(r"  (\w+):\s*([^#]*)", line):
            field, value = match.group(1), match.group(2).strip()
            in_dispatch = field == "dispatch"
            if field == "structured_delegate":
                entry.delegate = value
            elif field == "device_check":
                entry.device_check = value != "NoCheck"
    return entries


def without_mps_kernel(entries: dict[str, Entry]) -> list[str]:
    """Returns the operators that neither have an MPS kernel nor are made of others.

    Args:
        entries: The operators, by name.
    """
    missing = []
    for name, entry in entries.items():
        keys = entry.keys
        if entry.delegate is not None:
            keys = keys + entries[entry.delegate].keys
        composite = not keys or any(key.startswith("Composite") for key in keys)
        # a kernel for one exotic layout does not make the operator composite
        if not composite and "MPS" not in keys:
            missing.append(name)
    return sorted(missing)


@functools.cache
def installed_entries() -> dict[str, Entry]:
    """Returns the operators of the installed PyTorch."""
    spec = find_spec("torchgen")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "the operator table is missing: torchgen, which comes with every PyTorch wheel, was "
            "not found; install torch from a wheel"
        )
    table = Path(spec.origin).parent / "packaged/ATen/native/native_functions.yaml"
    return parse(table.read_text(encoding="utf-8"))


def floor() -> list[str]:
    """Returns the recorded operators without an MPS kernel of the oldest supported PyTorch."""
    recorded = resources.files(__package__).joinpath(f"operators_{FLOOR}.json")
    return list(json.loads(recorded.read_text(encoding="utf-8"))["without_mps_kernel"])


def table_version() -> str:
    """Returns the PyTorch release whose operators count as present.

    ``MPS_EMULATOR_OPERATORS`` chooses: ``installed`` (the default) or the floor's version.
    """
    chosen = os.environ.get("MPS_EMULATOR_OPERATORS") or "installed"
    if chosen not in ("installed", FLOOR):
        raise ValueError(
            f"MPS_EMULATOR_OPERATORS must be 'installed' or {FLOOR!r}, got {chosen!r}; unset it "
            "to use the installed PyTorch's own table"
        )
    return chosen


@functools.cache
def _without_kernel() -> frozenset[str]:
    names = set(without_mps_kernel(installed_entries()))
    if table_version() == FLOOR:
        names |= set(floor())  # what the installed release lost stays lost
    return frozenset(names)


def missing() -> list[str]:
    """Returns the operators that the device refuses for want of an MPS kernel."""
    return sorted(_without_kernel() - CPU_SIDE.keys())


def cpu_side() -> list[str]:
    """Returns the operators that a Mac runs on the CPU, whatever the environment says."""
    return sorted(_without_kernel() & CPU_SIDE.keys())


def whole() -> list[str]:
    """Returns the operators of :data:`WHOLE` that the installed PyTorch takes apart.

    Those made of differentiable parts stay as they are: whole, they would have no gradient.
    """
    entries = installed_entries()
    return [
        name
        for name in WHOLE
        if name in entries and "CompositeExplicitAutograd" in entries[name].keys
    ]


def qualified(names: Iterable[str]) -> list[str]:
    """Returns the names as the dispatcher writes them."""
    return [f"aten::{name}" for name in names]
