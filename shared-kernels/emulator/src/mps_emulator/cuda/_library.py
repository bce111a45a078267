"""The library and kernel objects over CUDA, with the call form of torch's own."""

from __future__ import annotations

import ctypes
import hashlib
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mps_emulator._cache import cache_dir, new_file
from mps_emulator.shader import options
from mps_emulator.shader._abi import Param
from mps_emulator.shader._arguments import Binding, bind, grid_and_group
from mps_emulator.shader._elf import SharedObject
from mps_emulator.shader._kernels import KernelText
from mps_emulator.shader._pipeline import (
    MAX_THREADGROUP_BYTES,
    Signature,
    check_builtins,
    make_slots,
)
from mps_emulator.shader._toolchain import Mode

from . import _driver, _nvrtc
from ._form import Form, Look, look_at
from ._translate import CALLS, Translation, entry_name, translate, value_bytes

_LARGEST_GRID = (2**31 - 1, 65535, 65535)
_MOST_FORMS = 1024  # a kernel keeps, of calls with grids that do not come again

_counted: list[str] = []
_libraries: list[Library] = []  # while calls are counted

launched: list[Callable[[str], None]] = []
"""Called with the name of each kernel that is launched."""


def compile_shader(source: str) -> Library:
    """Translates Metal source and returns the library of its kernels.

    Args:
        source: Text of the kernels, ASCII only.

    Raises:
        SyntaxError: If the translator or the compiler refuses the text.
    """
    if not isinstance(source, str):
        raise TypeError(f"compile_shader expects the source as str, got {type(source).__name__}")
    if not source.isascii():
        raise RuntimeError("Metal source must be ASCII: torch hands the text on as ASCII")
    mode = Mode(options.fast_math, options.metal_version, options.checks)
    translation = translate(source, mode)
    if not _counted:
        return Library(translation, mode)
    _libraries.append(Library(translation.counting(_counted), mode))
    return _libraries[-1]


def count_calls_of(*names: str) -> None:
    """Counts the calls of functions in the texts that are compiled from now on, which slows them.

    Args:
        *names: Functions of Metal texts.
    """
    _counted[:] = names


def calls() -> int:
    """Returns how often those functions were called so far; waits for the card."""
    return sum(library.calls() for library in _libraries)


def compiler_options(translation: Translation, mode: Mode, architecture: str) -> list[str]:
    """Returns the compiler's options for a text: exact arithmetic, but for fast math.

    Args:
        translation: The text.
        mode: Fast math or safe math.
        architecture: ``sm_90`` and the like, or ``compute_90`` for assembly text.
    """
    fused = mode.fast_math and translation.contracts
    exact = not (mode.fast_math and translation.approximates)
    said = {True: "true", False: "false"}
    return [
        f"--gpu-architecture={architecture}",
        "--std=c++17",
        "--device-as-default-execution-space",
        "--ftz=true",
        f"--fmad={said[fused]}",
        f"--prec-div={said[exact]}",
        f"--prec-sqrt={said[exact]}",
        "--generate-line-info",
        "--diag-suppress=83,177,550",  # const twice, things declared and not used
    ]


class Library:
    """Translated kernels; each is an attribute.

    Args:
        translation: The text.
        mode: Fast math or safe math.
    """

    def __init__(self, translation: Translation, mode: Mode) -> None:
        self._translation = translation
        self._mode = mode
        self._index = {kernel.name: i for i, kernel in enumerate(translation.kernels)}
        self._modules: dict[tuple[bool, bool], _driver.Module] = {}
        self._kernels: dict[str, Kernel] = {}
        self.signatures = signatures(self._binary(True, True), translation.kernels)
        """What calls of the kernels must fit, in the order of the text."""

    def __dir__(self) -> list[str]:
        return list(self._index)

    def __getattr__(self, name: str) -> Kernel:
        if name not in self._index:
            raise RuntimeError(f"Failed to create function state object for: {name}")
        if name not in self._kernels:
            self._kernels[name] = Kernel(self, self._index[name], self._translation.kernels)
        return self._kernels[name]

    def module(self, *, whole: bool, by_value: bool) -> _driver.Module:
        """Returns the binary for a kind of launch; compiles it on first use."""
        key = (whole, by_value)
        if key not in self._modules:
            self._modules[key] = _driver.Module(self._binary(whole, by_value))
        return self._modules[key]

    def calls(self) -> int:
        """Returns the calls of counted functions."""
        return sum(module.number(CALLS) for module in self._modules.values())

    def _binary(self, whole: bool, by_value: bool) -> bytes:
        text = self._translation.program(whole=whole, by_value=by_value)
        return _compiled(
            text, compiler_options(self._translation, self._mode, _driver.architecture())
        )


def _compiled(text: str, chosen: Sequence[str]) -> bytes:
    key = hashlib.sha256(repr((_nvrtc.version(), chosen, text)).encode()).hexdigest()[:32]
    target = cache_dir("cuda") / f"{key}.cubin"
    if not target.exists():
        try:
            binary = _nvrtc.compile_text(text, "program_source", chosen)
        except _nvrtc.CompileError as error:
            raise SyntaxError(str(error)[:8000]) from None
        with new_file(target) as temporary:
            temporary.write_bytes(binary)
    return target.read_bytes()


