"""What the benchmark scripts share: arguments, timing after an equality check, rows."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

import mps_pointops


@dataclass
class Row:
    """One case on one device."""

    op: str
    case: str
    device: str
    milliseconds: float | None
    repeats: int
    mismatches: int
    checked: int
    versions: dict[str, str] = field(default_factory=dict)


class Bench:
    """Runs cases of one operator and prints them."""

    def __init__(self, op: str) -> None:
        parser = argparse.ArgumentParser(description=f"Benchmark of {op}")
        parser.add_argument("--device", choices=["mps", "cpu"])
        parser.add_argument("--emulated", action="store_true", help="Metal kernels in software")
        parser.add_argument("--quick", action="store_true", help="small cases only")
        parser.add_argument("--repeats", type=int, default=5)
        parser.add_argument("--output", type=Path, help="append JSON lines to this file")
        self.options = parser.parse_args()
        self.op = op
        self.device, self.device_name = self._device()
        self.failed = False
        print(f"{op} on {self.device_name}; {self._versions()}")
        print(f"{'case':44} {'median ms':>12} {'mismatches':>12}")

    def _device(self) -> tuple[str, str]:
        options = self.options
        if options.emulated:
            if options.device == "cpu":
                sys.exit("--emulated runs the mps device; leave --device cpu out")
            import mps_emulator

            if mps_emulator.install():
                return "mps", "emulated mps (times are of the emulation, not of a GPU)"
        real = torch.backends.mps.is_available()
        device = options.device or ("mps" if real else "cpu")
        if device == "mps" and not real:
            sys.exit("no Apple GPU here: use --device cpu or --emulated")
        return device, f"{device}, {platform.machine()}, {torch.get_num_threads()} CPU threads"

    @staticmethod
    def _versions() -> dict[str, str]:
        try:
            command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
            here = Path(__file__).parent
            commit = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
            revision = commit.stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            revision = "unknown"
        return {
            "mps_pointops": mps_pointops.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "system": platform.platform(terse=True),
            "commit": revision,
        }

    def row(
        self,
        case: str,
        call: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]],
        expected: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]],
    ) -> None:
        """Check `call` against `expected`, element by element, then time it."""
        got, wanted = _tuple(call()), _tuple(expected())
        pairs = list(zip(got, wanted, strict=True))
        wrong = sum(
            int((g.cpu() != w).sum()) if g.shape == w.shape else w.numel() for g, w in pairs
        )
        checked = sum(w.numel() for w in wanted)
        median = None
        if wrong == 0:
            median = statistics.median(self._time(call) for _ in range(self.options.repeats))
        self.failed |= wrong > 0
        shown = "-" if median is None else f"{median:.3f}"
        print(f"{case:44} {shown:>12} {wrong:>6} of {checked}")
        if self.options.output:
            row = Row(
                self.op,
                case,
                self.device_name,
                median,
                self.options.repeats,
                wrong,
                checked,
                self._versions(),
            )
            with self.options.output.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")

    def _time(self, call: Callable[[], object]) -> float:
        self._synchronise()
        begin = time.perf_counter()
        call()
        self._synchronise()
        return (time.perf_counter() - begin) * 1e3

    def _synchronise(self) -> None:
        if self.device == "mps":
            torch.mps.synchronize()

    def end(self) -> None:
        """Exit status 1 if a row did not match."""
        sys.exit(int(self.failed))


def _tuple(value: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def sphere(size: int, seed: int = 0) -> torch.Tensor:
    """Points near the unit sphere [size, 3], in random order."""
    rng = torch.Generator().manual_seed(seed)
    points = torch.randn(size, 3, generator=rng)
    points /= points.norm(dim=1, keepdim=True)
    return points + 0.01 * torch.randn(size, 3, generator=rng)


def lattice(size: int) -> torch.Tensor:
    """Points on a cubic grid [size, 3], in random order: ties everywhere."""
    side = round(size ** (1 / 3)) + 1
    number = torch.randperm(size, generator=torch.Generator().manual_seed(1))
    digits = (number % side, number // side % side, number // side**2)
    return torch.stack(digits, dim=1).float() / side
