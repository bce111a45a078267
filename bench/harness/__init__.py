"""What the benchmark scripts share: arguments, inputs, checks before times, rows."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .device import Device
from .inputs import ADVERSARIES, CLOUDS, batch, features, lattice, some_of, sphere
from .rows import OURS, Row, read, versions

__all__ = [
    "ADVERSARIES", "CLOUDS", "OURS", "Bench", "Provider", "Row", "batch", "features", "lattice",
    "read", "some_of", "sphere",
]  # fmt: skip
Result = torch.Tensor | tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Provider:
    """Somebody's code for a case.

    Args:
        call: Runs it.
        expected: Where its result has another form than that of the others.
        inexact: Whether it may differ; it is timed all the same, its mismatches beside it.
    """

    call: Callable[[], Result]
    expected: Callable[[], Result] | None = None
    inexact: bool = False


_HEADING = (
    f"{'case':66} {'provider':18} {'device ms':>10} {'wall ms':>9} {'host ms':>8} "
    f"{'dispatches':>10} {'reads':>5} {'differ':>6} of checked"
)


class Bench:
    """Runs cases of one operator and prints them.

    Args:
        op: Name of the operator.
        heading: What stands above the rows, where a script prints rows of its own.
    """

    def __init__(self, op: str, heading: str = _HEADING) -> None:
        parser = argparse.ArgumentParser(description=f"Benchmark of {op}")
        parser.add_argument("--device", choices=["mps", "cpu", "cuda"])
        parser.add_argument("--emulated", action="store_true", help="Metal kernels in software")
        parser.add_argument("--quick", action="store_true", help="small cases only")
        parser.add_argument("--only", help="cases whose operator or words hold one of these, a,b")
        parser.add_argument("--providers", help="whose code: beginnings of names, as ours,seed")
        parser.add_argument(
            "--count", action="store_true", help="evaluated distances (NVIDIA card), no times"
        )
        parser.add_argument("--repeats", type=int, default=20)
        parser.add_argument("--published", type=Path, help="an unpacked mps-pointops 1.0.0")
        parser.add_argument("--output", type=Path, help="append JSON lines to this file")
        self.options = parser.parse_args()
        self.op = op
        self.on = Device(self.options)
        self.device = self.on.type
        self.failed = False
        print(f"{op} on {self.on.label}; {versions()}")
        print(heading)

    def wanted(self, cloud: str, *, quick: bool = False, **sizes: Any) -> bool:
        """Whether a case belongs to this run; `quick` tells if it does to a quick one."""
        if self.options.quick and not quick:
            return False
        words = f"{self.op} {Row(self.op, cloud, sizes, '', '').case}"
        only = self.options.only
        return only is None or any(word.strip() in words for word in only.split(","))

    def _asked(self, provider: str) -> bool:
        asked = self.options.providers
        return asked is None or any(provider.startswith(name) for name in asked.split(","))

    def case(
        self,
        cloud: str,
        sizes: Mapping[str, Any],
        providers: Mapping[str, Provider | Callable[[], Result]],
        expected: Callable[[], Result],
        *,
        against: str = "CPU path",
        select: Callable[[torch.Tensor], torch.Tensor] = lambda t: t,
    ) -> None:
        """Checks every provider of a case, then times it.

        Args:
            cloud: Kind of cloud.
            sizes: Sizes by name.
            providers: Code by the name of who wrote it; the first is ours.
            expected: Gives the values that results must equal.
            against: What gives them.
            select: Part of each result that `expected` has.
        """
        wanted = _tuple(expected())
        for name, given in providers.items():
            provider = given if isinstance(given, Provider) else Provider(given)
            if not self._asked(name):
                continue
            own = wanted if provider.expected is None else _tuple(provider.expected())
            row = Row(self.op, cloud, dict(sizes), name, self.on.label, against=against)
            try:
                self._fill(row, provider, own, select)
            except Exception as error:  # the other rows still count
                self.failed = True
                words = str(error).partition("\n")[0][:150]
                print(
                    f"{row.case:66} {name:18} failed: {type(error).__name__}: {words}", flush=True
                )
                continue
            self.failed |= row.mismatches > 0 and not provider.inexact
            self._print(row)
            if self.options.output:
                row.append_to(self.options.output)

    def _fill(
        self,
        row: Row,
        provider: Provider,
        wanted: tuple[torch.Tensor, ...],
        select: Callable[[torch.Tensor], torch.Tensor],
    ) -> None:
        result, cost = self.on.cost(provider.call)
        got = [select(value).cpu() for value in _tuple(result)]
        pairs = list(zip(got, wanted, strict=True))
        row.mismatches = sum(
            int((g != w).sum()) if g.shape == w.shape else w.numel() for g, w in pairs
        )
        row.checked = sum(w.numel() for w in wanted)
        row.versions = versions()
        if row.mismatches and not provider.inexact:
            return
        del result, got, pairs
        if self.on.counts:
            row.evaluations = self.on.evaluations(provider.call, row.sizes.get("D", 3)) or None
            return
        if cost:
            row.kernels, row.operators = len(cost.kernels), len(cost.operators)
            row.readbacks = cost.readbacks
        times = self.on.times(provider.call, self.options.repeats, cost)
        row.device_time, row.wall_time = times.device or None, times.wall
        row.host_time, row.repeats = times.host, times.repeats

    @staticmethod
    def _print(row: Row) -> None:
        device = row.device_time[1] if row.device_time else None
        wall = row.wall_time[1] if row.wall_time else None
        print(
            f"{row.case:66} {row.provider:18} {_number(device):>10} {_number(wall):>9} "
            f"{_number(row.host_time):>8} {_number(row.dispatches):>10} "
            f"{_number(row.readbacks):>5} {row.mismatches:6} of {row.checked}"
            + (f", {row.evaluations} evaluations" if row.evaluations is not None else ""),
            flush=True,
        )

    def row(
        self,
        case: str,
        call: Callable[[], Result],
        expected: Callable[[], Result],
        against: str = "reference",
    ) -> None:
        """Check `call` against `expected`, element by element, then time it."""
        if self.wanted(case, quick=True):
            self.case(case, {}, {OURS: call}, expected, against=against)

    def end(self) -> None:
        """Exit status 1 if a row did not match."""
        sys.exit(int(self.failed))


def _number(value: float | int | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.4f}"


def _tuple(value: Result) -> tuple[torch.Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)
