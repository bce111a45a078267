"""What the parser finds out about kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from ._toolchain import SOURCE_NAME

GRID_BUILTINS = frozenset(
    {
        *("thread_position_in_grid", "threads_per_grid"),
        *("thread_position_in_threadgroup", "threads_per_threadgroup"),
        *("dispatch_threads_per_threadgroup", "threadgroup_position_in_grid"),
        "threadgroups_per_grid",
    }
)
SCALAR_BUILTINS = frozenset(
    {
        *("thread_index_in_threadgroup", "thread_index_in_simdgroup"),
        *("simdgroup_index_in_threadgroup", "simdgroups_per_threadgroup"),
        *("dispatch_simdgroups_per_threadgroup", "threads_per_simdgroup"),
        "thread_execution_width",
    }
)
BUILTINS = GRID_BUILTINS | SCALAR_BUILTINS


def syntax_error(line: int, message: str) -> SyntaxError:
    """Returns an error in the form of the compiler's own messages."""
    return SyntaxError(f"{SOURCE_NAME}:{line}: error: {message}")


def place(file: str, line: int) -> str:
    """Returns how a message names a line: the file only where a ``#line`` directive gave one."""
    return f"line {line}" if file == SOURCE_NAME else f"{file}:{line}"


@dataclass
class Parameter:
    """One parameter of a kernel.

    Args:
        name: Its name, or "" when it has none.
        line: Line in the source.
        builtin: Name of the built-in attribute, or None for a buffer.
        location: Expression of ``[[buffer(...)]]``, or None for the next free index.
        space: Address space that the text names, or "".
    """

    name: str
    line: int
    builtin: str | None = None
    location: str | None = None
    space: str = ""


@dataclass
class KernelText:
    """One kernel function as the text has it.

    Args:
        name: Name under which the library lists it.
        expression: C++ expression that names the function.
        line: Line in the source.
        parameters: Its parameters in order.
        max_threads: Expression of ``[[max_total_threads_per_threadgroup(...)]]`` or None.
        file: The file that ``line`` counts in, as ``#line`` directives name it.
    """

    name: str
    expression: str
    line: int
    parameters: list[Parameter] = field(default_factory=list)
    max_threads: str | None = None
    file: str = SOURCE_NAME

    def at(self, line: int) -> str:
        """Returns how a message names a line of the kernel's file."""
        return place(self.file, line)
