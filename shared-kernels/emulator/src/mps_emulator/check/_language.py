"""Rules on the words of a shader that clang as C++ for OpenCL lets pass."""

from __future__ import annotations

from collections.abc import Iterator

from mps_emulator.check._parse import SPACES, attributes_of, starts_attribute
from mps_emulator.check._problem import Problem, Severity
from mps_emulator.check._source import Source
from mps_emulator.check._tokens import Token, closing

_ABSENT = {
    "goto": "goto does not exist in Metal",
    "virtual": "virtual functions do not exist in Metal",
    "new": "new does not exist in Metal",
    "throw": "exceptions do not exist in Metal",
    "try": "exceptions do not exist in Metal",
    "typeid": "run-time type information does not exist in Metal",
    "dynamic_cast": "run-time type information does not exist in Metal",
    "thread_local": "thread_local does not exist in Metal",
    "asm": "inline assembly does not exist in Metal",
    "__global": "an OpenCL keyword; Metal's is device",
    "__local": "an OpenCL keyword; Metal's is threadgroup",
    "__private": "an OpenCL keyword; Metal's is thread",
    "__constant": "an OpenCL keyword; Metal's is constant",
    "__generic": "an OpenCL keyword; Metal has no generic address space",
    "__kernel": "an OpenCL keyword; Metal's is kernel",
}
# fmt: off
_COMPONENTS = (
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat",
    "float",
)
_SCALARS = (
    *_COMPONENTS,
    "size_t", "ptrdiff_t", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t",
    "int64_t", "uint64_t",
)
# fmt: on
_VECTOR_TYPES = frozenset(f"{s}{n}" for s in _COMPONENTS for n in (2, 3, 4))
_TYPES = (
    frozenset([*_SCALARS, "void", "unsigned", "signed", "simd_vote"])
    | _VECTOR_TYPES
    | frozenset(f"packed_{name}" for name in _VECTOR_TYPES)
    | frozenset(f"atomic_{s}" for s in ("int", "uint", "bool", "float", "ulong"))
)
# fmt: off
_ATTRIBUTES = frozenset((
    "host_name", "max_total_threads_per_threadgroup", "buffer", "unused", "maybe_unused",
    "fallthrough", "always_inline", "noinline", "nodiscard", "deprecated", "likely", "unlikely",
    "visible", "id", "user", "function_constant", "clang::always_inline", "clang::noinline",
    "clang::optnone", "gnu::always_inline", "gnu::noinline",
))
# fmt: on
# What can stand before `[` when it subscripts something.
_SUBSCRIPTED = frozenset((")", "]", "}", ">", '"'))
_NOT_SUBSCRIPTED = frozenset(("return", "case", "else", "do"))


def type_names(tokens: list[Token]) -> tuple[dict[str, str], frozenset[str]]:
    """The shader's own type aliases, and the names of all types that it declares."""
    aliases: dict[str, str] = {}
    names: set[str] = set()
    for index, token in enumerate(tokens):
        after = [t.text for t in tokens[index + 1 : index + 5]]
        if token.text in ("struct", "class", "union", "enum") and after:
            at = 1 if after[0] in ("class", "struct") else 0
            if after[at].isidentifier():
                names.add(after[at])
        elif token.text == "typedef" and len(after) > 2 and after[2] == ";":
            aliases[after[1]] = after[0]
        elif token.text == "using" and len(after) > 3 and after[1] == "=" and after[3] == ";":
            aliases[after[0]] = after[2]
    return aliases, frozenset(names | set(aliases))


def shared_variables(tokens: list[Token]) -> frozenset[tuple[str, str, int]]:
    """``(name, file, line)`` of every variable declared ``threadgroup``."""
    found = set()
    for index, token in enumerate(tokens):
        if token.text != "threadgroup":
            continue
        at = index + 1
        while at < len(tokens) and tokens[at].text not in (";", "(", ")", "{", "}"):
            if tokens[at].text == "[":
                at = closing(tokens, at)
            elif tokens[at].is_word and tokens[at + 1].text in (",", ";", "["):
                found.add((tokens[at].text, tokens[at].file, tokens[at].line))
            at += 1
    return frozenset(found)


