"""Calls of a kernel that look alike: checked once, afterwards only addresses and numbers change."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

import torch

from . import _driver

Look = tuple[Any, ...]
"""Grid, threadgroup and, for each argument, its type and its alignment or length."""

_ALIGNMENT = 31  # mask: no type of Metal needs more than 32 bytes
_CODES: dict[Any, str] = {int: "q", bool: "q", float: "f"}  # as torch sends them


def look_at(
    args: Sequence[Any], threads: int | Sequence[int], group_size: int | Sequence[int] | None
) -> tuple[Look | None, list[Any]]:
    """Returns how a call looks, None if every such call must be checked, and what it sends.

    Args:
        args: Positional arguments of the call.
        threads: Size of the grid.
        group_size: Size of a threadgroup.
    """
    look: list[Any] = [
        threads if isinstance(threads, int) else tuple(threads),
        group_size if group_size is None or isinstance(group_size, int) else tuple(group_size),
    ]
    values: list[Any] = []
    for arg in args:
        kind = type(arg)
        if kind is torch.Tensor:
            if not arg.is_cuda:
                return None, values
            address = arg.data_ptr()
            values.append(address)
            look.append(arg.dtype)
            look.append(address & _ALIGNMENT)
        elif kind is list or kind is tuple:
            if not arg:
                return None, values
            values += arg
            look.append(type(arg[0]))
            look.append(len(arg))
        else:
            values.append(arg)
            look.append(kind)
            look.append(0)
    return tuple(look), values


class Form:
    """The argument block of one look.

    Args:
        function: The entry point.
        look: The look; a call of it has passed every check.
        order: The argument that each parameter of the entry point gets.
        room: Bytes that the entry point takes of each value.
        grid: Threads of the grid, three numbers.
        blocks: Threadgroups of the grid, three numbers.
        group: Threads of a threadgroup, three numbers.
    """

    def __init__(
        self,
        function: _driver.Function,
        look: Look,
        order: Sequence[int],
        room: int,
        grid: Sequence[int],
        blocks: Sequence[int],
        group: Sequence[int],
    ) -> None:
        parts, places, end = [], [], 0
        for kind, count in zip(look[2::2], look[3::2], strict=True):
            places.append(end)
            if isinstance(kind, torch.dtype):
                parts.append("Q8x")
                end += 16
            else:
                form = f"{max(1, count)}{_CODES[kind]}"
                parts.append(f"{form}{room - struct.calcsize('=' + form)}x")
                end += room
        layout = struct.Struct("=" + "".join(parts))
        self._pack = layout.pack_into
        self._block = ctypes.create_string_buffer(end + 16)
        self._offset = -ctypes.addressof(self._block) % 16
        begin = ctypes.addressof(self._block) + self._offset
        self._grid = (ctypes.c_uint32 * 3)(*grid)
        self._addresses = (ctypes.c_void_p * (1 + len(order)))(
            ctypes.addressof(self._grid), *(begin + places[index] for index in order)
        )
        self._sizes = tuple(ctypes.c_uint(size) for size in (*blocks, *group))
        self._launch = function.launch
        self._lock = threading.Lock()

    def launch(self, values: Sequence[Any]) -> bool:
        """Starts the kernel on PyTorch's current stream.

        Args:
            values: Addresses and numbers of all arguments.

        Returns:
            False, and nothing is started, if a number does not have the type of its list or is
            out of the type's range.
        """
        with self._lock:  # the launch copies the block, and lets other threads run meanwhile
            try:
                self._pack(self._block, self._offset, *values)
            except (struct.error, OverflowError):
                return False
            self._launch(self._sizes, self._addresses)
        return True
