"""Turns Metal tokens into what clang understands as C++, on the same lines."""

from __future__ import annotations

import re

from ._cursor import Cursor
from ._duplicates import drop_duplicates
from ._kernels import KernelText, syntax_error
from ._lexer import Token, tokenize
from ._loops import count_iterations
from ._parse import find_kernels

_SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
VECTORS = frozenset(
    f"{scalar}{n}" for scalar in (*_SCALARS, "float", "half", "bfloat") for n in (2, 3, 4)
)
_FLOAT = re.compile(
    r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?(?P<suffix>\w*)"
)
_HEX_FLOAT = re.compile(r"0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+(?P<suffix>\w*)")
FP_PRAGMA = re.compile(r"\s*#\s*pragma\s+METAL\s+fp\s+(\w+)\s*\(\s*(\w+)\s*\)\s*$")
_COMPARISONS = frozenset({"==", "!=", "<=", ">=", "<", ">", "&&", "||", "!"})
_COMPONENTS = frozenset("xyzwrgba")
_PREDICATES = frozenset({"isnan", "isinf", "isfinite", "isnormal", "signbit"})
_MATH_MODES = {
    "safe": "#pragma float_control(precise, on)",
    "fast": "#pragma float_control(precise, off)",
    # Reassociation without the assumption that no NaN or infinity occurs.
    "relaxed": "#pragma clang fp reassociate(on) reciprocal(on) contract(fast)",
}


def rewrite(preprocessed: str) -> tuple[str, list[KernelText]]:
    """Returns C++ text for the compiler and the kernels that it holds.

    Args:
        preprocessed: What the preprocessor made of the Metal source.
    """
    tokens = tokenize(preprocessed)
    cursor = Cursor(tokens)
    kernels = find_kernels(cursor)
    for token in tokens:
        if token.kind == "directive":
            _directive(token)
        elif token.kind == "number":
            suffix_number(token)
    refuse_names(cursor)
    drop_duplicates(cursor)
    _constructors(cursor)
    _mask_components(cursor)
    _mask_variables(cursor)
    mark_threadgroup_variables(cursor)
    count_iterations(cursor, tokens)
    return "".join(token.text for token in tokens) + "\n", kernels


def _directive(token: Token) -> None:
    match = FP_PRAGMA.match(token.text)
    if match is None:
        return
    what, value = match.groups()
    if what == "contract" and value in ("off", "on", "fast"):
        token.text = f"#pragma clang fp contract({value})"
    elif what == "math_mode" and value in _MATH_MODES:
        token.text = _MATH_MODES[value]
    else:
        raise syntax_error(token.line, f"unknown pragma 'METAL fp {what}({value})'")


def suffix_number(token: Token) -> None:
    """Unsuffixed floating literals are float in Metal, which has no double."""
    match = _HEX_FLOAT.fullmatch(token.text) or _FLOAT.fullmatch(token.text)
    if match is None:
        return
    suffix = match["suffix"].lower()
    digits = token.text[: len(token.text) - len(suffix)]
    if suffix == "":
        token.text = f"{digits}f"
    elif suffix == "h":
        token.text = f"{digits}f16"
    elif suffix == "bf":
        token.text = f"((bfloat){digits}f)"
    elif suffix == "l":
        raise syntax_error(token.line, "'double' is not supported in Metal")


def refuse_names(cursor: Cursor) -> None:
    """Refuses what C++ would take and Metal does not."""
    for i, text in enumerate(cursor.texts):
        if cursor.tokens[i].kind != "name":
            continue
        if text == "double":
            raise syntax_error(cursor.line(i), "'double' is not supported in Metal")
        if text in ("goto", "try", "throw", "new", "delete", "virtual", "thread_local", "typeid"):
            if text == "delete" and cursor.text(i - 1) == "=":
                continue
            raise syntax_error(cursor.line(i), f"'{text}' is not supported in Metal")
        if text == "function_constant" and cursor.text(i - 1) == "[":
            raise syntax_error(
                cursor.line(i), "function constants cannot be set through compile_shader"
            )
        if text == "asm":
            raise syntax_error(cursor.line(i), "inline assembly is not supported here")


