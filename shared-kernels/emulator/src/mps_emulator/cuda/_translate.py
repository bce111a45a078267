"""From Metal text to CUDA C++, on the same lines.

The executor's lexer and parser find the kernels and take out what only Metal understands; what is
left is C++ that NVIDIA's compiler takes with the headers beside this file. Lines keep their file
and number, so its messages are about the Metal text.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mps_emulator.device._build import cxx
from mps_emulator.shader._cursor import Cursor
from mps_emulator.shader._duplicates import drop_duplicates
from mps_emulator.shader._kernels import KernelText, syntax_error
from mps_emulator.shader._lexer import LINE_MARKER, Token, tokenize
from mps_emulator.shader._parse import find_kernels
from mps_emulator.shader._rewrite import (
    FP_PRAGMA,
    mark_threadgroup_variables,
    refuse_names,
    suffix_number,
)
from mps_emulator.shader._toolchain import METAL_HEADERS, SOURCE_NAME, Mode

# Bytes by value that an entry point has room for, all buffers together.
VALUE_BYTES = 2048
_HEADERS = ("metal_types", "metal_math", "metal_simd", "metal_entry")
_UNKNOWN = re.compile(
    r"(packed_)?(half|bfloat)[234]?|float[234]x[234]|half[234]x[234]|(texture|depth)\w*|sampler|"
    r"quad_\w+|quadgroup_\w+|simdgroup_(float|half|bfloat|matrix|load|store|multiply)\w*|"
    r"visible_function_table|imageblock\w*|atomic_thread_fence"
)
CALLS = "__msl_calls"  # the variable that counts
_COUNT = f"atomicAdd(&::{CALLS}, 1ull)"
_SWIZZLE = re.compile(r"[xyzw]{2,4}")
_LOOP_HINTS = {
    "#pragma clang loop unroll(full)": "#pragma unroll",
    "#pragma clang loop unroll(enable)": "#pragma unroll",
    "#pragma clang loop unroll(disable)": "#pragma unroll 1",
}


@dataclass(frozen=True)
class Translation:
    """A Metal text as CUDA C++.

    Args:
        text: What stands between the headers and the entry points.
        kernels: The kernels in it.
        contracts: Whether the text leaves it to the mode to fuse a multiplication and an addition.
        approximates: Whether it leaves it to the mode to divide and take roots inexactly.
    """

    text: str
    kernels: list[KernelText]
    contracts: bool
    approximates: bool

    def counting(self, names: Sequence[str]) -> Translation:
        """Returns the same text, with every call of these functions counted.

        Args:
            names: Functions of the text; those that it does not have are left out.
        """
        text = self.text
        for name in names:
            text = re.sub(rf"(\b{name}\s*\([^;{{}}()]*\)\s*{{)", rf"\1 {_COUNT};", text)
        return replace(self, text=text)

    def program(self, *, whole: bool, by_value: bool) -> str:
        """Returns the whole text for the compiler.

        Args:
            whole: Every simdgroup has all its lanes.
            by_value: Buffers in constant memory come by value, not as pointers.
        """
        entries = "\n".join(_entry(i, k, by_value) for i, k in enumerate(self.kernels))
        head = f"#define MSL_WHOLE {int(whole)}\n{_headers()}"
        if _COUNT in self.text:
            head = f'extern "C" {{ __device__ unsigned long long {CALLS}; }}\n{head}'
        return f'{head}{self.text}\n}}  // namespace metal\n#line 1 "entry_points"\n{entries}\n'


def translate(source: str, mode: Mode) -> Translation:
    """Translates a Metal text.

    Args:
        source: The text.
        mode: Fast math or safe math, and the language version.

    Raises:
        SyntaxError: If the text is not valid, or uses what this translation does not know.
    """
    tokens = tokenize(_preprocess(source, mode))
    cursor = Cursor(tokens)
    kernels = find_kernels(cursor)
    pragmas: set[tuple[str, str]] = set()
    for token in tokens:
        if token.kind == "directive":
            _directive(token, pragmas)
        elif token.kind == "number":
            suffix_number(token)
            if token.text.endswith("f16") or token.text.startswith("((bfloat)"):
                raise _not_here(token.line, "half precision")
    refuse_names(cursor)
    _refuse_unknown(cursor)
    drop_duplicates(cursor)
    _swizzles(cursor)
    mark_threadgroup_variables(cursor)
    text = "".join(token.text for token in tokens)
    return Translation(
        text,
        kernels,
        contracts=("contract", "off") not in pragmas,
        approximates=("math_mode", "safe") not in pragmas,
    )


def entry_name(index: int, kernel: KernelText) -> str:
    """Returns the name of a kernel's entry point in the binary."""
    return f"{re.sub(r'[^A-Za-z0-9]', '_', kernel.name)}_{index}"


