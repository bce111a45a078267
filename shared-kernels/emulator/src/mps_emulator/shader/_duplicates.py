"""Overloads that differ in address spaces alone, which are erased here."""

from __future__ import annotations

from ._cursor import Cursor

_ERASED = frozenset({"device", "threadgroup", "thread"})


def drop_duplicates(cursor: Cursor) -> None:
    """Removes a function whose twin for another address space has the same text otherwise.

    Two that differ in more than address spaces stay, and the compiler refuses the second; so does
    it a plain repetition.

    Args:
        cursor: The significant tokens of the text.
    """
    seen: dict[tuple[str, ...], list[str]] = {}
    scopes: list[int] = []
    i = 0
    while i < len(cursor):
        if cursor.texts[i] == "{":
            start, close = cursor.statement_start(i), cursor.close(i)
            if _is_function(cursor, start, i):
                text = cursor.texts[start : close + 1]
                key = (*map(str, scopes), *_erased(text))
                if seen.setdefault(key, text) != text:
                    cursor.blank(start, close + 1)
                i = close
            else:
                scopes.append(close)
        elif scopes and i == scopes[-1]:
            scopes.pop()
        i += 1


def _is_function(cursor: Cursor, start: int, brace: int) -> bool:
    last = brace - 1
    while cursor.text(last) in ("const", "noexcept"):
        last -= 1
    head = cursor.texts[start:brace]
    return cursor.text(last) == ")" and "kernel" not in head


def _erased(texts: list[str]) -> list[str]:
    """Returns the tokens as the compiler will see them: without spaces, each const once."""
    kept: list[str] = []
    for text in texts:
        plain = "const" if text == "constant" else text
        if plain not in _ERASED and not (plain == "const" and kept[-1:] == ["const"]):
            kept.append(plain)
    return kept
