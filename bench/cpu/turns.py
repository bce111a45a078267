"""What the scripts of this folder share: calls that take turns, on one and on two threads.

Calls are judged by the CPU time of the process, all threads together, as other work may share the
machine; wall time stands beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from harness import OURS, Bench, Row
from harness.rows import versions

THREADS = (1, 2)
HEADING = f"{'case':44} {'provider':34} {'CPU ms':>9} {'wall ms':>9} {'ratio':>6} differ"
Call = Callable[[], object]


def on_threads() -> Iterator[int]:
    """One number of threads of torch after the other; those there were come back."""
    before = torch.get_num_threads()
    try:
        for threads in THREADS:
            torch.set_num_threads(threads)
            yield threads
    finally:
        torch.set_num_threads(before)


def turns(
    bench: Bench,
    case: str,
    sizes: Mapping[str, Any],
    calls: Mapping[str, Call],
    wrong: Mapping[str, tuple[int, int]],
) -> None:
    """Time calls in turns and print what each takes of the second.

    Args:
        bench: Options, and where rows go.
        case: Kind of input.
        sizes: Its sizes by name.
        calls: Code by the name of who wrote it: those that begin with `OURS` must be exact.
        wrong: Values that differ, of how many, by name; others were not compared.
    """
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    wall: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(bench.options.repeats):
        for name, call in calls.items():
            begin, began = time.perf_counter(), time.process_time()
            call()
            cpu[name].append((time.process_time() - began) * 1e3)
            wall[name].append((time.perf_counter() - begin) * 1e3)
    named = {**sizes, "threads": torch.get_num_threads()}
    base = next((name for name in calls if not name.startswith(OURS)), None)
    for name in calls:
        differ, checked = wrong.get(name, (0, 0))
        row = Row(bench.op, case, named, name, bench.on.label, against="reference")
        row.mismatches, row.checked, row.versions = differ, checked, versions()
        row.repeats = bench.options.repeats
        if differ and name.startswith(OURS):
            bench.failed = True
        else:
            row.wall_time = (min(wall[name]), statistics.median(wall[name]), max(wall[name]))
            row.host_time = statistics.median(cpu[name])
        ratio = "-"
        if base and row.host_time is not None:
            ratio = f"{row.host_time / statistics.median(cpu[base]):.2f}"
        shown = "-" if row.host_time is None else f"{row.host_time:.2f}"
        median = "-" if row.wall_time is None else f"{row.wall_time[1]:.2f}"
        print(
            f"{row.case:44} {name:34} {shown:>9} {median:>9} {ratio:>6} "
            f"{differ if checked else '-'} of {checked}",
            flush=True,
        )
        if bench.options.output:
            row.append_to(bench.options.output)


def compared(got: torch.Tensor, wanted: torch.Tensor) -> tuple[int, int]:
    """Values that differ, of how many."""
    if got.shape != wanted.shape:
        return wanted.numel(), wanted.numel()
    return int((got != wanted).sum()), wanted.numel()
