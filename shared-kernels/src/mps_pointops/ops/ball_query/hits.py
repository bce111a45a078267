"""What ball queries on CPU tensors have found so far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._cpu.pairs import Array


@dataclass
class Hits:
    """Hits of all queries, in input order, up to K of each.

    Attributes:
        K: Slots of a query.
        counts: Slots filled [M].
        index: Rows of the reference set [M, K], -1 in free slots; None: hits are only counted.
        distance: Squared distances [M, K], 0 in free slots; None likewise.
    """

    K: int
    counts: Tensor
    index: Tensor | None
    distance: Tensor | None

    @classmethod
    def none(cls, query: Tensor, K: int, *, only_count: bool = False) -> Hits:
        """No hit."""
        rows = len(query)
        return cls(
            K,
            query.new_zeros(rows, dtype=torch.int64),
            None if only_count else query.new_full((rows, K), -1, dtype=torch.int64),
            None if only_count else query.new_zeros((rows, K)),
        )

    def fill(self, rows: Array, counts: Array, index: Array, distance: Array) -> None:
        """All hits of some rows at once: `counts` of them come first in every row."""
        self.counts.numpy()[rows] = counts
        if self.index is not None and self.distance is not None:
            width = index.shape[1]
            self.index.numpy()[rows, :width] = index
            self.distance.numpy()[rows, :width] = distance

    def clear(self, rows: Array) -> None:
        """Take back what was found of some rows."""
        self.counts.numpy()[rows] = 0
        if self.index is not None and self.distance is not None:
            self.index.numpy()[rows], self.distance.numpy()[rows] = -1, 0