def signatures(binary: bytes, kernels: Sequence[KernelText]) -> list[Signature]:
    """Reads what the compiler says of the kernels' parameters and checks it as on a Mac.

    Args:
        binary: What the compiler made.
        kernels: The kernels in it.

    Raises:
        SyntaxError: If a kernel breaks one of Metal's rules.
    """
    file = SharedObject(binary)
    found = []
    for index, kernel in enumerate(kernels):
        count, entry = len(kernel.parameters), entry_name(index, kernel)
        data = _constant(file, f"{entry}_parameters")
        params = [Param.from_buffer_copy(data, i * ctypes.sizeof(Param)) for i in range(count)]
        numbers = struct.unpack(f"{count + 1}i", _constant(file, f"{entry}_numbers"))
        check_builtins(kernel, params)
        found.append(Signature(kernel, make_slots(kernel, params, list(numbers[1:])), numbers[0]))
    return found


def _constant(file: SharedObject, name: str) -> bytes:
    symbol = file.symbols[name]
    return file.sections[".nv.global.init"].data[symbol.address : symbol.address + symbol.size]


class Kernel:
    """One kernel; calling it launches it on PyTorch's current CUDA stream.

    Args:
        library: Where it is.
        index: Its number there.
        kernels: The kernels there.
    """

    def __init__(self, library: Library, index: int, kernels: Sequence[KernelText]) -> None:
        self._library, self._text = library, kernels[index]
        self._entry = entry_name(index, self._text)
        self._room = value_bytes(self._text)
        self._prepared: dict[Look, Form] = {}
        self._signature = library.signatures[index]
        slots = [slot for slot in self._signature.slots if slot is not None]
        self._slots = slots  # in the order of the entry point's parameters
        function = library.module(whole=True, by_value=True).function(self._entry)
        if function.shared_bytes > MAX_THREADGROUP_BYTES:
            raise RuntimeError(
                f"Failed to created pipeline state object, error: kernel '{self._text.name}' "
                f"({self._text.at(self._text.line)}): Threadgroup memory size "
                f"({function.shared_bytes}) exceeds the maximum threadgroup memory allowed "
                f"({MAX_THREADGROUP_BYTES})"
            )
        self.max_threads_per_threadgroup = self._signature.max_threads
        """Threads that one threadgroup may have."""
        self.thread_execution_width = 32
        """Lanes of a simdgroup."""
        self.static_thread_group_memory_length = function.shared_bytes
        """Threadgroup memory in bytes."""

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
            raise NotImplementedError("error_buf_idx is not supported by mps_emulator.cuda")
        look: Look | None = None
        values: list[Any] = []
        if arg_casts is None and threads is not None:
            look, values = look_at(args, threads, group_size)
        form = None if look is None else self._prepared.get(look)
        if form is None or not form.launch(values):
            self._launch(args, threads, group_size, arg_casts, look)
        for listener in launched:
            listener(self._text.name)

    def _launch(
        self,
        args: Sequence[Any],
        threads: int | Sequence[int] | None,
        group_size: int | Sequence[int] | None,
        arg_casts: str | Mapping[int, str] | None,
        look: Look | None,
    ) -> None:
        """Checks everything, launches, and prepares for calls that look the same."""
        grid, group = grid_and_group(self._signature, args, threads, group_size)
        whole = self._is_whole(grid, group)
        bindings = bind(self._signature, args, arg_casts, device="cuda")
        constant = [bindings[s.index] for s in self._slots if s.parameter.space == "constant"]
        by_value = all(b.by_value and b.size <= self._room for b in constant)
        blocks = [-(-g // b) for g, b in zip(grid, group, strict=True)]
        if any(count > most for count, most in zip(blocks, _LARGEST_GRID, strict=True)):
            raise RuntimeError(f"CUDA has no grid of {tuple(blocks)} threadgroups")
        module = self._library.module(whole=whole, by_value=by_value)
        function = module.function(self._entry)
        values, keep = self._values(bindings, by_value)
        held = (ctypes.c_uint32 * 3)(*grid)
        addresses = (ctypes.c_void_p * (1 + len(values)))(
            ctypes.addressof(held), *(ctypes.addressof(value) for value in values)
        )
        function.launch((*blocks, *group), addresses)
        del keep
        if look is None or not by_value:
            return
        if len(self._prepared) >= _MOST_FORMS:
            self._prepared.clear()
        order = [slot.index for slot in self._slots]
        self._prepared[look] = Form(function, look, order, self._room, grid, blocks, group)

    def _is_whole(self, grid: Sequence[int], group: Sequence[int]) -> bool:
        even = all(g % b == 0 for g, b in zip(grid, group, strict=True))
        if even and math.prod(group) % 32 == 0:
            return True
        if max(grid[1:]) > 1:
            raise RuntimeError(
                f"kernel '{self._text.name}': grid {tuple(grid)} in threadgroups of "
                f"{tuple(group)}: mps_emulator.cuda runs grids of several dimensions only in "
                "whole threadgroups and simdgroups of 32"
            )
        return False

    def _values(self, bindings: Sequence[Binding], by_value: bool) -> tuple[list[Any], list[Any]]:
        """Returns the arguments of the entry point, and what must live until the launch."""
        values: list[Any] = []
        keep: list[Any] = []
        for slot in self._slots:
            binding = bindings[slot.index]
            if by_value and slot.parameter.space == "constant":
                room = ctypes.create_string_buffer(self._room)
                ctypes.memmove(room, binding.address, binding.size)
                values.append(room)
            elif binding.by_value:
                data = ctypes.string_at(binding.address, binding.size)
                sent = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
                keep.append(sent)
                values.append(ctypes.c_void_p(sent.data_ptr()))
            else:
                values.append(ctypes.c_void_p(binding.address))
        return values, keep
