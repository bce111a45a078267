"""A kernel that is ready to launch: parameters with types, limits, threadgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from ._abi import MAX_BUFFERS, UNSIGNED, VALUE, Param
from ._build import Program
from ._kernels import GRID_BUILTINS, KernelText, Parameter, syntax_error

MAX_THREADS = 1024
# What every pipeline of a Mac takes; more has to be asked for in the text.
UNASKED_THREADS = 256
MAX_THREADGROUP_BYTES = 32768
_GRID_PAIR = ("thread_position_in_grid", "threads_per_grid")
_GROUP_TRIO = (
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
)


@dataclass(frozen=True)
class Slot:
    """A buffer parameter: where it is bound and what it points to."""

    parameter: Parameter
    type: Param
    index: int


@dataclass(frozen=True)
class Signature:
    """What a call must fit.

    Args:
        kernel: The kernel as the text has it.
        slots: Buffer parameters; None stands for a built-in.
        max_threads: Threads that one threadgroup may have.
    """

    kernel: KernelText
    slots: tuple[Slot | None, ...]
    max_threads: int


@dataclass(frozen=True)
class Pipeline(Signature):
    """What a launch needs to know about one kernel.

    Args:
        program: The compiled text.
        entry: Address of the entry point.
        variables: (address, size) of the threadgroup variables.
    """

    program: Program
    entry: int
    variables: tuple[tuple[int, int], ...]

    @property
    def threadgroup_bytes(self) -> int:
        """Threadgroup memory of the kernel, each variable rounded up to 16 bytes."""
        return sum(-(-size // 16) * 16 for _, size in self.variables)


def check_types(program: Program) -> None:
    """Checks what the parser could not see: types of built-ins, indices of buffers.

    Raises:
        SyntaxError: If a kernel breaks one of Metal's rules.
    """
    for index, kernel in program.kernels.values():
        params = program.params(index, len(kernel.parameters))
        numbers = program.numbers(index, len(kernel.parameters))
        if not 1 <= numbers[0] <= MAX_THREADS:
            raise syntax_error(
                kernel.line,
                f"kernel '{kernel.name}': max_total_threads_per_threadgroup({numbers[0]}) "
                f"is not between 1 and {MAX_THREADS}",
            )
        check_builtins(kernel, params)
        _locations(kernel, numbers[1:])
    for name in program.stray_threadgroup_variables():
        raise SyntaxError(
            f"threadgroup variable {name} is declared in a function that is not a kernel"
        )


def make_pipeline(program: Program, name: str) -> Pipeline:
    """Looks a kernel up and checks its limits.

    Args:
        program: The compiled text.
        name: Name of the kernel.

    Raises:
        RuntimeError: If the library has no such kernel or it needs too much threadgroup memory.
    """
    if name not in program.kernels:
        raise RuntimeError(f"Failed to create function state object for: {name}")
    index, kernel = program.kernels[name]
    count = len(kernel.parameters)
    params = program.params(index, count)
    numbers = program.numbers(index, count)
    slots = make_slots(kernel, params, numbers[1:])
    variables = tuple(program.threadgroup_variables(index))
    pipeline = Pipeline(kernel, slots, numbers[0], program, program.entry(index), variables)
    if pipeline.threadgroup_bytes > MAX_THREADGROUP_BYTES:
        raise RuntimeError(
            f"Failed to created pipeline state object, error: kernel '{name}' "
            f"({kernel.at(kernel.line)}): Threadgroup memory size "
            f"({pipeline.threadgroup_bytes}) exceeds the maximum threadgroup "
            f"memory allowed ({MAX_THREADGROUP_BYTES})"
        )
    return pipeline


def make_slots(
    kernel: KernelText, params: list[Param], given: list[int]
) -> tuple[Slot | None, ...]:
    """Returns the buffer parameters of a kernel in order; None for built-ins.

    Args:
        kernel: The kernel as the text has it.
        params: What the compiler says of its parameters.
        given: The buffer index that the text gives each parameter, -1 for none.
    """
    places = _locations(kernel, given)
    return tuple(
        None if place is None else Slot(parameter, param, place)
        for parameter, param, place in zip(kernel.parameters, params, places, strict=True)
    )


def _locations(kernel: KernelText, given: list[int]) -> list[int | None]:
    """Returns the buffer index of every parameter; None for built-ins."""
    taken: dict[int, str] = {}
    for parameter, place in zip(kernel.parameters, given, strict=True):
        if parameter.builtin is not None or place < 0:
            continue
        if place >= MAX_BUFFERS:
            raise syntax_error(
                parameter.line, f"'{parameter.name}': buffer index {place} is over 30"
            )
        if place in taken:
            raise syntax_error(
                parameter.line,
                f"'{parameter.name}' and '{taken[place]}' have the same buffer index {place}",
            )
        taken[place] = parameter.name
    places: list[int | None] = []
    for parameter, place in zip(kernel.parameters, given, strict=True):
        if parameter.builtin is not None:
            places.append(None)
            continue
        if place < 0:
            place = next(i for i in range(MAX_BUFFERS + 1) if i not in taken)
            if place >= MAX_BUFFERS:
                raise syntax_error(parameter.line, "a kernel has at most 31 buffers")
            taken[place] = parameter.name
        places.append(place)
    return places


def check_builtins(kernel: KernelText, params: list[Param]) -> None:
    """Checks the types of a kernel's built-ins.

    Args:
        kernel: The kernel as the text has it.
        params: What the compiler says of its parameters.

    Raises:
        SyntaxError: If one of them is not what Metal allows.
    """
    grid: dict[str, tuple[Parameter, Param]] = {}
    for parameter, param in zip(kernel.parameters, params, strict=True):
        name = parameter.builtin
        if name is None:
            continue
        integer = param.scalar_kind == UNSIGNED and param.scalar_size in (2, 4)
        if param.kind != VALUE or not integer:
            raise syntax_error(
                parameter.line, f"'{parameter.name}' with [[{name}]] must be ushort or uint"
            )
        limit = 3 if name in GRID_BUILTINS else 1
        if not 1 <= param.components <= limit:
            shape = "a scalar or a vector of 2 or 3" if limit == 3 else "a scalar"
            raise syntax_error(
                parameter.line, f"'{parameter.name}' with [[{name}]] must be {shape}"
            )
        if name in GRID_BUILTINS:
            grid[name] = (parameter, param)
    counts = {param.components for _, param in grid.values()}
    if len(counts) > 1:
        named = ", ".join(f"'{p.name}' has {t.components}" for p, t in grid.values())
        raise syntax_error(
            kernel.line,
            f"kernel '{kernel.name}': position and size built-ins must have the same number of "
            f"components: {named}",
        )
    for family in (_GRID_PAIR, _GROUP_TRIO):
        members = [grid[name] for name in family if name in grid]
        if len({t.scalar_size for _, t in members}) > 1:
            named = " and ".join(f"'{p.name}'" for p, _ in members)
            raise syntax_error(
                kernel.line, f"kernel '{kernel.name}': {named} must have the same type"
            )
