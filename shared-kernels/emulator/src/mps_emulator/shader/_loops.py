"""Counts the iterations of loops in which lanes meet.

``for (...) body`` becomes ``if (loop l{}) {} else for (...) if (l.next()) {} else body``: the
object links itself to the lane's other loops and a meeting point tells their counts apart. Nothing
else changes: neither ``break``, ``continue`` and ``return`` nor what an ``else`` belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._cursor import Cursor
from ._lexer import Token

_ENTER = "if (::__msl::loop __msl_loop{}) {} else "
_NEXT = " if (__msl_loop.next()) {} else "
_KEYWORDS = frozenset({"if", "for", "while", "switch", "return", "sizeof", "alignof", "decltype"})
_QUALIFIERS = frozenset({"const", "noexcept", "thread", "device", "constant", "threadgroup"})


def count_iterations(cursor: Cursor, tokens: Sequence[Token]) -> None:
    """Adds counters to every loop that holds a meeting point or a call that leads to one.

    Args:
        cursor: The significant tokens of the text.
        tokens: All tokens of the text.
    """
    meeting = _meeting_names(cursor)
    ends_do: set[int] = set()
    entered = []
    for i, text in enumerate(cursor.texts):
        if text not in ("for", "while", "do") or cursor.tokens[i].kind != "name" or i in ends_do:
            continue
        try:
            if text == "do":
                body_end = _statement_end(cursor, i + 1)
                ends_do.add(body_end)
                head_end, end = i, cursor.close(body_end + 1) + 1
            else:
                head_end = cursor.close(i + 1)
                end = _statement_end(cursor, head_end + 1)
        except KeyError:  # no brackets where a loop has them: the compiler will say so
            continue
        if not any(name in meeting for name in cursor.texts[i:end]):
            continue
        cursor.tokens[i].text = _ENTER + cursor.tokens[i].text
        cursor.tokens[head_end].text += _NEXT
        entered.append(cursor.tokens[i])
    _drop_hints(tokens, entered)


def _drop_hints(tokens: Sequence[Token], entered: Sequence[Token]) -> None:
    """Removes pragmas directly before counted loops: the compiler wants the loop itself there."""
    counted = {id(token) for token in entered}
    for at, token in enumerate(tokens):
        if id(token) not in counted:
            continue
        before = at - 1
        while before >= 0 and tokens[before].kind in ("space", "directive"):
            if "unroll" in tokens[before].text or "clang loop" in tokens[before].text:
                tokens[before].blank()
            before -= 1


def _statement_end(cursor: Cursor, at: int) -> int:
    """Returns the index after the statement that starts at an index."""
    text = cursor.text(at)
    if text == "{":
        return cursor.close(at) + 1
    if text in ("for", "while", "switch"):
        return _statement_end(cursor, cursor.close(at + 1) + 1)
    if text == "if":
        head = at + 2 if cursor.text(at + 1) == "constexpr" else at + 1
        end = _statement_end(cursor, cursor.close(head) + 1)
        return _statement_end(cursor, end + 1) if cursor.text(end) == "else" else end
    if text == "do":
        end = _statement_end(cursor, at + 1)  # of the body; "while (...);" follows
        return cursor.close(end + 1) + 2
    while cursor.text(at) not in (";", ""):
        at = cursor.close(at) + 1 if cursor.text(at) in ("(", "[", "{") else at + 1
    return at + 1


def _meeting_names(cursor: Cursor) -> set[str]:
    """Returns names of meeting points and of functions in whose bodies such a name stands."""
    names = {
        text
        for text, token in zip(cursor.texts, cursor.tokens, strict=True)
        if token.kind == "name" and (text.startswith("simd_") or text.endswith("group_barrier"))
    }
    bodies = [
        (name, set(cursor.texts[first : cursor.close(first)])) for name, first in _functions(cursor)
    ]
    grown = True
    while grown:
        before = len(names)
        names.update(name for name, body in bodies if not names.isdisjoint(body))
        grown = len(names) > before
    return names


def _functions(cursor: Cursor) -> list[tuple[str, int]]:
    """Returns the name and the opening brace of functions and named lambdas."""
    found = []
    for i, text in enumerate(cursor.texts):
        if text != "(":
            continue
        after = cursor.close(i) + 1
        while cursor.text(after) in _QUALIFIERS:
            after += 1
        while cursor.text(after) not in ("{", ";", "}", "", ")") and cursor.text(after - 1) != "{":
            if cursor.text(after) not in ("->", "::", "[", "*", "&", "<", ">", ",") and (
                cursor.tokens[after].kind != "name"
            ):
                break
            after = cursor.close(after) + 1 if cursor.text(after) == "[" else after + 1
        if cursor.text(after) != "{":
            continue
        name = cursor.text(i - 1)
        if name == "]":  # auto name = [...](...) {
            start = i - 1
            while start > 0 and cursor.text(start) != "[":
                start -= 1
            name = cursor.text(start - 2) if cursor.text(start - 1) == "=" else ""
        if name.isidentifier() and name not in _KEYWORDS:
            found.append((name, after))
    return found
