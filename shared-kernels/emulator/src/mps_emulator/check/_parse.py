"""Kernels of a shader with their parameters and attributes."""

from __future__ import annotations

from dataclasses import dataclass

from mps_emulator.check._tokens import Token, closing, split_commas

SPACES = ("device", "constant", "threadgroup", "thread")


@dataclass(frozen=True)
class Attribute:
    """One name in ``[[...]]`` with its arguments."""

    name: str
    arguments: str | None
    token: Token


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: Token
    type: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    @property
    def is_indirect(self) -> bool:
        """Whether it is a pointer or a reference."""
        return "*" in self.type or "&" in self.type


@dataclass(frozen=True)
class Kernel:
    """A kernel function: its signature and where its body lies in the token list."""

    name: Token
    result: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    attributes: tuple[Attribute, ...]
    body: range
    is_template: bool


def attributes_of(tokens: list[Token]) -> tuple[list[Token], list[Attribute]]:
    """Separate ``[[...]]`` from the other tokens."""
    plain: list[Token] = []
    found: list[Attribute] = []
    index = 0
    while index < len(tokens):
        if not starts_attribute(tokens, index):
            plain.append(tokens[index])
            index += 1
            continue
        end = closing(tokens, index)
        for piece in split_commas(tokens[index + 2 : end - 1]):
            found.append(_attribute(piece))
        index = end + 1
    return plain, found


def starts_attribute(tokens: list[Token], index: int) -> bool:
    """Whether ``[[`` stands at ``index``."""
    return index + 1 < len(tokens) and tokens[index].text == "[" == tokens[index + 1].text


def _attribute(piece: list[Token]) -> Attribute:
    words = [token.text for token in piece]
    arguments = None
    if "(" in words:
        at = words.index("(")
        arguments = " ".join(words[at + 1 : len(words) - 1])
        words = words[:at]
    if words[:2] == ["metal", "::"]:
        words = words[2:]
    return Attribute("".join(words), arguments, piece[0])


def find_kernels(tokens: list[Token]) -> list[Kernel]:
    """Every kernel definition, and kernel templates with their instantiations."""
    kernels = []
    for index, token in enumerate(tokens):
        listed = index > 0 and tokens[index - 1].text in ("[", ",")  # [[kernel, ...]]
        if token.text == "kernel" and not listed:
            kernel = _kernel(tokens, index)
            if kernel:
                kernels.append(kernel)
    return kernels


def _kernel(tokens: list[Token], keyword: int) -> Kernel | None:
    start = keyword
    while start > 0 and tokens[start - 1].text not in (";", "}", "{"):
        start -= 1
    opening = keyword + 1
    while opening < len(tokens) and tokens[opening].text not in ("(", ";", "{"):
        opening = closing(tokens, opening) + 1 if starts_attribute(tokens, opening) else opening + 1
    if opening >= len(tokens) or tokens[opening].text != "(":
        return None
    head, attributes = attributes_of(tokens[start:opening])
    is_template = any(token.text == "template" for token in head)
    if is_template and head[-1].text == ">":  # f<float>(...)
        while head and head[-1].text != "<":
            head.pop()
        head.pop()
    end = closing(tokens, opening)
    after = end + 1
    if after >= len(tokens) or (tokens[after].text != "{" and not is_template):
        return None  # a declaration
    body = (
        range(after, closing(tokens, after)) if tokens[after].text == "{" else range(after, after)
    )
    parameters = [_parameter(piece) for piece in split_commas(tokens[opening + 1 : end])]
    result = [t.text for t in head[:-1] if t.text not in ("kernel", "static", "inline", "extern")]
    return Kernel(head[-1], tuple(result), tuple(parameters), tuple(attributes), body, is_template)


def _parameter(piece: list[Token]) -> Parameter:
    plain, attributes = attributes_of(piece)
    words = [token.text for token in plain]
    if "=" in words:
        plain = plain[: words.index("=")]
    bound = next((i for i, t in enumerate(plain) if t.text == "["), len(plain))
    name = plain[bound - 1] if bound else piece[0]
    types = tuple(t.text for t in plain[: bound - 1]) + (("*",) if bound < len(plain) else ())
    return Parameter(name, types, tuple(attributes))