def _type_names(cursor: Cursor) -> set[str]:
    """Returns names whose call may construct a vector: template parameters and aliases."""
    names = set(VECTORS)
    for i, text in enumerate(cursor.texts):
        if text in ("typename", "class") and cursor.text(i - 1) in ("<", ","):
            if cursor.text(i + 1).isidentifier():
                names.add(cursor.text(i + 1))
        elif text == "using" and cursor.text(i + 2) == "=":
            names.add(cursor.text(i + 1))
        elif text == "typedef":
            end = i
            while cursor.text(end) not in (";", ""):
                end += 1
            if cursor.text(end - 1).isidentifier() and "{" not in cursor.texts[i:end]:
                names.add(cursor.text(end - 1))
    return names


def _constructors(cursor: Cursor) -> None:
    """``float3(...)`` and ``(float3)x`` become calls of the header's functions."""
    names = _type_names(cursor)
    for i, text in enumerate(cursor.texts):
        if text not in names or cursor.tokens[i].kind != "name":
            continue
        before, after = cursor.text(i - 1), cursor.text(i + 1)
        if after == "(" and before not in ("operator", "~", ".", "->", "using", "typename"):
            if before.isidentifier() and before not in ("return", "else", "case", "do", "in"):
                continue  # the name of something declared, as in "T x(...)"
            if cursor.text(i + 2) in ("*", "&") and cursor.text(cursor.close(i + 1) + 1) in "([":
                continue  # a pointer to a function or array, as in "T (*f)(T)"
            make = "__msl_mkb" if _is_comparison(cursor, i + 2, cursor.close(i + 1)) else "__msl_mk"
            name = cursor.tokens[i]
            if before == "::":
                name.text = f"{make}<{text}>" if cursor.text(i - 2) != "metal" else name.text
                if cursor.text(i - 2) == "metal":
                    cursor.tokens[i - 2].text = cursor.tokens[i - 1].text = ""
                    name.text = f"{make}<{text}>"
            else:
                name.text = f"{make}<{text}>"
        elif before == "(" and after == ")" and text in VECTORS and _is_cast(cursor, i):
            value = i + 2
            mask = cursor.text(value) == "(" and _is_comparison(
                cursor, value + 1, cursor.close(value)
            )
            cursor.tokens[i - 1].text = "__msl_cast<"
            cursor.tokens[i + 1].text = ", false, true>()->*" if mask else ">()->*"


def _is_comparison(cursor: Cursor, start: int, end: int) -> bool:
    """Says whether one argument is a comparison, whose true must become 1."""
    parts = cursor.split(start, end)
    if len(parts) != 1:
        return False
    i = start
    seen = False
    while i < end:
        text = cursor.texts[i]
        if text == "?":
            return False
        if text == "<" and (end_of_types := _template_end(cursor, i)) > 0:
            i = end_of_types + 1
            continue
        seen |= text in _COMPARISONS or text in _PREDICATES
        i = cursor.close(i) + 1 if text in ("(", "[", "{") else i + 1
    return seen


def _template_end(cursor: Cursor, at: int) -> int:
    """Returns the ``>`` of ``name<types>(``, or -1 where ``<`` compares."""
    if cursor.texts[at] != "<":
        return -1
    end = cursor.close_angle(at)
    if end < 0 or not cursor.text(at - 1).isidentifier() or cursor.text(end + 1) not in ("(", "::"):
        return -1
    inside = zip(cursor.texts[at:end], cursor.tokens[at:end], strict=True)
    plain = all(t.kind in ("name", "number") or text in "<>,::*" for text, t in inside)
    return end if plain else -1


