"""The device that a benchmark runs on, and how time is measured there."""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")
SECONDS = 0.4  # of measuring a case, roughly
STEP = "accumulate"  # what every kernel calls for a further coordinate of a distance


@dataclass(frozen=True)
class Times:
    """Times of a call in milliseconds.

    Attributes:
        device: 20th, 50th and 80th percentile of the device's own time, from replays of a captured
            graph; empty where nothing can be captured.
        wall: The same of the time until the device is idle again, as a caller sees it.
        host: Median of the time until the call returns.
        repeats: Calls that `wall` was measured with.
    """

    device: tuple[float, ...]
    wall: tuple[float, ...]
    host: float
    repeats: int

    @property
    def best(self) -> tuple[float, ...]:
        """The device's time where it is known, else wall time."""
        return self.device or self.wall


@dataclass(frozen=True)
class Cost:
    """What a call asks of the device.

    Attributes:
        kernels: Kernels of the project by name, in order.
        operators: PyTorch's own operators on the device.
        readbacks: Times that the host waits for a value.
    """

    kernels: list[str]
    operators: list[str]
    readbacks: int

    @property
    def dispatches(self) -> int:
        """Kernels and operators: each is at least one dispatch on a Mac."""
        return len(self.kernels) + len(self.operators)


class Device:
    """Where the calls run.

    Args:
        options: The command line: `device`, `emulated`, `count`.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.emulated = False
        self.type, self.label = self._choose(options)
        self.counts = options.count
        if self.counts:
            if self.type != "cuda":
                sys.exit("--count runs on an NVIDIA card only")
            import mps_emulator.cuda

            mps_emulator.cuda.count_calls_of(STEP)

    def _choose(self, options: argparse.Namespace) -> tuple[str, str]:
        if options.emulated:
            if options.device:
                sys.exit("--emulated runs the mps device; leave --device out")
            import mps_emulator

            if mps_emulator.install():
                self.emulated = True
                return "mps", "emulated mps (times are of the emulation, not of a GPU)"
        cuda = _translated()
        real = torch.backends.mps.is_available()
        device = options.device or ("cuda" if cuda else "mps" if real else "cpu")
        if device == "mps" and not real:
            sys.exit("no Apple GPU here: use --device cpu or --emulated")
        if device == "cuda":
            if not cuda:
                sys.exit("run with: python -m mps_emulator.cuda " + " ".join(sys.argv))
            from mps_pointops import _checks

            _checks.DEVICES.add("cuda")
            return "cuda", f"{torch.cuda.get_device_name()}, the Metal texts as CUDA"
        threads = f"{torch.get_num_threads()} CPU threads"
        return device, f"{device}, {platform.machine()}, {threads}"

    def synchronize(self) -> None:
        """Waits until the device is idle."""
        if self.type == "mps":
            torch.mps.synchronize()
        elif self.type == "cuda":
            torch.cuda.synchronize()

    def evaluations(self, call: Callable[[], object], dim: int) -> int:
        """Counts the distances, and bounds of boxes, that a call computes."""
        import mps_emulator.cuda

        before = mps_emulator.cuda.calls()
        call()
        # the first of three coordinates begins the sum
        return (mps_emulator.cuda.calls() - before) // (2 if dim == 3 else dim)

    def cost(self, call: Callable[[], Result]) -> tuple[Result, Cost | None]:
        """Runs a call and counts what it asks of the device; None where nobody counts."""
        if self.type != "cuda":
            return call(), None
        import mps_emulator.cuda

        with mps_emulator.cuda.count() as counts:
            result = call()
        return result, Cost(counts.kernels, counts.operators, len(counts.readbacks))

    def times(self, call: Callable[[], object], repeats: int, cost: Cost | None) -> Times:
        """Times a call that has run before.

        Args:
            call: What to time.
            repeats: Calls at most.
            cost: What it asks of the device.
        """
        wall, host = [], []
        while len(wall) < repeats and (not wall or sum(wall) < SECONDS * 1e3):
            self.synchronize()
            begin = time.perf_counter()
            call()
            returned = time.perf_counter()
            self.synchronize()
            wall.append((time.perf_counter() - begin) * 1e3)
            host.append((returned - begin) * 1e3)
        device: tuple[float, ...] = ()
        if self.type == "cuda" and cost is not None and cost.readbacks == 0:
            device = _percentiles(_replayed(call, statistics.median(wall), repeats))
        return Times(device, _percentiles(wall), statistics.median(host), len(wall))


def _translated() -> bool:
    if "mps_emulator.cuda" not in sys.modules:
        return False
    import mps_emulator.cuda

    return mps_emulator.cuda.is_installed()


def _replayed(call: Callable[[], object], wall: float, repeats: int) -> list[float]:
    """Device times in milliseconds: of a captured graph, of several calls where they are short."""
    if wall > 300:  # long calls: the launches do not show
        return [_between(call) for _ in range(min(repeats, 3 if wall < 1000 else 1))]
    calls = min(20, math.ceil(1.0 / wall))
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(calls):
                call()
    except RuntimeError as error:
        print(f"  not captured: {str(error).splitlines()[0]}", file=sys.stderr)
        torch.cuda.synchronize()
        return []
    graph.replay()
    found = []
    while len(found) < repeats and (not found or sum(found) * calls < SECONDS * 1e3):
        found.append(_between(graph.replay) / calls)
    return found


def _between(call: Callable[[], object]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def _percentiles(values: list[float]) -> tuple[float, ...]:
    """20th, 50th and 80th percentile."""
    if len(values) < 2:
        return tuple(values * 3)
    found = statistics.quantiles(values, n=10, method="inclusive")
    return found[1], found[4], found[7]
