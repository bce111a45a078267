"""Stable order of integer keys on MPS: launches of `inverse_index.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, launch

SIMDGROUPS, TILE, DIGITS = 8, 1024, 256  # as in inverse_index.metal

SOURCE = Source(
    __package__,
    "inverse_index",
    {"RULE": (0,), "DIM": (3,)},
    kernels=("count_digits", "move_pairs"),
)


def stable_order_mps(keys: Tensor, highest: int) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `inverse_index.py`."""
    keys = keys.detach().contiguous()
    count = keys.shape[0]
    values = torch.arange(count, dtype=torch.int32, device=keys.device)
    if count == 0:
        return keys.clone(), values
    tiles = -(-count // TILE)
    grid = {"groups": -(-tiles // SIMDGROUPS), "group_size": 32 * SIMDGROUPS}
    table = torch.empty(DIGITS * tiles, dtype=torch.int32, device=keys.device)
    for shift in range(0, max(1, highest.bit_length()), 8):
        shape = [count, tiles, shift]
        launch(SOURCE.kernel(0, 3, name="count_digits"), keys, table, shape, **grid)
        places = table.cumsum(0, dtype=torch.int32) - table
        sorted_keys, sorted_values = torch.empty_like(keys), torch.empty_like(values)
        move = SOURCE.kernel(0, 3, name="move_pairs")
        launch(move, keys, values, places, sorted_keys, sorted_values, shape, **grid)
        keys, values = sorted_keys, sorted_values
    return keys, values
