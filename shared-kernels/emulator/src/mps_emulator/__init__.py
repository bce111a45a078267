"""A software Apple GPU for PyTorch."""

from __future__ import annotations

_installed = False


def install(*, strict: bool = False) -> bool:
    """Makes ``mps`` a device of this process where no Apple GPU is.

    Args:
        strict: Whether operators that run on a Mac but are known to give wrong results there are
            refused as well. Test runs want this.

    Returns:
        Whether the emulated device is in use; False on a machine with a real MPS device, which
        is left alone.
    """
    global _installed
    import torch

    if not _installed:
        if torch._C._mps_is_available():  # not torch.backends.mps, which caches the answer
            return False
        from mps_emulator.device import _runtime

        _runtime.load()
        _installed = True
    return True


def is_installed() -> bool:
    """Returns whether this process uses the emulated device."""
    return _installed
