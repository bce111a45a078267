"""What ball queries on CPU tensors have found so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
        distance: Squared distances [M, K], 0 in free slots; None: not asked for.
        begin: Where the hits of each query begin [M] in `index`, which is then a list [E] with
            room for exactly those that there are; None: a table.
    """

    K: int
    counts: Tensor
    index: Tensor | None = None
    distance: Tensor | None = None
    begin: Tensor | None = None

    @classmethod
    def none(cls, query: Tensor, K: int) -> Hits:
        """No hit, in tables."""
        rows = len(query)
        return cls(
            K,
            query.new_zeros(rows, dtype=torch.int64),
            query.new_full((rows, K), -1, dtype=torch.int64),
            query.new_zeros((rows, K)),
        )

    @classmethod
    def uncounted(cls, query: Tensor, K: int) -> Hits:
        """No hit; they will only be counted."""
        return cls(K, query.new_zeros(len(query), dtype=torch.int64))

    @classmethod
    def listed(cls, index: Tensor, counts: Tensor, K: int) -> Hits:
        """No hit; `index` [E] will hold them, `counts` of each query, which are at most K."""
        begin = counts.cumsum(0).sub_(counts)
        return cls(K, torch.zeros_like(counts), index, begin=begin)

    def fill(self, rows: Array, counts: Array, index: Array, distance: Array | None) -> None:
        """All hits of some rows at once: `counts` of them come first in every row.

        `distance`: None if it is not asked for.
        """
        self.counts.numpy()[rows] = counts
        if self.index is None:
            return
        width = index.shape[1]
        if self.begin is not None:
            taken = np.arange(width) < counts[:, None]
            place = np.repeat(self.begin.numpy()[rows] - (counts.cumsum() - counts), counts)
            place += np.arange(len(place))
            self.index.numpy()[place] = index[taken]
            return
        self.index.numpy()[rows, :width] = index
        if self.distance is not None:
            assert distance is not None
            self.distance.numpy()[rows, :width] = distance

    def clear(self, rows: Array) -> None:
        """Take back what was found of some rows."""
        self.counts.numpy()[rows] = 0
        if self.begin is not None:
            return  # all of it is going to be written anew
        if self.index is not None:
            self.index.numpy()[rows] = -1
        if self.distance is not None:
            self.distance.numpy()[rows] = 0