class LanguageRules:
    """Walks the tokens of one shader."""

    def __init__(
        self, source: Source, tokens: list[Token], types: frozenset[str], version: int
    ) -> None:
        """Keep the shader.

        Args:
            source: The shader.
            tokens: Its tokens.
            types: Names of the types that it declares.
            version: Metal version, as in ``__METAL_VERSION__``.
        """
        self._source = source
        self._tokens = tokens
        self._types = _TYPES | types
        self._version = version

    def check(self) -> Iterator[Problem]:
        """All rules of this module."""
        for index, token in enumerate(self._tokens):
            if token.text == "[":
                yield from self._bracket(index)
            elif token.text in ("*", "&"):
                yield from self._indirection(index)
            elif token.text == "(":
                yield from self._vector_cast(index)
            elif token.is_word:
                yield from self._word(index)

    def _text(self, index: int) -> str:
        return self._tokens[index].text if 0 <= index < len(self._tokens) else ""

    def _problem(
        self, index: int, message: str, rule: str, severity: Severity = "error"
    ) -> Problem:
        token = self._tokens[index]
        column = self._source.column(token.file, token.line, token.text)
        return Problem(severity, token.line, column, message, rule, token.file)

    def _word(self, index: int) -> Iterator[Problem]:
        text, before, after = self._text(index), self._text(index - 1), self._text(index + 1)
        if text in _ABSENT:
            yield self._problem(index, f"{text!r}: {_ABSENT[text]}", "not-in-metal")
        elif text == "delete" and before != "=":
            yield self._problem(index, "'delete' does not exist in Metal", "not-in-metal")
        elif text == "std" and after == "::":
            message = "'std::' does not exist in Metal; the standard library is namespace metal"
            yield self._problem(index, message, "not-in-metal")
        elif text == "if" and after == "constexpr" and self._version < 400:
            message = (
                "`if constexpr` needs Metal 4; use #if, or a plain `if` on a constant, which the "
                "compiler removes"
            )
            yield self._problem(index, message, "cxx17")
        elif text in ("struct", "class") and self._text(index + 2) == ":":
            message = "Metal's specification has no derived classes; use a member instead of a base"
            yield self._problem(index, message, "derived-class", "warning")

    def _bracket(self, index: int) -> Iterator[Problem]:
        if self._text(index - 1) == "[":
            return  # the inner one of an attribute
        if starts_attribute(self._tokens, index):
            yield from self._attribute(index)
            return
        before = self._text(index - 1)
        word = before[:1].isalnum() or before[:1] in ("_", '"')
        if before in _SUBSCRIPTED or before == "operator":
            return
        if word and before not in _NOT_SUBSCRIPTED:
            return
        after = self._text(closing(self._tokens, index) + 1)
        if after in ("(", "{") and self._version < 320:
            message = "lambda expressions need Metal 3.2; write a static inline function"
            yield self._problem(index, message, "lambda")

    def _attribute(self, index: int) -> Iterator[Problem]:
        end = closing(self._tokens, index)
        _, attributes = attributes_of(self._tokens[index : end + 1])
        # Parameter attributes stand after a name and are checked with their kernel.
        on_name = self._tokens[index - 1].is_word and self._text(end + 1) in (",", ")")
        for attribute in attributes:
            if attribute.name == "function_constant":
                message = (
                    "function constants cannot be set through torch.mps.compile_shader; write a "
                    "#define line before the source"
                )
                yield self._problem(index + 2, message, "function-constant")
            elif attribute.name == "kernel":
                message = "write the keyword `kernel` before the function, apart from attributes"
                yield self._problem(index + 2, message, "unknown-attribute")
            elif attribute.name not in _ATTRIBUTES and not on_name:
                message = f"unknown attribute [[{attribute.name}]]"
                yield self._problem(index + 2, message, "unknown-attribute")

    def _indirection(self, index: int) -> Iterator[Problem]:
        """A pointer or reference whose target has no address space."""
        at = index - 1
        while self._text(at) in ("const", "volatile"):
            at -= 1
        at_name = at
        name = self._text(at)
        if name not in self._types or self._text(at - 1) in (".", "->"):
            return
        words = [name]
        while self._is_specifier(at - 1) or self._text(at - 1) == "::":
            at -= 2 if self._text(at - 1) == "::" else 1
            words.append(self._text(at))
        words += [self._text(i) for i in range(at, index)]
        if set(words) & set(SPACES):
            return
        after = self._text(index + 1)
        declares = (
            after[:1].isalpha() or after[:1] == "_" or after in (")", "*", "&", ">", ",", "(")
        )
        if not declares:
            return
        kind = "pointer" if self._text(index) == "*" else "reference"
        message = (
            f"{kind} to {name!r} without an address space: write device, constant, threadgroup "
            "or thread before the type"
        )
        yield self._problem(at_name, message, "address-space")

    def _is_specifier(self, index: int) -> bool:
        text = self._text(index)
        qualifiers = ("const", "volatile", "struct", "unsigned", "signed", "static")
        return text in SPACES or text in self._types or text in qualifiers or text == "constexpr"

    def _vector_cast(self, index: int) -> Iterator[Problem]:
        """`(float3)(a, b, c)`: OpenCL's constructor is the comma operator in Metal."""
        name = self._text(index + 1)
        if (
            name not in _VECTOR_TYPES
            or self._text(index + 2) != ")"
            or self._text(index + 3) != "("
            or self._text(index - 1) in ("sizeof", "alignof")
        ):
            return
        end = closing(self._tokens, index + 3)
        depth = 0
        for token in self._tokens[index + 4 : end]:
            depth += token.text in ("(", "[", "{")
            depth -= token.text in (")", "]", "}")
            if token.text == "," and depth == 0:
                message = (
                    f"({name})(a, b) is the comma operator in Metal and keeps the last value only; "
                    f"write {name}(a, b)"
                )
                yield self._problem(index + 1, message, "vector-literal")
                return
