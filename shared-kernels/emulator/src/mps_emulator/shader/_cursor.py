"""Walking over significant tokens: brackets, statements, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._kernels import syntax_error
from ._lexer import Token

_OPEN = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Attribute:
    """``[[name(argument)]]`` at the significant tokens ``start`` to ``end`` (exclusive)."""

    name: str
    argument: str | None
    line: int
    start: int
    end: int


class Cursor:
    """The significant tokens of a text: no space, no directives.

    Args:
        tokens: All tokens of the text.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = [t for t in tokens if t.kind not in ("space", "directive")]
        self.texts = [t.text for t in self.tokens]  # as they were, whatever is rewritten
        self._closing = self._match_brackets()

    def __len__(self) -> int:
        return len(self.texts)

    def text(self, at: int) -> str:
        """Returns the token at an index, or "" beyond either end."""
        return self.texts[at] if 0 <= at < len(self.texts) else ""

    def line(self, at: int) -> int:
        """Returns the source line of the token at an index."""
        return self.tokens[min(at, len(self.tokens) - 1)].line if self.tokens else 1

    def file(self, at: int) -> str:
        """Returns the file of the token at an index, as ``#line`` directives name it."""
        return self.tokens[at].file

    def _match_brackets(self) -> dict[int, int]:
        closing: dict[int, int] = {}
        stack: list[int] = []
        for i, text in enumerate(self.texts):
            if self.tokens[i].kind != "mark":
                continue
            if text in _OPEN:
                stack.append(i)
            elif text in ")]}":
                if not stack or _OPEN[self.texts[stack[-1]]] != text:
                    raise syntax_error(self.line(i), f"extraneous closing bracket ('{text}')")
                closing[stack.pop()] = i
        if stack:
            last = stack[-1]
            raise syntax_error(
                self.line(last), f"expected '{_OPEN[self.texts[last]]}' to match this bracket"
            )
        return closing

    def close(self, at: int) -> int:
        """Returns the index of the bracket that closes the one at ``at``."""
        return self._closing[at]

    def close_angle(self, at: int) -> int:
        """Returns the index of the ``>`` that closes the ``<`` at ``at``, or -1."""
        depth = 0
        i = at
        while i < len(self.texts):
            text = self.texts[i]
            if text in _OPEN:
                i = self.close(i)
            elif text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
                if depth == 0:
                    return i
            elif text in (";", "}"):
                return -1
            i += 1
        return -1

    def join(self, start: int, end: int) -> str:
        """Returns the text of the tokens from ``start`` to ``end`` (exclusive)."""
        return " ".join(self.texts[start:end])

    def blank(self, start: int, end: int) -> None:
        """Removes the tokens from ``start`` to ``end`` (exclusive)."""
        for token in self.tokens[start:end]:
            token.blank()

    def statement_start(self, at: int) -> int:
        """Returns the first token of the statement or declaration that holds ``at``."""
        i = at
        while i > 0 and self.texts[i - 1] not in (";", "}", "{"):
            i -= 1
        return i

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """Splits a range at its outermost commas; an empty range gives no parts."""
        parts = []
        first = i = start
        depth = 0
        while i < end:
            text = self.texts[i]
            if text in _OPEN:
                i = self.close(i)
            elif text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
            elif text == "," and depth <= 0:
                parts.append((first, i))
                first = i + 1
            i += 1
        if first < end:
            parts.append((first, end))
        return parts

    def attributes(self, start: int, end: int) -> list[Attribute]:
        """Returns the attributes between ``start`` and ``end``, several in one pair included."""
        found = []
        i = start
        while i < end:
            if self.texts[i] == "[" and self.text(i + 1) == "[":
                close = self.close(i)
                for first, last in self.split(i + 2, close - 1):
                    name = self.texts[first]
                    while self.text(first + 1) == "::" and first + 2 < last:
                        first += 2
                        name = self.texts[first]
                    argument = None
                    if self.text(first + 1) == "(":
                        argument = self.join(first + 2, self.close(first + 1))
                    found.append(Attribute(name, argument, self.line(first), i, close + 1))
                i = close
            i += 1
        return found
