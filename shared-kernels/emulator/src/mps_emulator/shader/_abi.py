"""The structures of runtime/abi.h."""

from __future__ import annotations

import ctypes
from enum import IntEnum

_u32, _u64 = ctypes.c_uint32, ctypes.c_uint64


class Code(IntEnum):
    """Why a launch ended early."""

    OK = 0
    OUT_OF_BOUNDS_READ = 1
    OUT_OF_BOUNDS_WRITE = 2
    READ_ONLY_WRITE = 3
    UNINITIALISED_READ = 4
    DIVERGENT_SIMD = 5
    DIVERGENT_BARRIER = 6
    MISSED_BARRIER = 7
    INACTIVE_LANE = 8
    NON_UNIFORM = 9
    ARRAY_INDEX = 10
    DIVISION = 11
    FAULT = 12
    ARITHMETIC_FAULT = 13
    STACK_OVERFLOW = 14
    TIME_LIMIT = 15
    THREADGROUP_FLOAT_ATOMIC = 16
    SETUP = 17
    SHIFT = 18
    MISALIGNED = 19


BUFFER, THREADGROUP, READ_ONLY = 0, 1, 2
VALUE, POINTER, REFERENCE = 0, 1, 2
OTHER, FLOAT, SIGNED, UNSIGNED, BOOL = 0, 1, 2, 3, 4
NO_THREAD = 0xFFFFFFFF
MAX_BUFFERS = 31


class Range(ctypes.Structure):
    """Addresses that lanes may touch."""

    _fields_ = (("start", _u64), ("size", _u64), ("kind", _u32), ("index", _u32))
    start: int
    size: int
    kind: int
    index: int


class Error(ctypes.Structure):
    """What went wrong, where, and in which thread."""

    _fields_ = (
        ("code", _u32),
        ("thread", _u32),
        ("other_thread", _u32),
        ("group", _u32 * 3),
        ("pc", _u64),
        ("other_pc", _u64),
        ("address", _u64),
        ("size", _u64),
        ("what", ctypes.c_char_p),
        ("other_what", ctypes.c_char_p),
    )
    code: int
    thread: int
    other_thread: int
    group: ctypes.Array[ctypes.c_uint32]
    pc: int
    other_pc: int
    address: int
    size: int
    what: bytes | None
    other_what: bytes | None


class Launch(ctypes.Structure):
    """One dispatch."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("ranges", ctypes.POINTER(Range)),
        ("objects", ctypes.POINTER(Range)),
        ("range_count", _u32),
        ("object_count", _u32),
        ("grid", _u32 * 3),
        ("group", _u32 * 3),
        ("seed", _u64),
        ("time_limit_ms", _u64),
        ("ended_threads_pass", _u32),
        ("flush_subnormals", _u32),
        ("switches", _u64),
        ("error", Error),
    )
    switches: int
    error: Error


class Param(ctypes.Structure):
    """One parameter of a kernel, as the compiler describes it."""

    _fields_ = tuple(
        (name, _u32)
        for name in (
            *("kind", "size", "align", "scalar_size", "scalar_kind"),
            *("components", "is_const", "reserved"),
        )
    )
    kind: int
    size: int
    align: int
    scalar_size: int
    scalar_kind: int
    components: int
    is_const: int
