"""Counts the operators, and the read-backs, that a piece of code costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# Operators whose result the host has to wait for: a value, or a size that depends on data.
READBACKS = frozenset(
    f"aten::{name}"
    for name in (
        "_local_scalar_dense",
        "copy_(mps to cpu)",
        "equal",
        "nonzero",
        "nonzero.out",
        "masked_select",
        "masked_select.out",
        "index.Tensor(mask)",
        "_index_put_impl_(mask)",
        "_unique",
        "_unique2",
        "unique_dim",
        "unique_consecutive",
        "unique_dim_consecutive",
        "repeat_interleave.Tensor",
        "bincount",
    )
)


class Calls:
    """The operators called so far, in order.

    Attributes:
        operators: Their names; growing while the ``with`` block is open.
    """

    def __init__(self, counts: Callable[[str], bool]) -> None:
        self._counts = counts
        self._operators: list[str] = []

    @property
    def operators(self) -> list[str]:
        """Names of the counted operators, as the dispatcher writes them."""
        _collect()
        return list(self._operators)

    @property
    def count(self) -> int:
        """How many were counted."""
        return len(self.operators)

    def _add(self, names: list[str]) -> None:
        self._operators += [name for name in names if self._counts(name)]


_open: list[Calls] = []


def _collect() -> None:
    if _open:
        names = torch.ops.mps_emulator.log_take(False)
        for calls in _open:
            calls._add(names)


@contextmanager
def record(counts: Callable[[str], bool]) -> Iterator[Calls]:
    """Records the device's operator calls in a block.

    Args:
        counts: Which names to keep.
    """
    calls = Calls(counts)
    if _open:
        _collect()  # what came before belongs to the outer blocks alone
    else:
        torch.ops.mps_emulator.log_open()
    _open.append(calls)
    try:
        yield calls
    finally:
        _collect()
        _open.remove(calls)
        if not _open:
            torch.ops.mps_emulator.log_take(True)
