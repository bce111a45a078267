"""clang's messages as problems, in the shader's own lines and Metal's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mps_emulator.check._clang import SHIM
from mps_emulator.check._problem import Problem, Severity
from mps_emulator.check._source import INPUT, Source

# clang's message or flag -> our rule, first match wins.
_RULES = (
    (r"variable cannot have an initializer", "threadgroup-initializer"),
    (r"call to deleted function '(simd|quad)_", "simd-type"),
    (r"call to deleted function 'atomic_|atomic_\w+_explicit'|memory_order_relaxed", "atomic"),
    (
        r"function variable cannot be declared in local|outermost scope of a ker",
        "threadgroup-scope",
    ),
    (r"(program scope|static local) variable must reside", "program-scope"),
    (r"pointer arguments to kernel|address space|__(global|local|private)\b", "address-space"),
    (r"read-only variable is not assignable|const-qualified", "write-to-constant"),
    (r"cl_khr_fp64", "double"),
    (r"as_type needs", "as-type"),
    (r"needs Metal \d", "metal-version"),
    (r"kernel function.*template", "template-kernel"),
)
# Flags that are reported as errors, and the rule they stand for.
_STRICT_FLAGS = {
    "uninitialized": "uninitialized",
    "sometimes-uninitialized": "uninitialized",
    "return-type": "return-type",
    "pre-c++17-compat": "cxx17",
    "c++17-extensions": "cxx17",
}
_RENAMED_FLAGS = {"conditional-uninitialized": "uninitialized", "shorten-64-to-32": "narrowing"}
_ADVICE = {
    "simd-type": "Metal has no such simdgroup function for bool and 64-bit integers; "
    "pass uint, or two 32-bit halves through as_type<uint2>",
    "double": "Metal has no double; write float, and `f` after literals",
    "cxx17": "Metal 3.1 is C++14",
}
_WORDS = (
    (r"static assertion failed[^:]*: ", ""),
    (r"'__private'", "'thread'"),
    (r" ?\b__(?:private|generic)\b(?=')", ""),
    (r"\b__(?:private|generic) ?", ""),
    (r"\b__global\b", "device"),
    (r"\b__local\b", "threadgroup"),
    (r"\b__constant\b", "constant"),
    (r"\bmetal::shim_make(\d)<(\w+)>", r"\2\1"),
    (r"\bshim_make(\d)\b", r"vector constructor of \1 components"),
    (r"\bmetal::packed_vec(\d)<(\w+)>", r"packed_\2\1"),
    (r"\blocal address space", "threadgroup address space"),
    (r"metal_name_", ""),
    (r"\b__bf16\b", "bfloat"),
)
_DIAGNOSTIC = re.compile(
    r"^(?P<file>.*?):(?P<line>\d+):(?P<column>\d+): "
    r"(?P<kind>fatal error|error|warning|note): (?P<text>.*?)(?: \[-W(?P<flag>[^\]]+)\])?$"
)


# Copying a structure out of constant memory: legal in Metal.
_COPY = re.compile(r"no matching constructor for initialization of|no viable overloaded '='")
_COPY_NOTE = re.compile(r"the implicit copy .*'__constant' to object in address space")


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning with its notes."""

    record: re.Match[str]
    notes: tuple[re.Match[str], ...]

    @property
    def is_error(self) -> bool:
        """Whether clang calls it an error."""
        return "error" in self.record["kind"]

    @property
    def is_constant_copy(self) -> bool:
        """Whether it is OpenCL's refusal to copy a structure out of constant memory."""
        return bool(_COPY.match(self.record["text"])) and any(
            _COPY_NOTE.search(note["text"]) for note in self.notes
        )


def read_diagnostics(messages: str) -> list[Diagnostic]:
    """Group what clang wrote by error and warning."""
    found: list[Diagnostic] = []
    for line in messages.splitlines():
        record = _DIAGNOSTIC.match(line)
        if record is None:
            continue
        if record["kind"] != "note":
            found.append(Diagnostic(record, ()))
        elif found:
            last = found.pop()
            found.append(Diagnostic(last.record, (*last.notes, record)))
    return found


def as_problems(
    diagnostics: list[Diagnostic], source: Source, shared: frozenset[tuple[str, str, int]]
) -> Iterator[Problem]:
    """Diagnostics as problems.

    Args:
        diagnostics: What clang said.
        source: The shader.
        shared: ``(name, file, line)`` of threadgroup variables: another thread may set those, so
            clang's "uninitialised" says nothing about them.
    """
    for diagnostic in diagnostics:
        problem = _problem(diagnostic.record, diagnostic.notes, source, shared)
        if problem:
            yield problem


def _problem(
    record: re.Match[str],
    notes: tuple[re.Match[str], ...],
    source: Source,
    shared: frozenset[tuple[str, str, int]],
) -> Problem | None:
    flag = record["flag"] or ""
    flag = flag.split(",")[0]
    if "uninitialized" in flag:
        variable = re.search(r"'(\w+)'", record["text"])
        declared = [(_file(note, source), int(note["line"])) for note in notes]
        if variable and any((variable[1], *place) in shared for place in declared):
            return None
    place = record
    if _in_shim(record):
        place = next((note for note in notes if not _in_shim(note)), record)
    rule = _STRICT_FLAGS.get(flag) or _RENAMED_FLAGS.get(flag) or flag or _rule(record, notes)
    severity: Severity = "warning" if flag and flag not in _STRICT_FLAGS else "error"
    message = _translate(record["text"])
    detail = next((n["text"] for n in notes if "candidate function" in n["text"]), "")
    if "no matching function" in message and "not viable: " in detail:
        message += ": " + _translate(detail.split("not viable: ", 1)[1])
    if rule in _ADVICE:
        message += f"; {_ADVICE[rule]}"
    line, column = int(place["line"]), int(place["column"])
    return Problem(severity, line, column, message, rule, _file(place, source))


def _rule(record: re.Match[str], notes: tuple[re.Match[str], ...]) -> str:
    texts = [record["text"]]
    if "no matching function" in record["text"]:
        texts += [note["text"] for note in notes[:1]]
    for pattern, rule in _RULES:
        if any(re.search(pattern, text) for text in texts):
            return rule
    return "compile"


def _in_shim(record: re.Match[str]) -> bool:
    return record["file"].startswith(str(SHIM)) or record["file"].startswith("<scratch")


def _file(record: re.Match[str], source: Source) -> str:
    return source.name if record["file"] == INPUT else record["file"]


def _translate(text: str) -> str:
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    return text