def value_bytes(kernel: KernelText) -> int:
    """Returns the bytes that each buffer of a kernel in constant memory has room for by value."""
    count = sum(parameter.space == "constant" for parameter in kernel.parameters)
    return VALUE_BYTES // max(1, count) // 16 * 16


@functools.cache
def _headers() -> str:
    folder = Path(__file__).parent / "headers"
    return "".join(
        f'#line 1 "{name}.cuh"\n{(folder / f"{name}.cuh").read_text(encoding="ascii")}'
        for name in _HEADERS
    )


def _preprocess(source: str, mode: Mode) -> str:
    standard = "-std=c++17" if mode.metal_version >= 400 else "-std=c++14"
    with tempfile.TemporaryDirectory(prefix="mps-emulator-") as folder:
        for name in METAL_HEADERS:
            (Path(folder) / name).touch()
        flags = ("-x", "c++", "-E", standard, "-nostdinc", "-undef", "-w", *mode.defines())
        result = subprocess.run(
            [*cxx(), *flags, "-isystem", folder, "-"],
            input=f'# 1 "{SOURCE_NAME}"\n{source}',
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode:
        raise SyntaxError(result.stderr[:8000])
    return result.stdout


def _directive(token: Token, pragmas: set[tuple[str, str]]) -> None:
    """Line markers and pragmas in the form that the compiler reads."""
    if marker := LINE_MARKER.match(token.text):
        line, file = marker.groups()
        token.text = "" if file.startswith("<") else f'#line {line} "{file}"'
    elif match := FP_PRAGMA.match(token.text):
        what, value = match.groups()
        known = {"contract": ("off", "on", "fast"), "math_mode": ("safe", "fast", "relaxed")}
        if value not in known.get(what, ()):
            raise syntax_error(token.line, f"unknown pragma 'METAL fp {what}({value})'")
        pragmas.add((what, value))
        token.text = ""
    else:
        plain = " ".join(token.text.replace("# ", "#").split())
        token.text = _LOOP_HINTS.get(plain, token.text)


def _refuse_unknown(cursor: Cursor) -> None:
    for i, text in enumerate(cursor.texts):
        member = cursor.text(i - 1) in (".", "->")
        if cursor.tokens[i].kind == "name" and not member and _UNKNOWN.fullmatch(text):
            raise _not_here(cursor.line(i), f"'{text}'")


def _not_here(line: int, what: str) -> SyntaxError:
    return syntax_error(
        line, f"{what} is not translated to CUDA; the executor (mps_emulator.install) may know it"
    )


def _swizzles(cursor: Cursor) -> None:
    """``v.zyx`` reads components; to write some of them is not supported."""
    for i, text in enumerate(cursor.texts):
        if cursor.text(i - 1) != "." or not _SWIZZLE.fullmatch(text) or cursor.text(i + 1) == "(":
            continue
        places = ", ".join(str("xyzw".index(component)) for component in text)
        cursor.tokens[i].text = f"pick(::__msl::at<{places}>())"


def _entry(index: int, kernel: KernelText, by_value: bool) -> str:
    """Returns the entry point of a kernel and the description of its parameters."""
    function = f"::metal::{kernel.expression}"
    kind = f"decltype(&{function})"
    limit = kernel.max_threads or "1024"
    declared = ["const __grid_constant__ ::__msl::grid g"]
    arguments, described = [], []
    for i, parameter in enumerate(kernel.parameters):
        t = f"::__msl::parameter_t<{kind}, {i}>"
        described.append(f"::__msl::describe<{t}>::value")
        if parameter.builtin is not None:
            arguments.append(f"::__msl::builtin::{parameter.builtin}<{t}>(g)")
        elif by_value and parameter.space == "constant":
            size = value_bytes(kernel)
            declared.append(f"const __grid_constant__ ::__msl::bytes<{size}> b{i}")
            arguments.append(f"::__msl::bound<{t}>::get(&b{i})")
        else:
            declared.append(f"void* const b{i}")
            arguments.append(f"::__msl::bound<{t}>::get(b{i})")
    locations = [p.location if p.location is not None else "-1" for p in kernel.parameters]
    numbers = ", ".join(f"int({number})" for number in [limit, *locations])
    name = entry_name(index, kernel)
    table = ", ".join(described) or "{}"
    return f"""
extern "C" {{
__device__ extern const ::__msl::description {name}_parameters[] = {{{table}}};
__device__ extern const int {name}_numbers[] = {{{numbers}}};
__global__ void __launch_bounds__({limit}) {name}({", ".join(declared)}) {{
  if (::__msl::is_outside(g)) return;
  {function}({", ".join(arguments)});
}}
}}"""
