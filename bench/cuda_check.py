"""Every operator on an NVIDIA card, by its Metal kernels, against the same operator on the CPU.

    python -m mps_emulator.cuda bench/cuda_check.py [--small] [--every N] [--time]

Compares bits. Ends with status 1 if a value differs or a case fails.
"""

import argparse
import contextlib
import itertools
import statistics
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from cuda_cases import SECTIONS, Section, ball_query, features, fps, index, knn, ragged

import mps_emulator.cuda
from mps_pointops import _checks

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
# Thresholds under which small clouds take the ways of large ones, and the sections that then run
# again.
FORCED: dict[str, tuple[dict[str, object], tuple[Section, ...]]] = {
    "trees": (
        {
            "FEW_POINTS": 0, "FEW_POINTS_ALWAYS": 0, "KNN_TREE_POINTS": 1, "KNN_TREE_SHARE": 0,
            "KNN_TREE_PAIRS": 1, "INDEX_POINTS": 1, "INDEX_SHARE": 0, "INDEX_BALL_PLACES": 2**20,
            "BALL_TREE_POINTS": 1, "BALL_TREE_PAIRS": 1, "BALL_TREE_PLACES": 2**20,
            "BALL_PROBE": 32, "BALL_REACH": 0, "BALL_WHOLE": 0,
        },
        (knn, ball_query, ragged, index),
    ),
    "rounds": ({"FPS_ALONE_BITS": 7, "fps_sorts": lambda size, picks: True}, (fps, ragged)),
    "dealt": ({"FPS_ALONE_BITS": 7, "fps_deals": lambda size: True}, (fps,)),
    "finisher": ({"FPS_ALONE_BITS": 7, "fps_rounds": lambda size, picks: 1}, (fps, ragged)),
    "parts": (
        {"FEW_LANES": 2**30, "KNN_PART": 32, "KNN_FEATURE_PART": 32, "KNN_MANY_ROWS": 1},
        (knn, ragged),
    ),
    "rows of their own": ({"GATHER_GROUPS": 4096, "GATHER_ROWS": 1}, (features,)),
    "shared rows": ({"GATHER_GROUPS": 1}, (features,)),
}  # fmt: skip


@contextlib.contextmanager
def forced(values: dict[str, object]) -> Iterator[None]:
    """Sets thresholds of `_metal/choices.py` wherever a module holds them."""
    before = []
    modules = [m for n, m in sorted(sys.modules.items()) if n.startswith("mps_pointops")]
    for name, value in values.items():
        holders = [module for module in modules if name in vars(module)]
        if not holders:
            raise LookupError(f"no module has a threshold {name}")
        before += [(module, name, getattr(module, name)) for module in holders]
        for module in holders:
            setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="small sizes, for compute-sanitizer")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case")
    parser.add_argument("--only", help="names of sections, with commas")
    parser.add_argument("--time", action="store_true", help="the slowest cases of each section")
    options = parser.parse_args()
    if not mps_emulator.cuda.is_installed():
        sys.exit("run with: python -m mps_emulator.cuda bench/cuda_check.py")
    _checks.DEVICES.add("cuda")
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    chosen = options.only.split(",") if options.only else [s.__name__ for s in SECTIONS]
    bad = sum(_section(s, options) for s in SECTIONS if s.__name__ in chosen)
    for way, (values, sections) in FORCED.items():
        again = [s for s in sections if s.__name__ in chosen]
        if again:
            print(f"small clouds by the ways of large ones: {way}", flush=True)
            with forced(values):
                bad += sum(_section(s, options) for s in again)
    print("FAILED" if bad else "all equal")
    sys.exit(int(bad > 0))


def _section(section: Section, options: argparse.Namespace) -> int:
    began = time.perf_counter()
    cases = values = wrong = failed = 0
    with mps_emulator.cuda.count(operators=False) as counts:
        for name, call, arguments in itertools.islice(
            section(options.small), 0, None, options.every
        ):
            moved = [a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments]
            try:
                pairs = list(zip(_tuple(call(*moved)), _tuple(call(*arguments)), strict=True))
                here = sum(_differing(g, w) for g, w in pairs)
            except Exception:
                failed += 1
                if failed <= 3:
                    print(f"{name}: {traceback.format_exc(limit=-6)}", flush=True)
                continue
            cases, wrong = cases + 1, wrong + here
            values += sum(w.numel() for _, w in pairs)
            if here:
                print(f"{name}: {here} values differ", flush=True)
    seconds = time.perf_counter() - began
    kernels = {kernel: counts.kernels.count(kernel) for kernel in sorted(set(counts.kernels))}
    print(
        f"{section.__name__:12} {cases:6} cases {values:10} values {wrong} differ, "
        f"{failed} failed, {seconds:.1f} s, dispatches {kernels}",
        flush=True,
    )
    if options.time:
        _times(section)
    return wrong + failed


def _times(section: Section) -> None:
    """Host time and time to completion of the last case of a section, and what it launches."""
    name, call, arguments = list(section(False))[-1]
    moved = [a.cuda() if isinstance(a, torch.Tensor) else a for a in arguments]
    call(*moved)
    whole, host = [], []
    for _ in range(20):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call(*moved)
        host.append(time.perf_counter() - began)
        torch.cuda.synchronize()
        whole.append(time.perf_counter() - began)
    with mps_emulator.cuda.count() as counts:
        call(*moved)
    print(
        f"  {name}: {statistics.median(whole) * 1e3:.3f} ms, "
        f"host {statistics.median(host) * 1e3:.3f} ms, {len(counts.kernels)} kernels, "
        f"{len(counts.operators)} operators, "
        f"{len(counts.readbacks)} read-backs"
    )


def _tuple(value: object) -> tuple[torch.Tensor, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)  # type: ignore[return-value]


def _differing(got: torch.Tensor, wanted: torch.Tensor) -> int:
    got = got.cpu()
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        raise AssertionError(f"{got.dtype} {got.shape}, wanted {wanted.dtype} {wanted.shape}")
    if wanted.is_floating_point():
        bits = _BITS[wanted.element_size()]
        got, wanted = got.contiguous().view(bits), wanted.contiguous().view(bits)
    return int((got != wanted).sum())


if __name__ == "__main__":
    main()
