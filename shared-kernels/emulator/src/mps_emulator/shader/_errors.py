"""Words for what the runtime found."""

from __future__ import annotations

from collections.abc import Sequence

from . import options
from ._abi import NO_THREAD, Code, Error
from ._arguments import Binding
from ._pipeline import Pipeline

_CHECKED = {
    Code.OUT_OF_BOUNDS_READ: "out-of-bounds read",
    Code.OUT_OF_BOUNDS_WRITE: "out-of-bounds write",
    Code.READ_ONLY_WRITE: "write to constant memory",
}


def describe(pipeline: Pipeline, error: Error, bindings: Sequence[Binding]) -> str:
    """Returns the message for an error of a launch.

    Args:
        pipeline: The kernel.
        error: What the runtime reported.
        bindings: The bound arguments, to name the nearest one.
    """
    kernel = pipeline.kernel
    where = f"kernel '{kernel.name}', {_line(pipeline, error.pc) or kernel.at(kernel.line)}"
    thread = f"thread {error.thread} of threadgroup {tuple(error.group)}"
    return f"{where}: {_what(pipeline, error, bindings)} ({thread})"


def _line(pipeline: Pipeline, pc: int) -> str | None:
    if not pipeline.program.base <= pc < pipeline.program.end:
        return None
    return pipeline.program.place(pc)


def _what(pipeline: Pipeline, error: Error, bindings: Sequence[Binding]) -> str:
    code = Code(error.code)
    operation = (error.what or b"").decode()
    if code in _CHECKED:
        place = _place(pipeline, error.address, bindings)
        return f"{_CHECKED[code]} of {error.size} bytes {place}"
    if code is Code.DIVERGENT_SIMD:
        other = _other(pipeline, error)
        return f"divergent simdgroup operation: the lane waits at {operation}, {other}"
    if code is Code.DIVERGENT_BARRIER:
        return f"divergent barrier: the thread waits at {operation}, {_other(pipeline, error)}"
    if code is Code.MISSED_BARRIER:
        return (
            f"unequal barrier: the thread waits at {operation}, but {_other(pipeline, error)}; "
            "every thread of a threadgroup must reach every barrier"
        )
    if code is Code.INACTIVE_LANE:
        return f"{operation} reads lane {error.address}, which is not active"
    if code is Code.NON_UNIFORM:
        return (
            f"{operation} needs the same lane argument in all lanes, but has {error.address} and "
            f"{error.size}"
        )
    if code is Code.ARRAY_INDEX:
        return f"index {_signed(error.address)} is outside an array"
    if code is Code.SHIFT:
        return f"shift by {_signed(error.address)}, as many bits as the value has or more"
    if code is Code.FAULT:
        return f"access to invalid address {error.address:#x}"
    if code is Code.TIME_LIMIT:
        return f"stopped after {options.time_limit:g} s (options.time_limit): an endless loop?"
    return _FIXED[code]


_FIXED = {
    Code.UNINITIALISED_READ: "read of uninitialised threadgroup memory",
    Code.DIVISION: "integer division by zero, which is undefined",
    Code.ARITHMETIC_FAULT: "integer division by zero or overflow, which is undefined",
    Code.STACK_OVERFLOW: "thread memory exhausted: local arrays or recursion are too large",
    Code.THREADGROUP_FLOAT_ATOMIC: "float atomics exist in device memory only, not in threadgroup",
    Code.MISALIGNED: "misaligned access: the address is no multiple of the type's alignment",
    Code.SETUP: "no memory for the lanes' stacks",
}


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _other(pipeline: Pipeline, error: Error) -> str:
    if error.other_thread == NO_THREAD:
        return "others do not"
    if error.other_what is None:
        return f"thread {error.other_thread} has ended"
    line = _line(pipeline, error.other_pc)
    which = " in another call or iteration" if error.other_pc == error.pc else ""
    what = error.other_what.decode()
    return f"thread {error.other_thread} at {what}, {line or 'line ?'}{which}"


def _place(pipeline: Pipeline, address: int, bindings: Sequence[Binding]) -> str:
    """Says where an address lies relative to the argument nearest to it."""
    names = {s.index: s.parameter.name for s in pipeline.slots if s is not None}
    best = None
    for i, binding in enumerate(bindings):
        before = binding.start - address
        after = address - (binding.start + binding.size)
        distance = max(before, after, 0)
        if best is None or distance < best[0]:
            best = (distance, i, binding)
    for start, size in pipeline.variables:
        if 0 <= address - start < size + 16:
            return "beyond a threadgroup variable"
    if best is None or best[0] > 1 << 30:
        return f"at address {address:#x}, which no argument holds"
    _, i, binding = best
    at = address - binding.address
    return (
        f"at byte {at} of argument {i}, '{names.get(i, '?')}' ({binding.shown}; its memory has "
        f"bytes {binding.start - binding.address} to "
        f"{binding.start + binding.size - binding.address - 1})"
    )
