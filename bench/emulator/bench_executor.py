"""How fast the executor of Metal kernels is: farthest point sampling and raw lane switches.

    python bench/emulator/bench_executor.py [--points N] [--picks M] [--repeats R] [--no-save]

The sampling kernel is one threadgroup of 1024 threads; its picks are compared with a NumPy loop in
the same run. A row of results is appended to bench/emulator/results/executor.jsonl.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mps_emulator import shader
from mps_emulator.shader import options

RESULTS = Path(__file__).parent / "results" / "executor.jsonl"
THREADS = 1024

SAMPLE = """
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
kernel void sample(device const float* xyz, device float* nearest, device long* picks,
    constant long& n, constant long& m,
    uint i [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float far_distance[32];
  threadgroup uint far_index[32];
  uint pick = 0;
  for (uint step = 0; step < uint(m); ++step) {
    if (i == 0) picks[step] = pick;
    float cx = xyz[pick * 3], cy = xyz[pick * 3 + 1], cz = xyz[pick * 3 + 2];
    float mine = -1.0;
    uint at = UINT_MAX;
    for (uint p = i; p < uint(n); p += size) {
      float dx = xyz[p * 3] - cx, dy = xyz[p * 3 + 1] - cy, dz = xyz[p * 3 + 2] - cz;
      float d = min(nearest[p], dx * dx + dy * dy + dz * dz);
      nearest[p] = d;
      if (d > mine) { mine = d; at = p; }
    }
    float best = simd_max(mine);
    uint index = simd_min(mine == best ? at : UINT_MAX);
    if (lane == 0) { far_distance[group] = best; far_index[group] = index; }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float theirs = far_distance[lane];
    best = simd_max(theirs);
    pick = simd_min(theirs == best ? far_index[lane] : UINT_MAX);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
"""

SWITCH = """
#include <metal_stdlib>
using namespace metal;
kernel void barrier(device float* o, constant long& n, uint i [[thread_index_in_threadgroup]]) {
  for (long k = 0; k < n; ++k) threadgroup_barrier(mem_flags::mem_none);
  o[i] = 1;
}
kernel void simd(device float* o, constant long& n, uint i [[thread_index_in_threadgroup]]) {
  float s = i;
  for (long k = 0; k < n; ++k) s = simd_max(s);
  o[i] = s;
}
"""


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    call()  # the first one touches memory and stacks
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def numpy_picks(xyz: np.ndarray[Any, np.dtype[np.float32]], m: int) -> list[int]:
    nearest = np.full(len(xyz), np.inf, np.float32)
    picks = []
    pick = 0
    for _ in range(m):
        picks.append(pick)
        d = xyz - xyz[pick]
        d *= d
        nearest = np.minimum(nearest, (d[:, 0] + d[:, 1]) + d[:, 2])
        pick = int(nearest.argmax())
    return picks


def sampling(points: int, picks: int, repeats: int) -> dict[str, float]:
    cloud = np.random.default_rng(0).random((points, 3), dtype=np.float32)
    expected = numpy_picks(cloud, picks)
    xyz, nearest = torch.from_numpy(cloud), torch.empty(points)
    out = torch.empty(picks, dtype=torch.int64)
    row = {}
    for checks in (True, False):
        options.checks = checks
        kernel = shader.compile_shader(SAMPLE).sample

        def call(kernel: shader.Kernel = kernel) -> None:
            nearest.fill_(float("inf"))
            kernel(xyz, nearest, out, points, picks, threads=THREADS, group_size=THREADS)

        row["checked" if checks else "unchecked"] = median_seconds(call, repeats)
        if out.tolist() != expected:
            raise SystemExit("the kernel's picks differ from the NumPy loop's")
    return row


def switches(repeats: int, rounds: int = 2000) -> dict[str, float]:
    options.checks = True
    lib = shader.compile_shader(SWITCH)
    row = {}
    for name in ("barrier", "simd"):
        for threads in (32, THREADS):
            kernel = getattr(lib, name)
            n = rounds * THREADS // threads
            out = torch.zeros(threads)
            call = functools.partial(kernel, out, n, group_size=threads)
            seconds = median_seconds(call, repeats)
            row[f"{name}_{threads}"] = kernel.lane_switches / seconds / 1e6
    return row


def commit() -> str:
    here = Path(__file__).parent
    emulator = here.parent.parent / "shared-kernels" / "emulator"

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", str(emulator / "src"), __file__)
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("-changed" if changed else "")


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, default=20000)
    parser.add_argument("--picks", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-save", action="store_true", help="print only")
    arguments = parser.parse_args()
    options.allow_cpu_tensors = True
    options.seed = 0
    row: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "ziglang": importlib.metadata.version("ziglang"),
        "points": arguments.points,
        "picks": arguments.picks,
        "repeats": arguments.repeats,
    }
    for key, value in row.items():
        print(f"{key:>10}: {value}")
    row["sampling_s"] = sampling(arguments.points, arguments.picks, arguments.repeats)
    print(f"sampling {arguments.points} -> {arguments.picks}, picks equal NumPy's, median seconds:")
    for name, seconds in row["sampling_s"].items():
        print(f"{name:>14}: {seconds:.3f}")
    row["switches_per_us"] = switches(arguments.repeats)
    print("lane switches, millions a second (with the work of the meeting point):")
    for name, rate in row["switches_per_us"].items():
        print(f"{name:>14}: {rate:.1f}")
    if not arguments.no_save:
        RESULTS.parent.mkdir(exist_ok=True)
        with open(RESULTS, "a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
