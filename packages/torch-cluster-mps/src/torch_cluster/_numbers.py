"""Numbers that callers have as tensors: a radius that is learned, `batch.max() + 1`."""

from typing import Any

from torch import Tensor

from mps_pointops._checks import fail_type


def number_of(op: str, name: str, value: Any) -> Any:
    """The number in a tensor of one element; anything else as it is.

    Operators of torch would take it too, but not in compiled code, and with a warning where it
    has a gradient.
    """
    if not isinstance(value, Tensor):
        return value
    if value.numel() != 1 or value.is_complex():
        got = f"a tensor of {value.dtype} and shape {list(value.shape)}"
        fail_type(op, name, "a number", got)
    return value.detach().item()
