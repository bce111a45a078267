"""Loads the extension and gives ``torch._C`` the functions that a build with Metal has."""

from __future__ import annotations

import atexit
import itertools
import os
import time
import types
from typing import Any

import torch

from mps_emulator.device import _build, _operators

_NAME = "Emulated Apple GPU"


def load(*, autograd_may_have_run: bool) -> None:
    """Makes ``mps`` a working device of this process.

    Args:
        autograd_may_have_run: Whether autograd may have started, without this device. It is then
            started for the device at once, and not by the first backward pass as usual.
    """
    if torch.cuda.device_count() > 0:
        raise RuntimeError(
            "a CUDA GPU is visible, and PyTorch knows one accelerator at a time: hide it with "
            "CUDA_VISIBLE_DEVICES= (set, and empty) to use the emulated mps device"
        )
    library = _build.extension()
    torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    _give_functions()
    _give_storage()
    _mark_forks()
    _set_tables()
    if autograd_may_have_run:
        torch.ops.mps_emulator.start_autograd()
    _rest_at_exit()


def _rest_at_exit() -> None:
    process = os.getpid()

    def rest() -> None:
        if os.getpid() == process:  # a forked child has no worker to wait for
            torch.ops.mps_emulator.finish_autograd()

    atexit.register(rest)


def _set_tables() -> None:
    ops = torch.ops.mps_emulator
    entries = _operators.installed_entries()
    ops.run_whole(_operators.whole())
    ops.set_table("refused", _operators.qualified(_operators.missing()))
    ops.set_table("cpu_side", _operators.qualified(_operators.cpu_side()))
    ops.set_table(
        "unchecked",
        _operators.qualified(name for name, entry in entries.items() if not entry.device_check),
    )
    ops.set_cpu_fallback(cpu_fallback_wanted())


def cpu_fallback_wanted() -> bool:
    """Whether ``PYTORCH_ENABLE_MPS_FALLBACK`` asks to run missing operators on the CPU."""
    value = os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK")
    if not value:
        return False
    try:
        return int(value) != 0
    except ValueError:
        raise ValueError(
            f"PYTORCH_ENABLE_MPS_FALLBACK must be 0 or 1, got {value!r}; unset it or set it to 0"
        ) from None


class _Events:
    """The numbered events behind ``torch.mps.Event``; work is done when it returns."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._recorded: dict[int, float | None] = {}

    def acquire(self, enable_timing: bool = False) -> int:
        number = next(self._numbers)
        self._recorded[number] = None
        return number

    def release(self, number: int) -> None:
        self._recorded.pop(number, None)

    def record(self, number: int) -> None:
        self._recorded[number] = time.perf_counter()

    def wait(self, number: int) -> None:
        pass

    def query(self, number: int) -> bool:
        return True

    def elapsed(self, start: int, end: int) -> float:
        begin, stop = self._recorded.get(start), self._recorded.get(end)
        if begin is None or stop is None:
            raise RuntimeError("both events must be recorded before elapsed_time() is called")
        return (stop - begin) * 1e3


class _Streams:
    """The one stream, for the releases whose ``torch.mps`` has streams."""

    def __init__(self) -> None:
        self._current = types.SimpleNamespace(stream_id=0)

    def current(self) -> Any:
        return self._current

    def set(self, stream: Any) -> None:
        self._current = types.SimpleNamespace(stream_id=stream.stream_id)

    @staticmethod
    def give_base() -> None:
        """Fills the empty base class that torch puts in where Metal is missing."""
        base = getattr(torch._C, "_MPSStreamBase", None)
        if base is None:
            return
        base.__new__ = lambda cls, *args, **kwargs: object.__new__(cls)
        base.__init__ = lambda self, stream_id=0, **_: setattr(self, "_number", stream_id)
        base.stream_id = property(lambda self: self._number)
        base.synchronize = lambda self: None
        base.query = lambda self: True
        base.__eq__ = lambda self, other: self.stream_id == getattr(other, "stream_id", None)
        base.__hash__ = lambda self: hash(self.stream_id)


def _default_generator() -> torch.Generator:
    generator: torch.Generator = torch.ops.mps_emulator.default_generator()
    return generator


def _not_emulated(name: str) -> Any:
    def refuse(*args: object) -> None:
        raise NotImplementedError(f"{name} needs an Apple GPU; the emulated mps device lacks it")

    return refuse


def _compile_shader(source: str) -> Any:
    from mps_emulator import shader  # only programs with shaders pay for the executor

    return shader.compile_shader(source)


def _nothing(*args: object) -> None:
    pass


def _give_functions() -> None:
    ops = torch.ops.mps_emulator
    events = _Events()
    streams = _Streams()
    streams.give_base()
    functions: dict[str, Any] = {
        "_has_mps": True,
        "_mps_is_available": lambda: True,
        "_mps_is_on_macos_or_newer": lambda major, minor: True,
        "_mps_get_name": lambda: _NAME,
        "_mps_get_core_count": lambda: os.cpu_count() or 1,
        "_mps_get_default_generator": _default_generator,
        "_mps_deviceSynchronize": _nothing,
        "_mps_emptyCache": lambda: ops.release_cached_blocks(),
        "_mps_setMemoryFraction": _nothing,
        "_mps_currentAllocatedMemory": lambda: ops.live_bytes(),
        "_mps_driverAllocatedMemory": lambda: ops.reserved_bytes(),
        "_mps_recommendedMaxMemory": lambda: (
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        ),
        "_mps_acquireEvent": events.acquire,
        "_mps_releaseEvent": events.release,
        "_mps_recordEvent": events.record,
        "_mps_waitForEvent": events.wait,
        "_mps_synchronizeEvent": events.wait,
        "_mps_queryEvent": events.query,
        "_mps_elapsedTimeOfEvents": events.elapsed,
        "_mps_getCurrentStream": streams.current,
        "_mps_setStream": streams.set,
        "_mps_maxBufferLength": lambda: 2**40,
        "_mps_host_alias_storage": _not_emulated("host_alias_storage"),
        "_mps_profilerStartTrace": _nothing,
        "_mps_profilerStopTrace": _nothing,
        "_mps_isCaptureEnabled": lambda: False,
        "_mps_isCapturing": lambda: False,
        "_mps_startCapture": _not_emulated("metal_capture"),
        "_mps_stopCapture": _nothing,
        "_mps_compileShader": _compile_shader,
        "_mps_loadMetalllib": _not_emulated("load_metallib"),
        "_mps_loadMetallibFromPath": _not_emulated("load_metallib"),
    }
    for name, function in functions.items():
        setattr(torch._C, name, function)
    for query in vars(torch.backends.mps).values():
        if hasattr(query, "cache_clear"):  # it may hold the answers from before
            query.cache_clear()


def _mark_forks() -> None:
    """A forked child must not touch the device, and torch asks whether it is one."""

    def mark() -> None:
        for module, name in ((torch._C, "_mps_is_in_bad_fork"), (torch.mps, "_is_in_bad_fork")):
            setattr(module, name, lambda: True)

    os.register_at_fork(after_in_child=mark)


def _give_storage() -> None:
    """Teaches ``torch.UntypedStorage(..., device="mps")``, which needs a build with Metal."""
    original = torch.UntypedStorage.__new__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "mps":
            return original(cls, *args, **kwargs)
        if args and not isinstance(args[0], int):
            values = torch.tensor(list(args[0]), dtype=torch.uint8)
            return values.to(device).untyped_storage()
        size = args[0] if args else kwargs.get("size", 0)
        return torch.empty(size, dtype=torch.uint8, device=device).untyped_storage()

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign]
