"""Tokens of the preprocessed text, each with the line of the source it came from."""

from __future__ import annotations

import re
from typing import NamedTuple

from mps_emulator.check._source import INPUT, Source

_TOKEN = re.compile(
    r"""[A-Za-z_]\w*|\.?\d(?:[eEpP][-+]|[\w.])*|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
    r"""|::|->|<<=|>>=|&&|\|\||[-+*/%&|^!=<>]=|\+\+|--|<<|[^\s]"""
)
_MARKER = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)"(.*)')
_OPENING = {"(": ")", "[": "]", "{": "}"}


class Token(NamedTuple):
    """A word of the source."""

    text: str
    file: str
    line: int

    @property
    def is_word(self) -> bool:
        """Whether it is an identifier or a keyword."""
        return self.text[0].isalpha() or self.text[0] == "_"


def tokenize(preprocessed: str, source: Source) -> list[Token]:
    """Split clang's preprocessed text; directives that stay in it (pragmas) are left out."""
    tokens = []
    file, number, system = source.name, 1, False
    for line in preprocessed.split("\n"):
        marker = _MARKER.match(line)
        if marker:
            number = int(marker[1])
            system = " 3" in marker[3] or marker[2].startswith("<built-in")
            file = source.name if marker[2] == INPUT else marker[2]
            continue
        if not system and not line.lstrip().startswith("#"):
            tokens += [Token(word, file, number) for word in _TOKEN.findall(line)]
        number += 1
    return tokens


def closing(tokens: list[Token], start: int) -> int:
    """Index of the bracket that closes the one at ``start``; the end when it is missing."""
    depth = 0
    for index in range(start, len(tokens)):
        text = tokens[index].text
        if text in _OPENING:
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def split_commas(tokens: list[Token]) -> list[list[Token]]:
    """Split at commas outside brackets and template arguments."""
    pieces: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.text in ("(", "[", "{", "<"):
            depth += 1
        elif token.text in (")", "]", "}", ">"):
            depth -= 1
        if token.text == "," and depth == 0:
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [piece for piece in pieces if piece]
