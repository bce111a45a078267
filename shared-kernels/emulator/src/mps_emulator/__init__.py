"""A software Apple GPU for PyTorch: run MPS code paths on a machine without one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mps_emulator.device._calls import Calls

__all__ = ["allow", "count_operators", "count_readbacks", "install", "is_installed", "known_wrong"]

_installed = False


def install(*, strict: bool = False) -> bool:
    """Makes ``mps`` a device of this process where no Apple GPU is.

    Calling it again is harmless. Child processes do not inherit it.

    Args:
        strict: Whether operators that run on a Mac but are known to give wrong results there are
            refused as well, unless :func:`allow` names them. Once on, it stays on.

    Returns:
        Whether the emulated device is in use; False on a machine with a real MPS device, which
        is left alone.
    """
    global _installed
    torch_is_new = "torch" not in sys.modules
    import torch

    if not _installed:
        if torch._C._mps_is_available():  # not torch.backends.mps, which caches the answer
            return False
        from mps_emulator.device import _runtime

        _runtime.load(autograd_may_have_run=not torch_is_new)
        _installed = True
    if strict:
        from mps_emulator.device import _known_wrong

        _known_wrong.refuse_from_now_on()
    return True


def is_installed() -> bool:
    """Returns whether this process uses the emulated device."""
    return _installed


@contextlib.contextmanager
def allow(*names: str) -> Iterator[None]:
    """Allows operators that ``install(strict=True)`` refuses as known to be wrong on a Mac.

    Args:
        *names: Names of refused cases, for example ``"sort.int64"``; each refusal names itself.
    """
    from mps_emulator.device import _known_wrong

    with _known_wrong.allow(*names):
        yield


def known_wrong() -> tuple[str, ...]:
    """Returns the names that :func:`allow` takes."""
    from mps_emulator.device import _known_wrong

    return _known_wrong.NAMES


@contextlib.contextmanager
def count_readbacks() -> Iterator[Calls]:
    """Counts the operators in a block that make the host wait for the device.

    These are copies to the CPU, ``item()``, and operators whose output size depends on data.

    Yields:
        An object with ``count`` and ``operators``, the names in order; good during the block too.
    """
    _need_emulation("count_readbacks")
    from mps_emulator.device import _calls

    with _calls.record(_calls.READBACKS.__contains__) as calls:
        yield calls


@contextlib.contextmanager
def count_operators() -> Iterator[Calls]:
    """Counts the aten operators that run on the device in a block; views are free and not counted.

    Yields:
        An object with ``count`` and ``operators``, the names in order; good during the block too.
    """
    _need_emulation("count_operators")
    from mps_emulator.device import _calls

    with _calls.record(lambda name: True) as calls:
        yield calls


def _need_emulation(name: str) -> None:
    if not _installed:
        raise RuntimeError(
            f"{name}() needs the emulated device: call mps_emulator.install() first; on a machine "
            "with a real MPS device it cannot count"
        )
