"""Checks that the kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor


def fail(op: str, name: str, expected: str, got: str, hint: str = "") -> NoReturn:
    """Raise ValueError: which argument, what was expected, what came, what to do."""
    text = f"pyg::{op}: {name} must be {expected}, got {got}"
    raise ValueError(f"{text}; {hint}" if hint else text)


def check_values(op: str, src: Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Values of a dtype that the kernels have."""
    if src.dtype not in dtypes:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"pyg::{op}: src must be of one of {names}, got {src.dtype}")
    if src.dim() == 0:
        fail(op, "src", "a tensor of at least one axis", "shape []")


def check_integers(op: str, name: str, index: Tensor) -> None:
    """Integers as indices have them."""
    if index.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"pyg::{op}: {name} must be int64 or int32, got {index.dtype}")


def check_index(op: str, name: str, index: Tensor, src: Tensor) -> None:
    """Integers on the device of the values."""
    check_integers(op, name, index)
    if index.device != src.device:
        hint = f"move one of them with .to({str(src.device)!r})"
        fail(op, name, f"on the device of src ({src.device})", f"device {index.device}", hint)


def check_out(op: str, out: Tensor, src: Tensor, dim: int) -> None:
    """A tensor to write into: as `src`, but for the axis that is reduced."""
    wanted, got = list(src.shape), list(out.shape)
    if len(wanted) != len(got) or wanted[:dim] != got[:dim] or wanted[dim + 1 :] != got[dim + 1 :]:
        fail(op, "out", f"of the shape of src {wanted} except axis {dim}", f"shape {got}")
    if out.dtype != src.dtype or out.device != src.device:
        wanted_kind = f"{src.dtype} on {src.device}, as src"
        fail(op, "out", wanted_kind, f"{out.dtype} on {out.device}")
