"""Checks that the kernels share."""

from __future__ import annotations

from typing import NoReturn


def fail(op: str, name: str, expected: str, got: str, hint: str = "") -> NoReturn:
    """Raise ValueError: which argument, what was expected, what came, what to do."""
    text = f"pyg::{op}: {name} must be {expected}, got {got}"
    raise ValueError(f"{text}; {hint}" if hint else text)
