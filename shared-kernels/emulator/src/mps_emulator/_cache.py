"""Where built files are kept between runs, safe for concurrent processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def cache_dir(kind: str) -> Path:
    """Returns the cache folder for one kind of file and makes it.

    The root is ``$MPS_EMULATOR_CACHE``; without it ``mps-emulator`` under ``$XDG_CACHE_HOME`` or
    ``~/.cache``.

    Args:
        kind: Name of the subfolder, for example ``"device"`` or ``"shader"``.
    """
    chosen = os.environ.get("MPS_EMULATOR_CACHE")
    if chosen:
        root = Path(chosen)
    else:
        xdg = os.environ.get("XDG_CACHE_HOME")
        root = (Path(xdg) if xdg else Path.home() / ".cache") / "mps-emulator"
    folder = root.absolute() / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Gives a temporary path beside ``target`` that becomes ``target`` when the block succeeds.

    Readers therefore see the whole file or none, whichever process finishes first.

    Args:
        target: The final path; its folder must exist.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(target: Path) -> Iterator[None]:
    """Holds a lock between processes for the making of ``target``, so that only one makes it.

    Args:
        target: The path that the lock stands for; ``<target>.lock`` beside it is the lock file.
    """
    with open(target.with_name(target.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file closes, also by a crash
        yield
