"""Stable order of integer keys on MPS: launches of `inverse_index.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, launch
from mps_pointops._metal.choices import SORT_FEW_TILES, SORT_LONG_TILES

DIGIT_BITS = 10  # as in inverse_index.metal
STEPS = (4, 16)  # of a tile: 256 pairs each
_DIGITS = 2**DIGIT_BITS

SOURCE = Source(
    __package__,
    "inverse_index",
    {"RULE": (0,), "DIM": (3,), "STEPS": STEPS},
    kernels=("count_digits", "place_tiles", "move_pairs"),
)


def stable_order_mps(keys: Tensor, highest: int) -> tuple[Tensor, Tensor]:
    """Operator kernel; arguments as the schema in `inverse_index.py`."""
    keys = keys.detach().contiguous()
    count = keys.shape[0]
    ordered, order = torch.empty_like(keys), torch.empty_like(keys)
    if count == 0:
        return ordered, order
    steps = STEPS[count > SORT_LONG_TILES]
    count_digits, place_tiles, move_pairs = (
        SOURCE.kernel(0, 3, steps, name=name) for name in SOURCE.kernels
    )
    tiles = -(-count // (256 * steps))
    placed = tiles > SORT_FEW_TILES
    table = torch.empty((tiles + placed, _DIGITS), dtype=torch.int32, device=keys.device)
    pairs, stride, bits = keys, 1, max(1, highest.bit_length())
    for shift in range(0, bits, DIGIT_BITS):
        last = shift + DIGIT_BITS >= bits
        width = min(DIGIT_BITS, bits - shift)
        shape = [count, stride, shift, width]
        launch(count_digits, pairs, table, shape, groups=tiles, group_size=256)
        if placed:
            launch(place_tiles, table, tiles, groups=_DIGITS // 32, group_size=1024)
        moved = keys.new_empty((0 if last else count, 2))
        launch(
            move_pairs,
            pairs,
            table,
            ordered if last else moved,  # the last digit writes to the other two
            ordered,
            order,
            [*shape, tiles, int(placed), int(last)],
            groups=tiles,
            group_size=256,
        )
        pairs, stride = moved, 2
    return ordered, order
