"""Which distribution owns an import name: the check that every drop-in runs when it is imported.

Nothing in Python packaging stops two distributions from shipping the same import name: files of
the one lie among files of the other, installers say nothing, and uninstalling either removes what
both need. Looking distributions up by name takes milliseconds; asking which distributions provide
an import name takes half a second, so the names are given.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_warned: set[str] = set()


def check_owner(import_name: str, ours: str, originals: Sequence[str], file: str) -> None:
    """Warn, once a process, when the original of a drop-in is installed beside it.

    Args:
        import_name: Name that both provide.
        ours: Distribution that calls.
        originals: Distributions of others that ship the same import name.
        file: `__file__` of the caller, which is the file in use.

    Raises:
        ImportError: in place of the warning, if the environment variable `MPS_POINTOPS_STRICT`
            is 1.

    A version with the local part `mps` (`3.0.0+mps`) is a placeholder without files, made to
    satisfy a requirement, and no conflict.
    """
    found = [(name, _version(name)) for name in originals]
    others = [(name, version) for name, version in found if version and not _is_stub(version)]
    if not others:
        return
    text = _message(import_name, ours, others, file)
    if os.environ.get("MPS_POINTOPS_STRICT") == "1":
        raise ImportError(text)
    if import_name not in _warned:
        _warned.add(import_name)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def _find(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _version(name: str) -> str | None:
    """Version of an installed distribution; a folder without metadata has an unknown one."""
    found = _find(name)
    if found is None:
        return None
    metadata = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    return found.version if "\nVersion:" in f"\n{metadata}" else "of unknown version"


def _is_stub(version: str) -> bool:
    return version.partition("+")[2].split(".")[0] == "mps"


def _message(import_name: str, ours: str, others: list[tuple[str, str]], file: str) -> str:
    named = ", ".join(f"{name} {version}" for name, version in others)
    remove = " ".join([*(name for name, _ in others), ours])
    return (
        f"{import_name} is shipped by two installed distributions: {ours} and {named}. "
        f"This process uses {import_name} of {ours} ({Path(file).parent}), but files of both may "
        "lie in that folder, and uninstalling either removes what they share. "
        "Keep one; for the Apple GPU run\n"
        f"    pip uninstall -y {remove}\n"
        f"    pip install {ours}"
    )
