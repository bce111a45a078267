"""NVIDIA's run-time compiler, without a GPU: CUDA C++ to a binary for one architecture."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch


class CompileError(RuntimeError):
    """The compiler refused a text; the message is its own."""


def compile_text(text: str, name: str, options: Sequence[str]) -> bytes:
    """Returns the binary, or the PTX text for an architecture ``compute_*``.

    Args:
        text: The CUDA C++ text.
        name: What messages call it.
        options: Options of the compiler, ``--gpu-architecture`` among them.

    Raises:
        CompileError: If the compiler refuses the text.
    """
    nvrtc = _library()
    program = ctypes.c_void_p()
    nothing = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), name.encode(), 0, nothing, nothing
    )
    _check(nvrtc, created)
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), given):
            raise CompileError(_read(nvrtc, program, "ProgramLog").rstrip(b"\0\n").decode())
        binary = any("=sm_" in option for option in options)
        return _read(nvrtc, program, "CUBIN" if binary else "PTX")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def is_available() -> bool:
    """Returns whether the compiler is there."""
    try:
        _library()
    except RuntimeError:
        return False
    return True


def version() -> tuple[int, int]:
    """Returns the compiler's version."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc = _library()
    _check(nvrtc, nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, data))
    return data.raw


def _check(nvrtc: ctypes.CDLL, code: int) -> None:
    if code:
        raise RuntimeError(f"NVRTC: {nvrtc.nvrtcGetErrorString(code).decode()}")


@functools.cache
def _library() -> ctypes.CDLL:
    for candidate in _candidates():
        try:
            found = ctypes.CDLL(candidate)
        except OSError:
            continue
        found.nvrtcGetErrorString.restype = ctypes.c_char_p
        return found
    raise RuntimeError(
        "NVIDIA's run-time compiler (libnvrtc) was not found: install a PyTorch with CUDA, or put "
        "the folder of libnvrtc into LD_LIBRARY_PATH"
    )


def _candidates() -> Iterator[str]:
    major = (torch.version.cuda or "").partition(".")[0]
    if major:
        yield f"libnvrtc.so.{major}"
    roots = [Path(p) / "nvidia" for p in sys.path if p]  # where the wheels of PyTorch keep it
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = [found for root in roots for found in sorted(root.glob("*/lib"))]
    places += [Path(home) / "lib64" for home in homes if home]
    for place in places:
        for found in sorted(place.glob(f"libnvrtc.so.{major or '*'}"), reverse=True):
            yield str(found)
    yield "libnvrtc.so"
