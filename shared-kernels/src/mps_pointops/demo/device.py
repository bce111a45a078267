"""Which device the demo runs on, and what it is called."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import dataclass

import torch

from mps_pointops.demo.errors import DemoError


@dataclass(frozen=True)
class Target:
    """Where the operators run.

    Attributes:
        device: Name for torch, 'mps' or 'cpu'.
        emulated: Whether 'mps' is the software emulation.
        notes: What the user should know about the choice.
    """

    device: str
    emulated: bool = False
    notes: tuple[str, ...] = ()

    def synchronize(self) -> None:
        """Wait until the device has done everything."""
        if self.device == "mps":
            torch.mps.synchronize()

    def describe(self) -> str:
        """The device in words."""
        if self.emulated:
            return "mps, emulated in software on the CPU"
        if self.device == "mps":
            return f"mps, {_apple_chip()}"
        threads = torch.get_num_threads()
        return f"cpu, {platform.machine()}, {threads} thread{'s' if threads > 1 else ''}"


def pick_device(wanted: str | None, emulated: bool) -> Target:
    """The device of the run.

    Args:
        wanted: 'mps', 'cpu' or None: mps where it is available, else cpu.
        emulated: Whether the emulation may stand in for a missing Apple GPU.
    """
    if emulated and wanted == "cpu":
        raise DemoError("--emulated runs Metal kernels: it does not go with --device cpu")
    if wanted == "cpu":
        return Target("cpu")
    if emulated:
        # before torch is asked whether MPS is there: it remembers the answer
        _install_emulation()
    if emulation_active():
        note = "the Metal kernels run in software: times are of the emulation, not of a GPU"
        return Target("mps", emulated=True, notes=(note,))
    if torch.backends.mps.is_available():
        note = "an Apple GPU is here: --emulated is ignored"
        return Target("mps", notes=(note,) if emulated else ())
    if wanted == "mps":
        raise DemoError(
            "--device mps: torch finds no Apple GPU here; use --device cpu, or --emulated in a "
            "source checkout"
        )
    note = "no Apple GPU here: running on the CPU; --emulated runs the Metal kernels in software"
    return Target("cpu", notes=(note,))


def emulation_active() -> bool:
    """Whether 'mps' is the software emulation in this process."""
    # never imports the emulator: whoever started this process may have installed it
    emulator = sys.modules.get("mps_emulator")
    return emulator is not None and bool(emulator.is_installed())


def _install_emulation() -> None:
    try:
        import mps_emulator
    except ImportError as error:
        if torch.backends.mps.is_available():
            return  # not needed
        raise DemoError(
            "--emulated needs mps_emulator, a development tool that is part of the source "
            "checkout and of no wheel; run this there with: uv run python -m mps_pointops ..."
        ) from error
    try:
        mps_emulator.install()
    except (ImportError, OSError, RuntimeError) as error:
        raise DemoError(f"--emulated: the emulation does not start here: {error}") from error


def _apple_chip() -> str:
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return platform.machine()
    return shown.stdout.strip()
