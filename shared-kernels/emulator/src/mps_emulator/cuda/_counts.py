"""Counts what a call costs on a Mac: kernels launched, operators run, values waited for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mps_emulator.device._calls import READBACKS

_open: list[_Mode] = []
# They allocate, or give another name to what is there, and start nothing.
_NO_WORK = frozenset(
    f"aten::{name}"
    for name in (
        "_reshape_alias", "_unsafe_view", "alias", "detach", "empty", "empty_like",
        "empty_strided", "lift_fresh", "new_empty", "new_empty_strided", "resize_", "set_",
    )
)  # fmt: skip


class Counts:
    """What ran in a block, in order; growing while the block is open.

    Attributes:
        kernels: Names of the Metal kernels launched.
        operators: Names of the PyTorch operators that ran on the card; those that only allocate or
            view are not counted.
        readbacks: Those that made the host wait for the card.
    """

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self.operators: list[str] = []
        self.readbacks: list[str] = []

    @property
    def dispatches(self) -> int:
        """Kernels and operators: each is at least one dispatch on a Mac."""
        return len(self.kernels) + len(self.operators)


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, counts: Counts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            with self:  # what it is made of; inside an operator's own kernel it arrives whole
                return func.decompose(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        if func.namespace == "aten":
            self._add(func, args, kwargs or {}, result)
        return result

    def _add(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = [*_tensors(args), *_tensors(tuple(kwargs.values()))]
        made = _tensors((result,))
        if not any(t.is_cuda for t in (*given, *made)):
            return
        name = str(func.name()).removesuffix(".default")
        moved = bool(given) and any(t.is_cuda for t in given)
        to_host = moved and bool(made) and not any(t.is_cuda for t in made)
        if not getattr(func, "is_view", False) and name.partition(".")[0] not in _NO_WORK:
            self.counts.operators.append(name)
        masked = name in ("aten::index.Tensor", "aten::_index_put_impl_") and any(
            t.dtype in (torch.bool, torch.uint8) for t in given[1:]
        )
        copied = name == "aten::copy_" and not given[0].is_cuda
        if name in READBACKS or to_host or masked or copied:
            self.counts.readbacks.append(name)


def _tensors(values: tuple[Any, ...]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(tuple(value))
    return found


@contextlib.contextmanager
def count(*, operators: bool = True) -> Iterator[Counts]:
    """Counts kernels, operators and read-backs in a block.

    Args:
        operators: Whether to count PyTorch's operators too, which slows every call.

    Yields:
        The counts; good during the block too.
    """
    from . import _library

    counts = Counts()
    add = counts.kernels.append
    _library.launched.append(add)
    try:
        if not operators:
            yield counts
            return
        mode = _Mode(counts)
        _open.append(mode)
        try:
            with mode:
                yield counts
        finally:
            _open.remove(mode)
    finally:
        _library.launched.remove(add)


def is_open() -> bool:
    """Returns whether a counter of operators is open."""
    return bool(_open)


@contextlib.contextmanager
def inside() -> Iterator[None]:
    """Lets the open counters see the operators that a kernel written in Python calls."""
    with contextlib.ExitStack() as stack:
        for mode in _open:
            stack.enter_context(mode)
        yield
