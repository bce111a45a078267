"""Which points a row looks at, blocks of rows of bounded work, and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mps_pointops._cpu.pairs import Array

# pairs looked at together
PAIRS = 2**19


@dataclass
class Runs:
    """Runs of rows that look at the same points: rows begin ... end, points low ... high [runs].

    Runs without rows or points are left out.
    """

    begin: Array
    end: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.begin)

    def only(self, kept: Array) -> Runs:
        """Some of the runs."""
        return Runs(*(field[kept] for field in self.fields))

    @property
    def fields(self) -> tuple[Array, Array, Array, Array]:
        """The four numbers of each run."""
        return self.begin, self.end, self.low, self.high

    @property
    def rows(self) -> Array:
        """How many rows each has."""
        return self.end - self.begin

    @property
    def sizes(self) -> Array:
        """How many points each looks at."""
        return self.high - self.low


def runs(rows: int, size: int, first: Tensor | None, last: Tensor | None, clouds: int) -> Runs:
    """Runs of all rows; arguments as those of the operators."""
    if first is None or last is None:
        number = np.arange(clouds if rows and size else 0)
        m, n = rows // max(clouds, 1), size // max(clouds, 1)
        return Runs(number * m, (number + 1) * m, number * n, (number + 1) * n)
    low, high = first.numpy(), last.numpy()
    starts = np.ones(rows, np.bool_)
    starts[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    begin = starts.nonzero()[0]
    found = Runs(begin, np.append(begin, rows)[1:], low[begin], high[begin])
    return found.only(found.low < found.high)


def count_in_cloud(index: Tensor, clouds: int, size: int) -> Tensor:
    """Indices [M, k] into equal clouds of `size` points, as indices into each; -1 stays."""
    base = torch.arange(clouds, device="cpu").unsqueeze(1) * size
    return torch.where(index < 0, index, (index.view(clouds, -1) - base).view_as(index))


@dataclass
class Block:
    """Rows that are searched together: row i looks at points low[i] ... high[i], `size` at most."""

    row: Tensor
    low: Tensor
    high: Tensor
    size: int


def blocks(found: Runs, pairs: int = 0) -> Iterator[Block]:
    """All rows of all runs.

    Rows with fewer points share a block with others if little is wasted. `pairs`: how many pairs to
    look at together, if not `PAIRS`.
    """
    pairs = max(1, pairs or PAIRS)
    order = found.sizes.argsort(kind="stable")
    rows, sizes = found.rows[order], found.sizes[order]
    begins, lows, highs = found.begin[order], found.low[order], found.high[order]
    ends = rows.cumsum()
    at = 0
    while at < len(order):
        # runs of about this size, as many as one block holds, or one run in several blocks
        most = np.searchsorted(sizes, sizes[at] + sizes[at] // 4 + 16, side="right")
        total = ends[at:most] - (ends[at - 1] if at else 0)
        held = int(np.searchsorted(total * sizes[at:most], pairs, side="right"))
        to = at + max(1, held)
        count = rows[at:to]
        row = np.repeat(begins[at:to] - (count.cumsum() - count), count)
        row += np.arange(len(row))
        low, high = np.repeat(lows[at:to], count), np.repeat(highs[at:to], count)
        size = int(sizes[to - 1])
        step = max(1, pairs // size)
        for begin in range(0, len(row), step):
            here = slice(begin, begin + step)
            parts = [torch.from_numpy(part[here]) for part in (row, low, high)]
            yield Block(parts[0], parts[1], parts[2], size)
        at = to


class Windows:
    """Coordinates of the points that the rows of a block look at."""

    def __init__(self, points: Tensor, most: int) -> None:
        rest = points.new_full((points.shape[1], most), torch.nan)
        self.columns = torch.cat((points.t(), rest), dim=1)

    def coordinate(self, d: int, low: Tensor, size: int) -> Tensor:
        """Coordinate d of points low ... low + size - 1: [rows, size], or [1, size] if all are one.

        NaN beyond the last point of all.
        """
        column, begin = self.columns[d], int(low[0])
        if bool((low == begin).all()):
            return column[begin : begin + size].unsqueeze(0)
        return column.unfold(0, size, 1)[low]

    def rough_distance(self, query: Tensor, low: Tensor, size: int) -> Tensor:
        """Squared distances [rows, size] without care for rounding; NaN is inf."""
        rough = query.new_zeros((len(query), size))
        for d, q in enumerate(query.t()):
            difference = q.unsqueeze(1) - self.coordinate(d, low, size)
            rough.addcmul_(difference, difference)
        return torch.where(torch.isnan(rough), torch.inf, rough)


def rows_a_task(rows: int, most: int) -> int:
    """Rows of a search in one of the tasks that it is cut into, at most `most`.

    Every thread gets some, but a task of fewer than 256 rows takes longer to start than it saves.
    """
    return max(1, min(most, max(256, -(-rows // torch.get_num_threads()))))


def together(tasks: list[Callable[[], None]]) -> None:
    """Do all tasks, in as many threads as torch has."""
    threads = min(torch.get_num_threads(), len(tasks))
    if threads <= 1:
        for task in tasks:
            task()
        return
    # a mode of the calling thread, without which its tensors may not be written to
    inference = torch.is_inference_mode_enabled()

    def run(task: Callable[[], None]) -> None:
        with torch.inference_mode(inference):
            task()

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(run, task) for task in tasks]:
            done.result()
