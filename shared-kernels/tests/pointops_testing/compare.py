"""Equality of bits."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def assert_same_bits(got: Tensor, wanted: Tensor) -> None:
    """Same shape, same dtype and the same bits; NaN equals only itself, 0 is not -0."""
    assert got.dtype == wanted.dtype, (got.dtype, wanted.dtype)
    assert got.shape == wanted.shape, (tuple(got.shape), tuple(wanted.shape))
    got, wanted = got.detach().cpu().contiguous(), wanted.detach().cpu().contiguous()
    if got.is_floating_point():
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
        different = got.view(whole) != wanted.view(whole)
    else:
        different = got != wanted
    if different.any():
        where = different.nonzero()[0].tolist()
        count = int(different.sum())
        values = got[tuple(where)].item(), wanted[tuple(where)].item()
        first = f"first at {where}: got {values[0]}, wanted {values[1]}"
        raise AssertionError(f"{count} of {got.numel()} differ, {first}")


def root(d2: Tensor) -> Tensor:
    """Correctly rounded square roots."""
    return torch.from_numpy(np.sqrt(d2.numpy()))


def count_work(monkeypatch, done, owner, name, count):
    """From now on every call of `owner.name` adds `count` of its result to the list `done`."""
    before = getattr(owner, name)

    def call(*arguments):
        found = before(*arguments)
        done.append(count(found))
        return found

    monkeypatch.setattr(owner, name, call)
