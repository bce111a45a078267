"""Stable order of integer keys on MPS: launches of `inverse_index.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import Source, launch
from mps_pointops._metal.choices import SORT_FEW_TILES, SORT_LONG_TILES

DIGIT_BITS = 10  # as in inverse_index.metal
STEPS = (4, 8)  # of a tile: 256 pairs each
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
    if keys.shape[0] == 0:
        return torch.empty_like(keys), torch.empty_like(keys)
    return Sort(keys, max(1, highest.bit_length())).run()


class Sort:
    """A sort of keys [n], int32, of so many bits, n from 1.

    Attributes:
        steps: A tile is 256 * steps keys.
        tiles: How many there are.
        table: Counts of the first digit, by tile [tiles or more, 1024], int32: whoever makes the
            keys may fill it.
        counted: Whether that was done.
    """

    def __init__(self, keys: Tensor, bits: int) -> None:
        self.keys, self.bits = keys, bits
        self.steps = STEPS[keys.shape[0] > SORT_LONG_TILES]
        self.tiles = -(-keys.shape[0] // (256 * self.steps))
        self.placed = self.tiles > SORT_FEW_TILES
        rows = self.tiles + self.placed
        self.table = torch.empty((rows, _DIGITS), dtype=torch.int32, device=keys.device)
        self.counted = False

    def run(self) -> tuple[Tensor, Tensor]:
        """The keys in ascending order, and where each was; equal keys keep their order."""
        keys, count = self.keys, self.keys.shape[0]
        count_digits, place_tiles, move_pairs = (
            SOURCE.kernel(0, 3, self.steps, name=name) for name in SOURCE.kernels
        )
        ordered, order = torch.empty_like(keys), torch.empty_like(keys)
        grid = {"groups": self.tiles, "group_size": 256}
        pairs, stride = keys, 1
        for shift in range(0, self.bits, DIGIT_BITS):
            last = shift + DIGIT_BITS >= self.bits
            shape = [count, stride, shift, min(DIGIT_BITS, self.bits - shift)]
            if shift or not self.counted:
                launch(count_digits, pairs, self.table, shape, **grid)
            if self.placed:
                launch(place_tiles, self.table, self.tiles, groups=_DIGITS // 32, group_size=1024)
            moved = keys.new_empty((0 if last else count, 2))
            launch(
                move_pairs,
                pairs,
                self.table,
                ordered if last else moved,  # the last digit writes to the other two
                ordered,
                order,
                [*shape, self.tiles, int(self.placed), int(last)],
                **grid,
            )
            pairs, stride = moved, 2
        return ordered, order
