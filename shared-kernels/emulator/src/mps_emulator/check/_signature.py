"""Rules on kernel signatures: attributes, built-in types, buffer indices, names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mps_emulator.check._parse import Attribute, Kernel, Parameter
from mps_emulator.check._problem import Problem, Severity
from mps_emulator.check._source import Source
from mps_emulator.check._tokens import Token

MAX_BUFFER_INDEX = 30
MAX_THREADS = 1024

_GRID = ("thread_position_in_grid", "threads_per_grid")
_GROUP = (
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
)
_GROUPS = ("threadgroup_position_in_grid", "threadgroups_per_grid")
_VECTOR_BUILTINS = frozenset(_GRID + _GROUP + _GROUPS)
_SCALAR_BUILTINS = frozenset(
    (
        "thread_index_in_threadgroup",
        "thread_index_in_simdgroup",
        "thread_index_in_quadgroup",
        "simdgroup_index_in_threadgroup",
        "simdgroups_per_threadgroup",
        "dispatch_simdgroups_per_threadgroup",
        "threads_per_simdgroup",
        "thread_execution_width",
        "quadgroup_index_in_threadgroup",
        "quadgroups_per_threadgroup",
        "dispatch_quadgroups_per_threadgroup",
    )
)
_BUILTINS = _VECTOR_BUILTINS | _SCALAR_BUILTINS
_UNBINDABLE = ("texture", "sampler", "imageblock", "visible_function_table", "stage_in")
_ALIASES = {"uint16_t": "ushort", "uint32_t": "uint"}
_INDEX_TYPE = re.compile(r"(ushort|uint)([23]?)\Z")
_QUALIFIERS = frozenset(("const", "volatile", "restrict", "__restrict"))


class SignatureRules:
    """Checks every kernel of one shader."""

    def __init__(self, source: Source, types: Mapping[str, str]) -> None:
        """Keep what messages and type look-ups need.

        Args:
            source: The shader.
            types: The shader's own type aliases.
        """
        self._source = source
        self._types = {**_ALIASES, **types}

    def check(self, kernels: list[Kernel]) -> Iterator[Problem]:
        """Rules on the names of all kernels, then on each one."""
        seen: set[str] = set()
        for kernel in kernels:
            name = kernel.name.text
            if kernel.is_template:
                message = (
                    f"kernel template {name!r} is not checked: write a plain function whose "
                    "variants are #define lines before the source"
                )
                yield self._problem(kernel.name, message, "template-kernel")
                continue
            if name == "main":
                message = "a kernel cannot be named 'main'; choose another name"
                yield self._problem(kernel.name, message, "kernel-name")
            if name in seen:
                message = f"a second kernel {name!r}: kernels cannot be overloaded; rename one"
                yield self._problem(kernel.name, message, "kernel-overload")
            seen.add(name)
            yield from self._kernel(kernel)

    def _problem(
        self, token: Token, message: str, rule: str, severity: Severity = "error"
    ) -> Problem:
        column = self._source.column(token.file, token.line, token.text)
        return Problem(severity, token.line, column, message, rule, token.file)

    def _kernel(self, kernel: Kernel) -> Iterator[Problem]:
        if kernel.result != ("void",):
            came = " ".join(kernel.result) or "nothing"
            message = f"kernel {kernel.name.text!r} must return void, not {came}"
            yield self._problem(kernel.name, message, "kernel-return")
        for attribute in kernel.attributes:
            yield from self._function_attribute(attribute)
        for parameter in kernel.parameters:
            yield from self._parameter(parameter)
        yield from self._buffers(kernel)
        yield from self._builtins(kernel)

    def _function_attribute(self, attribute: Attribute) -> Iterator[Problem]:
        if attribute.name == "max_total_threads_per_threadgroup":
            value = attribute.arguments or ""
            if not (value.isdigit() and 1 <= int(value) <= MAX_THREADS):
                message = (
                    f"max_total_threads_per_threadgroup needs a number from 1 to {MAX_THREADS}, "
                    f"got {value!r}"
                )
                yield self._problem(attribute.token, message, "thread-limit")

    def _parameter(self, parameter: Parameter) -> Iterator[Problem]:
        name = parameter.name.text
        known = [a for a in parameter.attributes if a.name in _BUILTINS or a.name == "buffer"]
        for attribute in parameter.attributes:
            if attribute.name == "threadgroup":
                message = (
                    f"parameter {name!r}: [[threadgroup(n)]] memory cannot be sized through "
                    "torch.mps.compile_shader; declare a threadgroup array inside the kernel"
                )
                yield self._problem(attribute.token, message, "threadgroup-parameter")
            elif attribute.name.startswith(_UNBINDABLE):
                message = (
                    f"parameter {name!r}: [[{attribute.name}]] cannot be bound through "
                    "torch.mps.compile_shader; pass a buffer"
                )
                yield self._problem(attribute.token, message, "unbindable-parameter")
            elif attribute not in known:
                message = (
                    f"parameter {name!r}: unknown attribute [[{attribute.name}]]"
                    + _suggestion(attribute.name)
                )
                yield self._problem(attribute.token, message, "unknown-attribute")
        if parameter.attributes:
            return
        if parameter.is_indirect:
            message = (
                f"buffer {name!r} has no [[buffer(n)]]: Metal numbers it by position; write the "
                "index, which is the argument's position in the Python call"
            )
            yield self._problem(parameter.name, message, "implicit-buffer", "warning")
        else:
            message = (
                f"parameter {name!r} has no attribute: add [[thread_position_in_grid]] or "
                "another built-in, or pass the value as `constant T& name [[buffer(n)]]`"
            )
            yield self._problem(parameter.name, message, "missing-attribute")

    def _buffers(self, kernel: Kernel) -> Iterator[Problem]:
        taken: dict[int, str] = {}
        numbered = True
        last: Token | None = None
        for parameter in kernel.parameters:
            name = parameter.name.text
            attribute = next((a for a in parameter.attributes if a.name == "buffer"), None)
            if attribute is None:
                numbered = numbered and not (parameter.is_indirect and not parameter.attributes)
                continue
            last = attribute.token
            yield from self._buffer_type(parameter)
            text = (attribute.arguments or "").rstrip("uU")
            if not text.isdigit():
                message = f"buffer {name!r}: the index must be a plain number, got {text!r}"
                yield self._problem(attribute.token, message, "buffer-index")
                numbered = False
                continue
            index = int(text)
            if index > MAX_BUFFER_INDEX:
                message = f"buffer {name!r}: index {index} is above {MAX_BUFFER_INDEX}"
                yield self._problem(attribute.token, message, "buffer-index")
            if index in taken:
                message = f"buffer {name!r}: index {index} belongs to {taken[index]!r} already"
                yield self._problem(attribute.token, message, "buffer-index")
            taken.setdefault(index, name)
        missing = sorted(set(range(max(taken, default=-1))) - set(taken))
        if numbered and missing and last:
            message = (
                f"kernel {kernel.name.text!r} has no buffer {missing[0]}: argument i of the Python "
                "call is bound to buffer i, so number them from 0 without gaps"
            )
            yield self._problem(last, message, "buffer-gap")

    def _buffer_type(self, parameter: Parameter) -> Iterator[Problem]:
        if parameter.is_indirect and {"device", "constant"} & set(parameter.type):
            return
        message = (
            f"buffer {parameter.name.text!r} must be a pointer or reference in device or constant "
            f"memory, not `{' '.join(parameter.type)}`"
        )
        rule = "address-space" if parameter.is_indirect else "buffer-type"
        yield self._problem(parameter.name, message, rule)

    def _builtins(self, kernel: Kernel) -> Iterator[Problem]:
        shapes: dict[str, tuple[str, int, Token]] = {}
        for parameter in kernel.parameters:
            for attribute in parameter.attributes:
                if attribute.name not in _BUILTINS:
                    continue
                shape = self._index_type(parameter)
                vector = attribute.name in _VECTOR_BUILTINS
                if shape is None or (shape[1] > 1 and not vector):
                    expected = "ushort or uint" + (", or 2 or 3 of them" if vector else "")
                    message = (
                        f"parameter {parameter.name.text!r}: {attribute.name} must be {expected}, "
                        f"not `{' '.join(parameter.type)}`"
                    )
                    yield self._problem(parameter.name, message, "builtin-type")
                else:
                    shapes[attribute.name] = (*shape, parameter.name)
        yield from self._builtin_sizes(shapes)
        yield from self._builtin_scalars(shapes)

    def _builtin_sizes(self, shapes: Mapping[str, tuple[str, int, Token]]) -> Iterator[Problem]:
        vectors = [(name, shape) for name, shape in shapes.items() if name in _VECTOR_BUILTINS]
        for name, (_, size, token) in vectors[1:]:
            first, (_, expected, _) = vectors[0]
            if size != expected:
                message = (
                    f"{name} has {size} component(s) and {first} has {expected}: all grid and "
                    "threadgroup built-ins of a kernel need the same number"
                )
                yield self._problem(token, message, "builtin-components")

    def _builtin_scalars(self, shapes: Mapping[str, tuple[str, int, Token]]) -> Iterator[Problem]:
        for family in (_GRID, _GROUP):
            present = [(name, shapes[name]) for name in family if name in shapes]
            for name, (scalar, _, token) in present[1:]:
                first, (expected, _, _) = present[0]
                if scalar != expected:
                    message = f"{name} is {scalar} and {first} is {expected}: use one type for both"
                    yield self._problem(token, message, "builtin-type")
        position = shapes.get("thread_position_in_threadgroup")
        index = shapes.get("thread_index_in_threadgroup")
        if position and index and position[0] == "uint" and index[0] != "uint":
            message = (
                "thread_index_in_threadgroup must be uint where thread_position_in_threadgroup is"
            )
            yield self._problem(index[2], message, "builtin-type")

    def _index_type(self, parameter: Parameter) -> tuple[str, int] | None:
        words = [word for word in parameter.type if word not in _QUALIFIERS]
        if len(words) != 1:
            return None
        name = words[0]
        while name in self._types:
            name = self._types[name]
        match = _INDEX_TYPE.match(name)
        return (match[1], int(match[2] or 1)) if match else None


def _suggestion(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, [*sorted(_BUILTINS), "buffer"], n=1)
    return f"; did you mean [[{close[0]}]]?" if close else ""
