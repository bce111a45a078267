"""Tokens of preprocessed Metal text, each with its line in the source."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._toolchain import SOURCE_NAME

_TOKEN = re.compile(
    r"""
    (?P<directive>^[ \t]*\#[^\n]*)
  | (?P<space>\s+)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<char>'(?:[^'\\\n]|\\.)*')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[0-9a-zA-Z_.'])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark>->\*|<<=|->|::|\+\+|--|<<|[-+*/%&|^<>=!]=|&&|\|\||.)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
LINE_MARKER = re.compile(r'\s*#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)"')


@dataclass
class Token:
    """One token; the rewriter changes ``text`` in place.

    Args:
        kind: directive, space, string, char, number, name or mark.
        text: The characters.
        line: Line in the file that ``file`` names.
        file: The file that the preprocessor read it from.
    """

    kind: str
    text: str
    line: int
    file: str

    def blank(self) -> None:
        """Removes the token but keeps its line breaks."""
        self.text = " " + "\n" * self.text.count("\n")


def tokenize(text: str) -> list[Token]:
    """Splits preprocessed text; line markers set the lines of what follows.

    ``>`` is always a token of its own, so that two closing template brackets are two tokens.
    """
    tokens = []
    line, file = 1, SOURCE_NAME
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "mark"
        piece = match.group()
        tokens.append(Token(kind, piece, line, file))
        if kind == "directive" and (marker := LINE_MARKER.match(piece)):
            line, file = int(marker.group(1)) - 1, marker.group(2)  # the line break adds one
        line += piece.count("\n")
    return tokens
