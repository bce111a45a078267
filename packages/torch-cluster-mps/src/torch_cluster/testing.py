"""Dtypes, devices and tensors for parametrised tests, as the original's test-suite imports them.

`devices` has `mps` where it is available; `tensor` skips what that device cannot hold.
"""

from typing import Any

import torch
from torch import Tensor

dtypes = [torch.half, torch.bfloat16, torch.float, torch.double, torch.int, torch.long]
grad_dtypes = [torch.half, torch.float, torch.double]
floating_dtypes = [*grad_dtypes, torch.bfloat16]


def _devices() -> list[torch.device]:
    found = [torch.device("cpu")]
    if torch.backends.mps.is_available():
        found.append(torch.device("mps"))
    return found


devices = _devices()


def tensor(x: Any, dtype: torch.dtype, device: torch.device | str) -> Tensor | None:
    """`torch.tensor(x)` of a dtype on a device; None for None.

    Float64 on `mps` skips the test that asks, because that device has none.
    """
    if x is None:
        return None
    if torch.device(device).type == "mps" and dtype == torch.double:
        import pytest

        pytest.skip("the mps device has no float64")
    return torch.tensor(x, dtype=dtype, device=device)
