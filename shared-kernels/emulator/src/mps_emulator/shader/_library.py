"""The library and kernel objects, with the rules of torch's own."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import options
from ._abi import BUFFER, READ_ONLY, THREADGROUP, Launch, Range
from ._arguments import Binding, bind, grid_and_group
from ._build import Program, build
from ._errors import describe
from ._pipeline import Pipeline, check_types, make_pipeline
from ._toolchain import Mode, runtime

_stream = threading.Lock()  # launches run one after another, as on the stream of a Mac


def compile_shader(source: str) -> Library:
    """Compiles Metal source and returns the library of its kernels.

    Args:
        source: Text of the kernels, ASCII only.

    Raises:
        SyntaxError: If the compiler refuses the text.
    """
    if not isinstance(source, str):
        raise TypeError(f"compile_shader expects the source as str, got {type(source).__name__}")
    source = _ascii(source)
    if options.metal_version not in (310, 320, 400):
        raise ValueError(
            f"options.metal_version is {options.metal_version!r}, expected 310, 320 or 400"
        )
    program = build(source, Mode(options.fast_math, options.metal_version, options.checks))
    check_types(program)
    return Library(program)


def _ascii(source: str) -> str:
    """Refuses text that is not ASCII, but for lines of the headers that torch itself inserts."""
    if source.isascii():
        return source
    lines = source.split("\n")
    known = _torch_lines()
    for i, line in enumerate(lines):
        if line.isascii():
            continue
        if line.strip() not in known:
            raise RuntimeError(
                f"Metal source must be ASCII, line {i + 1} is not: torch hands the text on as ASCII"
            )
        lines[i] = line.encode("ascii", "replace").decode()
    return "\n".join(lines)


@functools.cache
def _torch_lines() -> frozenset[str]:
    folder = Path(torch.__file__).parent / "include" / "c10" / "metal"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.h"))]
    lines = (line.strip() for text in texts for line in text.split("\n"))
    return frozenset(line for line in lines if not line.isascii())


class Library:
    """Compiled kernels; each is an attribute.

    Args:
        program: The compiled text.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._pipelines: dict[str, Pipeline] = {}

    def __dir__(self) -> list[str]:
        return list(self._program.kernels)

    def __getattr__(self, name: str) -> Kernel:
        if name not in self._pipelines:
            self._pipelines[name] = make_pipeline(self._program, name)
        return Kernel(self._pipelines[name])


class Kernel:
    """One kernel; calling it launches it and waits.

    Args:
        pipeline: The kernel and its limits.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self.lane_switches = 0
        """Switches between lanes in the last launch, for measurements."""

    @property
    def max_threads_per_threadgroup(self) -> int:
        """Threads that one threadgroup may have."""
        return self._pipeline.max_threads

    @property
    def thread_execution_width(self) -> int:
        """Lanes of a simdgroup."""
        return 32

    @property
    def static_thread_group_memory_length(self) -> int:
        """Bytes of threadgroup memory that the kernel declares."""
        return self._pipeline.threadgroup_bytes

    def __call__(
        self,
        *args: Any,
        threads: int | Sequence[int] | None = None,
        group_size: int | Sequence[int] | None = None,
        arg_casts: str | Mapping[int, str] | None = None,
        error_buf_idx: int | None = None,
    ) -> None:
        """Runs the kernel over a grid of threads.

        Args:
            *args: Buffers and scalars; argument i is bound to buffer index i.
            threads: Size of the grid, 1 to 3 numbers; without it the number of elements of the
                first tensor.
            group_size: Size of a threadgroup, as many numbers as ``threads``.
            arg_casts: Types that scalars are sent as: one name, or names by position.
            error_buf_idx: Not supported.
        """
        if error_buf_idx is not None:
            raise NotImplementedError("error_buf_idx is not supported by mps_emulator")
        grid, group = grid_and_group(self._pipeline, args, threads, group_size)
        bindings = bind(self._pipeline, args, arg_casts)
        with _stream:
            message = self._launch(grid, group, bindings)
        if message:
            raise RuntimeError(message)

    def _launch(self, grid: list[int], group: list[int], bindings: list[Binding]) -> str:
        pipeline = self._pipeline
        buffers = (ctypes.c_void_p * max(1, len(pipeline.slots)))()
        for at, slot in enumerate(pipeline.slots):
            buffers[at] = None if slot is None else bindings[slot.index].address
        variables = pipeline.variables
        objects = (Range * max(1, len(variables)))(
            *(Range(start, size, THREADGROUP, i) for i, (start, size) in enumerate(variables))
        )
        first = min((start for start, _ in variables), default=0)
        last = max((start + size for start, size in variables), default=0)
        ranges = [
            Range(first, last - first, THREADGROUP, 0),
            Range(0, 0, BUFFER, 0),  # the lanes' stacks
        ]
        ranges += [Range(b.start, b.size, BUFFER, i) for i, b in enumerate(bindings)]
        for start, end in pipeline.program.constants():
            ranges.append(Range(start, end - start, READ_ONLY, 0))
        table = (Range * len(ranges))(*ranges)
        launch = Launch(
            entry=pipeline.entry,
            buffers=ctypes.addressof(buffers),
            ranges=table,
            objects=objects,
            range_count=len(ranges),
            object_count=len(variables),
            grid=(ctypes.c_uint32 * 3)(*grid),
            group=(ctypes.c_uint32 * 3)(*group),
            seed=options.seed & (2**64 - 1),
            time_limit_ms=int(options.time_limit * 1000),
            ended_threads_pass=options.ended_threads_pass_barriers,
            flush_subnormals=True,
        )
        failed = runtime().msl_run(ctypes.byref(launch))
        self.lane_switches = launch.switches
        return describe(pipeline, launch.error, bindings) if failed else ""
