"""The few functions of the CUDA driver that a launch needs, on the device that PyTorch uses."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

_SHARED_BYTES = 1  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
_MAX_THREADS = 0  # CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
# what torch.cuda.current_stream() asks, without the objects; a build without CUDA has neither
_current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: 0)
_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0)


class Module:
    """A loaded binary.

    Args:
        binary: What the compiler made.
    """

    def __init__(self, binary: bytes) -> None:
        torch.cuda.current_stream()  # makes PyTorch's context the current one
        torch.cuda.synchronize()
        self._handle = ctypes.c_void_p()
        _check(_driver().cuModuleLoadData(ctypes.byref(self._handle), binary), "load a kernel")

    def function(self, name: str) -> Function:
        """Returns an entry point."""
        handle = ctypes.c_void_p()
        found = _driver().cuModuleGetFunction(ctypes.byref(handle), self._handle, name.encode())
        _check(found, f"find {name}")
        return Function(handle)

    def number(self, name: str) -> int:
        """Returns the value of a variable of 64 bits, after everything that runs; 0 if none."""
        address, size, value = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint64()
        place = (ctypes.byref(address), ctypes.byref(size))
        if _driver().cuModuleGetGlobal_v2(*place, self._handle, name.encode()):
            return 0
        torch.cuda.synchronize()
        code = _driver().cuMemcpyDtoH_v2(ctypes.byref(value), address, ctypes.c_size_t(8))
        _check(code, f"read {name}")
        return value.value


class Function:
    """An entry point.

    Args:
        handle: The driver's handle of it.
    """

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle
        self._launch = _driver().cuLaunchKernel

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        found = _driver().cuFuncGetAttribute(ctypes.byref(value), number, self._handle)
        _check(found, "describe a kernel")
        return value.value

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block."""
        return self._attribute(_SHARED_BYTES)

    @property
    def max_threads(self) -> int:
        """Threads that a block may have."""
        return self._attribute(_MAX_THREADS)

    def launch(self, sizes: Sequence[Any], parameters: ctypes.Array[ctypes.c_void_p]) -> None:
        """Starts the kernel on PyTorch's current stream.

        Args:
            sizes: Blocks of the grid and threads of a block, three numbers each.
            parameters: The addresses of the arguments.
        """
        stream = ctypes.c_void_p(_raw_stream(_current_device()))
        code = self._launch(self._handle, *sizes, 0, stream, parameters, None)
        if code:
            _check(code, "launch a kernel")


def architecture() -> str:
    """Returns the architecture of the current device as the compiler names it."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def _check(code: int, purpose: str) -> None:
    if code:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"CUDA could not {purpose}: {(text.value or b'?').decode()} ({code})")


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise RuntimeError("the CUDA driver (libcuda.so.1) was not found on this machine") from None
