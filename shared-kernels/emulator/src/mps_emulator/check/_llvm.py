"""What only the compiled form shows: threadgroup memory and unprotected float arithmetic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mps_emulator.check._parse import Kernel
from mps_emulator.check._problem import Problem, Severity
from mps_emulator.check._source import Source

THREADGROUP_LIMIT = 32 * 1024

# A threadgroup variable of kernel `k` is mangled `_ZZ1kE...`, in a namespace `_ZZN2ns1kEE...`.
_GLOBAL = re.compile(
    r"^@_ZZ(?P<owner>N?\d\w*) = .*?addrspace\(3\) global (?P<type>.+?) undef, align (?P<align>\d+)",
    re.MULTILINE,
)
_STRUCT = re.compile(r'^(%"?[^"=]+"?) = type (.+)$', re.MULTILINE)
_ARITHMETIC = re.compile(r"= (?:fmul|fadd|fsub)\b[^!]*\bcontract\b.*?!dbg (?P<location>!\d+)")
_LOCATION = re.compile(
    r"^(!\d+) = !DILocation\(line: (\d+)(?:, column: (\d+))?, scope: (!\d+)", re.MULTILINE
)
_SCOPE = re.compile(
    r"^(!\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock\w*)\((.*)\)$", re.MULTILINE
)
_FILE = re.compile(r'^(!\d+) = !DIFile\(filename: "([^"]*)"', re.MULTILINE)


def check_threadgroup_memory(ir: str, kernels: list[Kernel], source: Source) -> Iterator[Problem]:
    """A kernel whose threadgroup variables exceed 32 KB."""
    sizes = threadgroup_bytes(ir)
    for kernel in kernels:
        size = sizes.get(kernel.name.text, 0)
        if size > THREADGROUP_LIMIT:
            message = (
                f"kernel {kernel.name.text!r} declares {size} bytes of threadgroup memory; a "
                f"threadgroup has {THREADGROUP_LIMIT}"
            )
            token = kernel.name
            column = source.column(token.file, token.line, token.text)
            yield Problem("error", token.line, column, message, "threadgroup-memory", token.file)


def threadgroup_bytes(ir: str) -> dict[str, int]:
    """Bytes of threadgroup memory by kernel, alignment gaps included."""
    layout = _Layout(dict(_STRUCT.findall(ir)))
    totals: dict[str, int] = {}
    for match in _GLOBAL.finditer(ir):
        size, _ = layout.measure(match["type"])
        kernel = _kernel_name(match["owner"])
        start = _round_up(totals.get(kernel, 0), int(match["align"]))
        totals[kernel] = start + size
    return totals


def check_contraction(ir: str, source: Source, required: bool) -> Iterator[Problem]:
    """The first float operation of each function that ``fp contract(off)`` does not cover."""
    locations = {m[1]: (int(m[2]), int(m[3] or 1), m[4]) for m in _LOCATION.finditer(ir)}
    scopes = {m[1]: m[2] for m in _SCOPE.finditer(ir)}
    files = {m[1]: m[2] for m in _FILE.finditer(ir)}
    severity: Severity = "error" if required else "warning"
    seen: set[tuple[str, int]] = set()
    for function in ir.split("\ndefine ")[1:]:
        places = []
        for match in _ARITHMETIC.finditer(function.split("\n}\n", 1)[0]):
            if match["location"] in locations:
                line, column, scope = locations[match["location"]]
                file = re.search(r"file: (!\d+)", scopes.get(scope, ""))
                places.append((files.get(file[1], "") if file else "", line, column))
        if not places:
            continue
        name, line, column = min(places)
        name = source.name if name in ("", "-", "<stdin>") else name
        if (name, line) in seen:
            continue
        seen.add((name, line))
        message = (
            "float arithmetic that Metal may contract to fused steps, which round differently; "
            "write `#pragma METAL fp contract(off)` after the includes"
        )
        yield Problem(severity, line, column, message, "fp-contract", name)


def _kernel_name(owner: str) -> str:
    name = ""
    rest = owner.removeprefix("N")
    while match := re.match(r"\d+", rest):
        end = match.end() + int(match[0])
        name, rest = rest[match.end() : end], rest[end:]
    return name


def _round_up(size: int, align: int) -> int:
    return -(-size // align) * align


@dataclass
class _Layout:
    """Sizes of LLVM types under the data layout of spir64."""

    structs: dict[str, str]

    def measure(self, text: str) -> tuple[int, int]:
        """Size and alignment of a type."""
        text = text.strip()
        if text.startswith("["):
            count, element = text[1:-1].split(" x ", 1)
            size, align = self.measure(element)
            return int(count) * _round_up(size, align), align
        if text.startswith("<{"):
            return sum(self.measure(part)[0] for part in _parts(text[2:-2])), 1
        if text.startswith("<"):
            count, element = text[1:-1].split(" x ", 1)
            size = int(count) * self.measure(element)[0]
            size = 1 << (size - 1).bit_length()  # three components take the room of four
            return size, size
        if text.startswith("{"):
            return self._struct(text[1:-1])
        if text.startswith("%"):
            return self.measure(self.structs[text])
        size = 8 if text.startswith("ptr") else _SCALAR_BYTES[text]
        return size, size

    def _struct(self, body: str) -> tuple[int, int]:
        size, largest = 0, 1
        for part in _parts(body):
            bytes_, align = self.measure(part)
            size = _round_up(size, align) + bytes_
            largest = max(largest, align)
        return _round_up(size, largest), largest


_SCALAR_BYTES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "half": 2,
    "bfloat": 2,
    "float": 4,
}


def _parts(body: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, character in enumerate(body):
        depth += character in "<[{("
        depth -= character in ">]})"
        if character == "," and depth == 0:
            parts.append(body[start:index])
            start = index + 1
    tail = body[start:].strip()
    return [*parts, tail] if tail else parts