def _mask_variables(cursor: Cursor) -> None:
    """``auto m = a < b;`` declares bools, not the compiler's mask."""
    for i, text in enumerate(cursor.texts):
        if text != "auto" or cursor.text(i + 2) != "=" or not cursor.text(i + 1).isidentifier():
            continue
        end = i + 3
        while cursor.text(end) not in (";", ",", ")", ""):
            end = cursor.close(end) + 1 if cursor.text(end) in ("(", "[", "{") else end + 1
        if end < len(cursor) and _is_comparison(cursor, i + 3, end):
            cursor.tokens[i + 3].text = f"__msl_bools({cursor.tokens[i + 3].text}"
            cursor.tokens[end - 1].text += ")"


def _mask_components(cursor: Cursor) -> None:
    """``(a < b).x`` is true or false, not a component of the compiler's mask."""
    for i, text in enumerate(cursor.texts):
        if text != "(" or (cursor.text(i - 1).isidentifier() and cursor.text(i - 1) != "return"):
            continue
        if any(_template_end(cursor, j) == i - 1 for j in range(i - 2, max(i - 16, 0), -1)):
            continue  # the arguments of name<types>(...)
        close = cursor.close(i)
        if cursor.text(close + 1) == "." and cursor.text(close + 2) in _COMPONENTS:
            last = close + 2
        elif cursor.text(close + 1) == "[":
            last = cursor.close(close + 1)
        else:
            continue
        if _is_comparison(cursor, i + 1, close):
            cursor.tokens[i].text = "__msl_flag(("
            cursor.tokens[last].text += ")"


def _is_cast(cursor: Cursor, at: int) -> bool:
    before, after = cursor.text(at - 2), cursor.text(at + 2)
    if before in (")", "]", ">") or (before.isidentifier() and before not in ("return", "case")):
        return False
    return after in ("(", "-", "!", "~", "*", "&", "+") or after[:1].isalnum() or after[:1] in "_."


def mark_threadgroup_variables(cursor: Cursor) -> None:
    """``threadgroup T x[n];`` in a kernel becomes a static object in a section of its own."""
    for i, text in enumerate(cursor.texts):
        if text != "threadgroup":
            continue
        start = cursor.statement_start(i)
        between = cursor.texts[start:i]
        skip = {"const", "volatile", "static", "alignas"}
        j = start
        plain = True
        while j < i:
            if cursor.texts[j] in skip:
                j += 1
            elif cursor.texts[j] in ("(", "["):
                j = cursor.close(j) + 1
            else:
                plain = False
                break
        if not plain or ("(" in between and "alignas" not in between):
            continue
        end = i + 1
        indirect = initialised = called = False
        angle = 0
        while cursor.text(end) not in (";", "", "{"):
            here = cursor.texts[end]
            if here in ("*", "&"):
                indirect = True
                break
            if here == "<":
                angle += 1
            elif here == ">":
                angle -= 1
            initialised |= here == "="
            called |= here == "(" and cursor.text(end - 1) != "alignas"
            end = cursor.close(end) + 1 if here in ("(", "[") else end + 1
        if indirect or called:
            continue
        if initialised or cursor.text(end) == "{":
            raise syntax_error(
                cursor.line(i), "variables in threadgroup memory cannot have an initialiser"
            )
        if not _inside_function(cursor, i):
            raise syntax_error(
                cursor.line(i),
                "threadgroup variables can only be declared inside a kernel function; "
                "program scope variables must be in the constant address space",
            )
        cursor.tokens[i].text = "__msl_tg"
        for k in range(start, i):
            if cursor.texts[k] == "static":
                cursor.tokens[k].blank()


def _inside_function(cursor: Cursor, at: int) -> bool:
    """Says whether the innermost scopes around a token include a function body."""
    depth = 0
    for i in range(at, -1, -1):
        if cursor.texts[i] == "}":
            depth += 1
        elif cursor.texts[i] == "{":
            if depth:
                depth -= 1
            elif cursor.text(i - 1) in (")", "const", "]"):
                return True
    return False
