"""Finds kernels in preprocessed text and takes out what only Metal understands."""

from __future__ import annotations

from dataclasses import replace

from ._cursor import Cursor
from ._kernels import BUILTINS, KernelText, Parameter, syntax_error

_SPACES = ("device", "constant", "threadgroup")


def find_kernels(cursor: Cursor) -> list[KernelText]:
    """Returns the kernels that the library lists; removes Metal attributes from the tokens.

    Templates are listed by their explicit instantiations only.

    Args:
        cursor: The significant tokens of the text.
    """
    functions: dict[str, KernelText] = {}
    templates: set[str] = set()
    instances: list[tuple[str | None, str, str, int]] = []
    scopes = _namespaces(cursor)
    for at in range(len(cursor)):
        marker = _kernel_marker(cursor, at)
        if not marker:
            continue
        start = cursor.statement_start(at)
        if cursor.text(start) == "template" and cursor.text(start + 1) != "<":
            inner = _scope(scopes, at)
            host_name, arguments, base, line = _instance(cursor, start, at + marker)
            instances.append((host_name, arguments, f"{inner}{base}", line))
            continue
        found = _function(cursor, start, at, marker, scopes)
        if found is None:
            continue  # a declaration; the definition is listed
        if found.expression in functions:
            raise syntax_error(found.line, f"kernel function '{found.expression}' is overloaded")
        functions[found.expression] = found
        if cursor.text(start) == "template":
            templates.add(found.expression)
    kernels = [k for key, k in functions.items() if key not in templates]
    for host_name, arguments, base, line in instances:
        of = _look_up(functions, base)
        if of is None:
            raise syntax_error(line, f"explicit instantiation of unknown kernel '{base}'")
        if host_name is None:
            raise syntax_error(line, f"instantiation of '{base}' needs [[host_name(...)]]")
        expression = f"{of.expression}{arguments}"
        kernels.append(replace(of, name=host_name, expression=expression))
    seen: dict[str, int] = {}
    for kernel in kernels:
        if kernel.name in seen:
            raise syntax_error(kernel.line, f"two kernels have the name '{kernel.name}'")
        seen[kernel.name] = kernel.line
        if kernel.name == "main":
            raise syntax_error(kernel.line, "a kernel function must not be called 'main'")
    return kernels


def _namespaces(cursor: Cursor) -> list[tuple[int, int, str]]:
    """Returns (first token, last token, name) of every named namespace."""
    found = []
    for i, text in enumerate(cursor.texts):
        if text != "namespace" or cursor.text(i - 1) == "using":
            continue
        name, j = "", i + 1
        while cursor.text(j) not in ("{", ";", "=", ""):
            name += cursor.text(j)
            j += 1
        if cursor.text(j) == "{":
            found.append((j, cursor.close(j), name))
    return found


def _scope(scopes: list[tuple[int, int, str]], at: int) -> str:
    """Returns the namespaces around a token as a prefix."""
    return "".join(f"{name}::" for first, last, name in scopes if first < at < last and name)


def _look_up(functions: dict[str, KernelText], name: str) -> KernelText | None:
    """Finds ``a::b::f``, else ``a::f``, else ``f``, as C++ does."""
    absolute = name.partition("::::")[2] if "::::" in name else ""
    if absolute or name.startswith("::"):
        return functions.get(absolute or name[2:])
    scopes = name.split("::")
    while "::".join(scopes) not in functions:
        if len(scopes) == 1:
            return None
        del scopes[-2]
    return functions["::".join(scopes)]


def _kernel_marker(cursor: Cursor, at: int) -> int:
    """Returns how many tokens mark a kernel here: ``kernel``, ``[[kernel]]``; 0 for none."""
    if cursor.text(at) == "kernel" and cursor.text(at - 1) != "[":
        return 1
    if cursor.texts[at : at + 5] == ["[", "[", "kernel", "]", "]"]:
        return 5
    return 0


def _skip_attributes(cursor: Cursor, at: int) -> int:
    while cursor.text(at) == "[" and cursor.text(at + 1) == "[":
        at = cursor.close(at) + 1
    return at


def _name_end(cursor: Cursor, at: int) -> int:
    """Returns the index after a qualified name, without template arguments."""
    if cursor.text(at) == "::":
        at += 1
    while cursor.text(at + 1) == "::":
        at += 2
    return at + 1


