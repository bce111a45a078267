"""The order in which edges match: heavier first, equal weights in a random order."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops.ops.inverse_index.inverse_index import stable_order

# as many bits of an int64 key as one pass over int32 keys takes, on a device without int64 sorts
_CHUNK = 21
_WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def random_order(count: int, device: torch.device) -> Tensor:
    """A permutation of `count` edges from torch's generator of the device: int64 on the device."""
    if device.type in ("cpu", "meta"):
        return torch.randperm(count, device=device, dtype=torch.int64)
    # random keys in our own stable order: torch's randperm rests on MPS sorts that have been wrong
    highest = 2**31 - 1
    keys = torch.randint(highest, (count,), dtype=torch.int32, device=device)
    return _order(keys, highest)


def may_match(weight: Tensor) -> Tensor:
    """Whether an edge of that weight [E] may match: not NaN, not negative. -0 is zero."""
    if not weight.is_floating_point():
        return weight >= 0
    bits, infinity = _bits(weight)
    return ((bits >= 0) & (bits <= infinity)) | (bits == torch.iinfo(bits.dtype).min)


def edge_order(weight: Tensor | None, permutation: Tensor) -> Tensor:
    """Edges [E] in the order in which they match, int64; those that may not are anywhere."""
    if weight is None:
        return permutation
    keys, highest = _keys(weight)
    keys = torch.where(may_match(weight), keys, 0)
    if keys.dtype != torch.int64:
        return permutation[_order(keys.to(torch.int32)[permutation], highest)]
    if keys.device.type == "cpu":
        return permutation[torch.sort(keys[permutation], stable=True)[1]]
    for shift in range(0, 63, _CHUNK):
        chunk = (keys >> shift) & (2**_CHUNK - 1)
        permutation = permutation[_order(chunk.to(torch.int32)[permutation], 2**_CHUNK - 1)]
    return permutation


def _order(keys: Tensor, highest: int) -> Tensor:
    order: Tensor = stable_order(keys.contiguous(), highest)[1]
    return order.to(torch.int64)


def _bits(weight: Tensor) -> tuple[Tensor, int]:
    """Float weights as integers of their bits, and those of infinity.

    The bits of numbers that are not negative ascend as the numbers do. They are exact where
    arithmetic on the device takes subnormal numbers for zero.
    """
    whole = _WHOLE[weight.element_size()]
    infinity = torch.tensor(torch.inf, dtype=weight.dtype, device="cpu").view(whole)
    return weight.contiguous().view(whole), int(infinity)


def _keys(weight: Tensor) -> tuple[Tensor, int]:
    """Keys that ascend from 0 as the weights that may match descend, and their highest."""
    if not weight.is_floating_point():
        highest = torch.iinfo(weight.dtype).max
        wide = weight if weight.dtype == torch.int64 else weight.to(torch.int32)
        return highest - wide, highest
    bits, infinity = _bits(weight)
    # the sign of -0 goes; bits above those of infinity are NaN, which never matches
    return infinity - (bits & torch.iinfo(bits.dtype).max), infinity
