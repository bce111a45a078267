"""From Metal text to a loaded shared object."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path

from mps_emulator._cache import cache_dir, new_file

from . import _toolchain
from ._abi import Param
from ._elf import SharedObject, Symbol
from ._kernels import KernelText, Parameter
from ._lines import LineTable
from ._rewrite import rewrite
from ._toolchain import Mode

_FORMAT = 2  # of the description beside a cached object
_VISIBLE = 'extern "C" __attribute__((visibility("default")))'
_ANCHOR = f"{_VISIBLE} char __msl_anchor = 1;"


class Program:
    """A compiled text: its kernels and where its code and threadgroup variables lie.

    Args:
        path: The shared object.
        kernels: What the parser found.
    """

    def __init__(self, path: Path, kernels: list[KernelText]) -> None:
        self.kernels = {kernel.name: (i, kernel) for i, kernel in enumerate(kernels)}
        self._library = ctypes.CDLL(str(path))
        self._file = SharedObject(path.read_bytes())
        self._lines: LineTable | None = None
        anchor = ctypes.addressof(ctypes.c_char.in_dll(self._library, "__msl_anchor"))
        self.base = anchor - self._file.symbols["__msl_anchor"].address
        self.end = self.base + self._file.end
        self._names = {
            symbol.address: name
            for name, symbol in self._file.symbols.items()
            if name.startswith("_Z") and not name.startswith("_ZZ")
        }

    def entry(self, index: int) -> int:
        """Returns the address of a kernel's entry point."""
        function = getattr(self._library, f"__msl_entry_{index}")
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def params(self, index: int, count: int) -> list[Param]:
        """Returns the compiler's description of a kernel's parameters."""
        return list((Param * count).in_dll(self._library, f"__msl_params_{index}"))

    def numbers(self, index: int, count: int) -> list[int]:
        """Returns a kernel's thread limit and the buffer index of every parameter."""
        return list((ctypes.c_int * (count + 1)).in_dll(self._library, f"__msl_numbers_{index}"))

    def threadgroup_variables(self, index: int) -> list[tuple[int, int]]:
        """Returns (address, size) of every threadgroup variable of a kernel."""
        prefix = self._function(index)
        prefix = f"_ZZ{prefix[2:]}E"
        return [
            (self.base + symbol.address, symbol.size)
            for symbol in self._threadgroup_symbols()
            if symbol.name.startswith(prefix)
        ]

    def stray_threadgroup_variables(self) -> list[str]:
        """Returns threadgroup variables that belong to no kernel."""
        count = range(len(self.kernels))
        prefixes = tuple(f"_ZZ{self._function(i)[2:]}E" for i in count)
        return [s.name for s in self._threadgroup_symbols() if not s.name.startswith(prefixes)]

    def constants(self) -> list[tuple[int, int]]:
        """Returns (start, end) of the program's own memory without threadgroup variables."""
        section = self._file.sections.get("msl_tg")
        if section is None:
            return [(self.base, self.end)]
        start = self.base + section.address
        return [(self.base, start), (start + section.size, self.end)]

    def place(self, address: int) -> str | None:
        """Returns file and line of an instruction in words, given its address in memory."""
        if self._lines is None:
            section = self._file.sections.get(".debug_line")
            self._lines = LineTable(section.data if section else b"")
        return self._lines.place(address - self.base)

    def _function(self, index: int) -> str:
        address = ctypes.c_void_p.in_dll(self._library, f"__msl_function_{index}").value or 0
        return self._names[address - self.base]

    def _threadgroup_symbols(self) -> list[Symbol]:
        section = self._file.sections.get("msl_tg")
        if section is None:
            return []
        first, last = section.address, section.address + section.size
        return [s for s in self._file.symbols.values() if s.size and first <= s.address < last]


def build(source: str, mode: Mode) -> Program:
    """Compiles a Metal source, or takes it from the cache, and loads it.

    Args:
        source: The Metal text.
        mode: What else the result depends on.

    Raises:
        SyntaxError: If the text is not valid; lines are those of ``source``.
    """
    _toolchain.runtime()
    key = hashlib.sha256(f"{_FORMAT} {_toolchain.fingerprint()} {mode}\n{source}".encode())
    target = cache_dir("shader") / f"{key.hexdigest()[:32]}.so"
    description = target.with_suffix(".json")
    if target.exists() and description.exists():
        return Program(target, _load(description))
    kernels = _compile(source, mode, target)
    with new_file(description) as temporary:
        temporary.write_text(json.dumps([asdict(kernel) for kernel in kernels]))
    return Program(target, kernels)


def _load(description: Path) -> list[KernelText]:
    kernels = []
    for fields in json.loads(description.read_text()):
        fields["parameters"] = [Parameter(**p) for p in fields["parameters"]]
        kernels.append(KernelText(**fields))
    return kernels


def _compile(source: str, mode: Mode, target: Path) -> list[KernelText]:
    expanded = _toolchain.preprocess(source, mode)
    if expanded.returncode:
        raise SyntaxError(_clean(expanded.stderr))
    text, kernels = rewrite(expanded.stdout)
    entries = "\n".join(_entry(i, kernel) for i, kernel in enumerate(kernels))
    full = f'{text}\n# 1 "{_toolchain.ENTRY_POINTS}"\n{_ANCHOR}\n{entries}\n'
    with new_file(target) as temporary:
        made = temporary.with_name(f"{temporary.name}.o")
        try:
            result = _toolchain.compile_object(full, mode, made)
            if result.returncode:
                raise SyntaxError(_clean(result.stderr))
            _toolchain.link(made, temporary)
        finally:
            made.unlink(missing_ok=True)
    return kernels


def _clean(message: str) -> str:
    lines = [line for line in message.splitlines() if not re.match(r"\d+ errors? generated", line)]
    return "\n".join(lines)[:8000]


def _entry(index: int, kernel: KernelText) -> str:
    """Returns the C++ text that describes a kernel and starts one lane of it."""
    function = f"::{kernel.expression}"
    kind = f"decltype(&{function})"
    types = [f"__msl::parameter_t<{kind}, {i}>" for i in range(len(kernel.parameters))]
    described = [f"__msl::describe<{t}>()" for t in types] or ["msl_param()"]
    numbers = [kernel.max_threads or "1024"]
    numbers += [p.location if p.location is not None else "-1" for p in kernel.parameters]
    arguments = []
    for i, (parameter, t) in enumerate(zip(kernel.parameters, types, strict=True)):
        if parameter.builtin is not None:
            arguments.append(f"__msl::builtin::{parameter.builtin}<{t}>()")
        else:
            arguments.append(f"__msl::bound<{t}>::get(b[{i}])")
    unchecked = "__attribute__((MSL_UNCHECKED, nodebug))"
    return f"""
{_VISIBLE} const void* const __msl_function_{index} = (const void*)(&{function});
{_VISIBLE} constexpr msl_param __msl_params_{index}[] = {{{", ".join(described)}}};
{_VISIBLE} constexpr int __msl_numbers_{index}[] = {{{", ".join(f"({n})" for n in numbers)}}};
{_VISIBLE} {unchecked} void __msl_entry_{index}(void* const* b) {{
  {function}({", ".join(arguments)});
}}"""