def _instance(cursor: Cursor, start: int, at: int) -> tuple[str | None, str, str, int]:
    """Reads ``template [[host_name("x")]] kernel void f<A>(...);`` and removes it."""
    end = at
    while cursor.text(end) not in (";", ""):
        end = cursor.close(end) + 1 if cursor.text(end) in ("(", "[", "{") else end + 1
    host_name = None
    for attribute in cursor.attributes(start, end):
        if attribute.name == "host_name" and attribute.argument:
            host_name = attribute.argument.strip().strip('"')
    at = _skip_attributes(cursor, at)
    if cursor.text(at) == "decltype":
        at = cursor.close(at + 1) + 1
    else:
        at += 1  # the return type, void
    last = _name_end(cursor, at)
    base = "".join(cursor.texts[at:last])
    arguments = ""
    if cursor.text(last) == "<":
        arguments = cursor.join(last, cursor.close_angle(last) + 1)
    line = cursor.line(start)
    cursor.blank(start, end + 1)
    return host_name, arguments, base, line


def _function(
    cursor: Cursor, start: int, at: int, marker: int, scopes: list[tuple[int, int, str]]
) -> KernelText | None:
    """Reads one kernel function; None for a declaration without a body."""
    after = _skip_attributes(cursor, at + marker)
    line = cursor.line(at)
    if cursor.text(after) != "void":
        raise syntax_error(line, "kernel functions must have the return type 'void'")
    name_at = _skip_attributes(cursor, after + 1)
    opening = _name_end(cursor, name_at)
    name = "".join(cursor.texts[name_at:opening])
    if cursor.text(opening) != "(":
        raise syntax_error(line, f"expected the parameters of kernel '{name}'")
    closing = cursor.close(opening)
    if cursor.text(_skip_attributes(cursor, closing + 1)) != "{":
        for attribute in cursor.attributes(start, closing):
            cursor.blank(attribute.start, attribute.end)
        if marker == 5:
            cursor.tokens[at].text = " kernel "
        return None
    parameters = [_parameter(cursor, a, b) for a, b in cursor.split(opening + 1, closing)]
    inner = _scope(scopes, at)
    kernel = KernelText(inner + name, inner + name, cursor.line(name_at))
    kernel.file = cursor.file(name_at)
    kernel.parameters = [p for p in parameters if p is not None]
    for attribute in cursor.attributes(start, opening):
        if attribute.name == "max_total_threads_per_threadgroup":
            kernel.max_threads = attribute.argument
        elif attribute.name == "host_name" and attribute.argument:
            kernel.name = attribute.argument.strip().strip('"')
        elif attribute.name != "kernel":
            raise syntax_error(attribute.line, f"unknown attribute '{attribute.name}' on a kernel")
        cursor.blank(attribute.start, attribute.end)
    if marker == 5:
        cursor.tokens[at].text = " kernel "
    return kernel


def _parameter(cursor: Cursor, start: int, end: int) -> Parameter | None:
    attributes = cursor.attributes(start, end)
    plain = [i for i in range(start, end) if not any(a.start <= i < a.end for a in attributes)]
    texts = [cursor.texts[i] for i in plain]
    if texts == ["void"]:
        return None
    if not plain:
        raise syntax_error(cursor.line(start), "expected a parameter declaration")
    names = [i for i in plain if cursor.tokens[i].kind == "name"]
    indirect = "*" in texts or "&" in texts
    named = names and (len(names) > 1) and cursor.text(names[-1] + 1) in (",", ")", "[", "")
    parameter = Parameter(cursor.texts[names[-1]] if named else "", cursor.line(plain[0]))
    parameter.space = next((s for s in _SPACES if s in texts), "")
    for attribute in attributes:
        if attribute.name in BUILTINS:
            parameter.builtin = attribute.name
        elif attribute.name == "buffer":
            parameter.location = attribute.argument
        else:
            raise syntax_error(
                attribute.line,
                f"unknown attribute '{attribute.name}' on parameter '{parameter.name}'",
            )
        cursor.blank(attribute.start, attribute.end)
    if parameter.builtin is None:
        _check_buffer(parameter, indirect)
    elif indirect:
        raise syntax_error(
            parameter.line,
            f"'{parameter.name}' with [[{parameter.builtin}]] must not be a pointer or reference",
        )
    return parameter


def _check_buffer(parameter: Parameter, indirect: bool) -> None:
    """Refuses what setBuffer and setBytes cannot serve."""
    name, line = parameter.name, parameter.line
    if not indirect:
        raise syntax_error(
            line,
            f"invalid input declaration '{name}' in a kernel function: it has no built-in "
            "attribute and is not a pointer or reference to device or constant memory",
        )
    if parameter.space == "threadgroup":
        raise syntax_error(
            line,
            f"parameter '{name}' is in threadgroup memory, whose size compile_shader cannot set; "
            "declare an array inside the kernel",
        )
    if not parameter.space:
        raise syntax_error(
            line, f"parameter '{name}' must name its address space, device or constant"
        )
