"""The text of a shader before it is compiled: physical lines, ``#line`` and includes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mps_emulator.check._problem import Problem

# Name of the text in what clang writes; it reads from a pipe.
INPUT = "<stdin>"

# fmt: off
_PARTS = (
    "algorithm", "array", "atomic", "common", "compute", "config", "extended_vector", "geometric",
    "integer", "limits", "math", "matrix", "numeric", "pack", "packed", "relational", "simdgroup",
    "stdlib", "types", "type_traits", "uniform",
)
# fmt: on
# Headers of the Metal standard library; one set of declarations stands for all of them.
METAL_HEADERS = frozenset(["simd/simd.h", *(f"metal_{part}" for part in _PARTS)])

_LINE = re.compile(r'\s*#\s*line\s+(\d+)(?:\s+"((?:[^"\\]|\\.)*)")?')
_INCLUDE = re.compile(r'\s*#\s*(?:include|import)\s*[<"]([^>"]*)[>"]')
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
# Spellings that clang does not know, with replacements of equal length so that columns stay.
_SPELLINGS = (
    (re.compile(r"\bMETAL(?=\s+fp\s+contract\b)"), "clang"),
    (re.compile(r"\[\[kernel\]\]"), "kernel    "),
    (re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?)bf\b"), r"\1f "),
)


@dataclass
class Source:
    """A shader's text, and the file and line that each physical line stands for."""

    name: str
    text: str
    lines: list[str] = field(init=False)
    places: list[tuple[str, int]] = field(init=False)
    _physical: dict[tuple[str, int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.text.split("\n")
        self.places = []
        file, number = self.name, 1
        for line in self.lines:
            self.places.append((file, number))
            number += 1
            directive = _LINE.match(line)
            if directive:
                number = int(directive[1])
                file = directive[2] or file
        self._physical = {}
        for index, place in enumerate(self.places):
            self._physical.setdefault(place, index)

    def column(self, file: str, line: int, word: str) -> int:
        """Column of ``word`` in a line before macros, or 1 when it is not spelt there."""
        index = self._physical.get((file, line))
        if index is None:
            return 1
        match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", self.lines[index])
        return match.start() + 1 if match else 1

    def at(self, index: int, column: int, message: str, rule: str) -> Problem:
        """An error in a physical line (from 0)."""
        file, line = self.places[index]
        return Problem("error", line, column, message, rule, file)

    def check_text(self) -> Iterator[Problem]:
        """Rules on the bytes: ASCII and includes."""
        for index, line in enumerate(self.lines):
            for column, character in enumerate(line, 1):
                if not character.isascii():
                    message = (
                        f"character {character!r} is not ASCII; torch hands the source to Metal "
                        "as ASCII text, so keep comments ASCII as well"
                    )
                    yield self.at(index, column, message, "ascii")
                    break
        for index, line in enumerate(_without_comments(self.text).split("\n")):
            include = _INCLUDE.match(line)
            if include and include[1] not in METAL_HEADERS:
                message = (
                    f"#include of {include[1]!r}: torch.mps.compile_shader takes one text; include "
                    "<metal_stdlib> only and join other text in Python"
                )
                yield self.at(index, self.lines[index].index("#") + 1, message, "include")

    @property
    def includes_library(self) -> bool:
        """Whether the text includes any header of the Metal standard library."""
        lines = _without_comments(self.text).split("\n")
        found = (_INCLUDE.match(line) for line in lines)
        return any(match and match[1] in METAL_HEADERS for match in found)

    def for_clang(self, defines: Mapping[str, str]) -> str:
        """The text with includes blanked and Metal's spellings replaced, line for line."""
        lines = _without_comments(self.text).split("\n")
        kept = [
            "" if _INCLUDE.match(plain) else line
            for line, plain in zip(self.lines, lines, strict=True)
        ]
        text = "\n".join(kept)
        for pattern, replacement in _SPELLINGS:
            text = pattern.sub(replacement, text)
        macros = "".join(f"#define {name} {value}\n" for name, value in defines.items())
        return f'{macros}#line 1 "{INPUT}"\n{text}\n'


def _without_comments(text: str) -> str:
    """Comments become spaces; strings and line breaks stay."""

    def blank(match: re.Match[str]) -> str:
        piece = match[0]
        return piece if piece.startswith('"') else re.sub(r"[^\n]", " ", piece)

    return _COMMENT.sub(blank, text)
