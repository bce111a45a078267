"""Rows of results: JSON lines, one a case and provider."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

OURS = "ours"


@dataclass
class Row:
    """One case, one provider, one device. Times are milliseconds; None: not measured.

    Attributes:
        op: The operator.
        input: The kind of cloud.
        sizes: Its sizes by name.
        provider: Whose code ran.
        device: Where.
        device_time: 20th, 50th and 80th percentile of the device's own time, replayed without the
            host; None where the call reads the device, or off CUDA.
        wall_time: The same, until the device is idle again.
        host_time: Median until the call returns.
        repeats: Calls measured.
        mismatches: Values that differ from `against`.
        checked: Values compared.
        against: What gave the expected values.
        kernels: Kernels of the project that a call launches.
        operators: PyTorch operators that it runs on the device.
        readbacks: Times that the host waits for a value.
        evaluations: Distances, and bounds of boxes, that the kernels compute in a call.
        versions: Of everything involved.
    """

    op: str
    input: str
    sizes: dict[str, Any]
    provider: str
    device: str
    device_time: tuple[float, ...] | None = None
    wall_time: tuple[float, ...] | None = None
    host_time: float | None = None
    repeats: int = 0
    mismatches: int = 0
    checked: int = 0
    against: str = ""
    kernels: int | None = None
    operators: int | None = None
    readbacks: int | None = None
    evaluations: int | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def case(self) -> str:
        """Cloud and sizes in words."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.input} {sizes}".rstrip()

    @property
    def dispatches(self) -> int | None:
        """Kernels and operators: at least as many dispatches on a Mac."""
        if self.kernels is None or self.operators is None:
            return None
        return self.kernels + self.operators

    @property
    def time(self) -> float | None:
        """Median time: the device's where it is known, else wall time."""
        times = self.device_time or self.wall_time
        return times[1] if times else None

    def append_to(self, path: Path) -> None:
        """Adds the row to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(asdict(self)) + "\n")


def read(path: Path) -> list[Row]:
    """The rows of a file; of several for one case and provider, the last.

    A row of counts alone is added to the row of times.
    """
    found: dict[tuple[str, ...], Row] = {}
    for text in path.read_text().splitlines():
        row = Row(**json.loads(text))
        key = (row.op, row.case, row.provider, row.device)
        before = found.get(key)
        if before and row.evaluations is not None and row.wall_time is None:
            row = replace(before, evaluations=row.evaluations)
        elif before and row.evaluations is None:
            row = replace(row, evaluations=before.evaluations)
        found[key] = row
    return list(found.values())


@cache
def versions() -> dict[str, str]:
    """Of everything that a result depends on."""
    import mps_pointops  # here: pages of results are made without it

    found = {
        "mps_pointops": mps_pointops.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "commit": os.environ.get("BENCH_COMMIT") or _commit(),
    }
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
