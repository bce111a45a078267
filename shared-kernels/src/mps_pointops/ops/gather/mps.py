"""Gather and scatter on MPS: launches of `gather.metal`, `chunks.metal` and `scatter.metal`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mps_pointops._metal import Source, blocks, choices, launch
from mps_pointops.ops.inverse_index.inverse_index import positions_of

_COMMON = {"RULE": (0,), "DIM": (3,)}
HELD = (16, 32)  # KiB of threadgroup memory
SOURCE = Source(
    __package__,
    "gather",
    {**_COMMON, "WORD": (2, 4), "INDEX": (4, 8), "HELD": HELD},
    kernels=("gather", "gather_held"),
)
CHUNKS = Source(__package__, "chunks", {**_COMMON, "INDEX": (4, 8)}, kernels=("sort_chunks",))
_SUMS_HELD = (24, 32)
SUMS = Source(
    __package__,
    "scatter",
    {**_COMMON, "WEIGHTED": (0, 1), "ROWS": (1, 2), "HELD": _SUMS_HELD},
    kernels=("add_chunks", "add_far_chunks", "add_positions"),
)

CHUNK, _SUMS_THREADS = 1024, 512  # as in the kernels
RESULTS_PER_DISPATCH = 2**28
_THREADS = {16: 512, 32: 1024}  # what fills a core with one or two such threadgroups
_WORDS = {2: torch.int16, 4: torch.int32}
_NAN = {torch.float32: 0x7FC00000, torch.float16: 0x7E00, torch.bfloat16: 0x7FC0}


def held_rows(row: int, clouds: int, channels: int) -> tuple[int, int]:
    """How rows of so many bytes are held: KiB of threadgroup memory, and rows a threadgroup.

    No rows: they do not fit.
    """
    if row > HELD[-1] * 1024:
        return HELD[-1], 0
    held = next(h for h in HELD if 2 * row <= h * 1024 or h == HELD[-1])
    return held, shared_rows(held * 1024 // row, clouds, channels)


def shared_rows(most: int, clouds: int, channels: int) -> int:
    """Rows a threadgroup, of at most so many: fewer if some threadgroups would have none."""
    rows = min(most, choices.GATHER_ROWS, channels)
    while rows > 1 and clouds * -(-channels // rows) < choices.GATHER_GROUPS:
        rows -= 1
    return rows


@dataclass
class Grid:
    """How results (B, C, M) are shared out.

    Attributes:
        held: KiB of threadgroup memory that features are brought to, or 0.
        groups: Threadgroups.
        threads: Threads of each.
        results: Results of each.
        shape: What a kernel has to know of it.
    """

    held: int
    groups: int
    threads: int
    results: int
    shape: list[int]


def grid_of(size: int, word: int, clouds: int, channels: int, count: int, reads: int) -> Grid:
    """For `count` results a channel, with so many reads in rows of `size` words."""
    held, rows = held_rows(size * word, clouds, channels)
    if rows == 0 or reads < choices.GATHER_READS * size:
        threads, rows = 256, choices.GATHER_CHANNELS
        groups = clouds * -(-channels // rows) * -(-count // threads)
        return Grid(0, groups, threads, rows * threads, [rows])
    threads, groups = _THREADS[held], clouds * -(-channels // rows)
    parts = min(-(-choices.GATHER_GROUPS // groups), -(-count // (4 * threads)))
    results = -(-count // parts)
    return Grid(held, groups * -(-count // results), threads, rows * results, [rows, results])


def gather_mps(features: Tensor, index: Tensor) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`."""
    features, index = features.detach().contiguous(), index.detach().contiguous()
    clouds, channels, size = features.shape
    count = index.shape[1]
    out = features.new_empty((clouds, channels, count))
    if size == 0 or out.numel() == 0:
        return out.fill_(torch.nan)
    word = features.element_size()
    grid = grid_of(size, word, clouds, channels, count, count)
    name = "gather_held" if grid.held else "gather"
    kernel = SOURCE.kernel(0, 3, word, index.element_size(), grid.held or HELD[0], name=name)
    for first, end in blocks(grid.groups, grid.results, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            features.view(_WORDS[word]),
            index,
            out.view(_WORDS[word]),
            [channels, size, count, _NAN[features.dtype], *grid.shape, first],
            groups=end - first,
            group_size=grid.threads,
        )
    return out


def scatter_mps(values: Tensor, index: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Operator kernel; arguments as the schema in `gather.py`."""
    dtype = values.dtype
    values = values.detach().to(torch.float32).contiguous()
    index = index.detach().contiguous()
    clouds, channels, _ = values.shape
    count = index.shape[1]
    out = values.new_empty((clouds, channels, size))
    if out.numel() == 0 or count == 0:
        return out.zero_().to(dtype)
    weights = values if weight is None else weight.detach().to(torch.float32).contiguous()
    chunks = -(-count // CHUNK)
    if clouds * channels >= choices.SCATTER_ROWS * chunks and size < 2**22:
        _add_chunks(values, weights, index, out, weight is not None)
    else:
        _add_positions(values, weights, index, out, weight is not None)
    return out.to(dtype)


def _add_chunks(
    values: Tensor, weights: Tensor, index: Tensor, out: Tensor, weighted: bool
) -> None:
    clouds, channels, size = out.shape
    count = index.shape[1]
    chunks = -(-count // CHUNK)
    tasks = index.new_empty((clouds * chunks, CHUNK), dtype=torch.int64)  # two numbers of 32 bits
    launch(
        CHUNKS.kernel(0, 3, index.element_size()),
        index,
        tasks,
        [count, size, chunks],
        groups=clouds * chunks,
        group_size=CHUNK,
    )
    rows = shared_rows(2, clouds, channels)
    held = _held_for_sums(size, rows)
    if held is None and rows > 1:
        rows, held = 1, _held_for_sums(size, 1)
    name = "add_far_chunks" if held is None else "add_chunks"
    kernel = SUMS.kernel(0, 3, int(weighted), rows, held or _SUMS_HELD[0], name=name)
    for first, end in blocks(clouds * -(-channels // rows), rows * count, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            values,
            weights,
            tasks,
            out,
            [channels, size, count, chunks, first],
            groups=end - first,
            group_size=_SUMS_THREADS,
        )


def _held_for_sums(size: int, rows: int) -> int | None:
    """KiB of threadgroup memory for the sums of some rows, if they fit."""
    need = 4 * rows * (2 * CHUNK + size)
    return next((held for held in _SUMS_HELD if need <= 1024 * held), None)


def _add_positions(
    values: Tensor, weights: Tensor, index: Tensor, out: Tensor, weighted: bool
) -> None:
    _, channels, size = out.shape
    count = index.shape[1]
    order, starts = positions_of(index, size)
    kernel = SUMS.kernel(0, 3, int(weighted), 1, _SUMS_HELD[0], name="add_positions")
    for first, end in blocks(out.numel(), 1, RESULTS_PER_DISPATCH):
        launch(
            kernel,
            values,
            weights,
            order,
            starts,
            out,
            [channels, size, count, first, end],
            groups=-(-(end - first) // 256),
            group_size=256,
        )
