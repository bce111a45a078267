"""Farthest point sampling on MPS: launches of `fps.metal` and `rounds.metal`."""

from __future__ import annotations

import torch
from torch import Tensor

from mps_pointops._metal import (
    STEPS_PER_DISPATCH,
    THREADS_PER_DISPATCH,
    Source,
    blocks,
    choices,
    launch,
)
from mps_pointops._rules import distance_rule
from mps_pointops.spatial.build import build

_OPTIONS = {"RULE": (0, 1, 2), "DIM": (3, 0)}
_SHARED = ("threshold", "sampling", "chunks")
UPDATE = Source(__package__, "rounds", _OPTIONS, *_SHARED, kernels=("fps_update",))
SAMPLE = Source(__package__, "fps", _OPTIONS, *_SHARED, "front")

# as in the kernels
EACH, CHUNK, LISTED, HELD = 4, 128, 64, 8
WHOLE, LISTS, REST = 0, 1, 2
KEPT, SORTED, DEALT = 0, 1, 2
MODE = 12  # place of the mode in `shape`

# Steps (see `_metal/dispatch.py`) of a round, and of rounds between two waits. They keep the GPU
# busy, so they may be more than those of a kernel whose speed nobody knows.
STEPS_PER_ROUND = 2**35
STEPS_PER_WAIT = 2**37
# Distances of one threadgroup in one dispatch, about; and such dispatches between two waits.
REST_STEPS = 2**30
REST_PER_WAIT = 8


def fps_mps(
    points: Tensor,
    ptr: Tensor | None,
    out_ptr: Tensor | None,
    start: Tensor | None,
    clouds: int,
    picks: int,
    largest: int,
    most: int,
    start_idx: int,
    skip_near_origin: bool,
    rule: int,
    ties: int,
) -> Tensor:
    """Operator kernel; arguments as the schema in `fps.py`."""
    distance_rule("fps", rule)
    points = points.detach().contiguous()
    out = torch.empty(picks, dtype=torch.int64, device=points.device)
    if clouds == 0 or picks == 0:
        return out
    job = _Job(points, ptr, out_ptr, start, out, clouds, largest, most, start_idx)
    job.shape[5:7] = [int(skip_near_origin), ties]
    job.options = (rule, 3 if points.shape[1] <= 3 else 0)
    alone = 1 << job.alone
    if largest <= alone or not job.equal:
        job.sample_small(min(largest, alone), min(most, alone))
    if largest > alone:
        job.sample_large(largest, most)
    return out


class _Job:
    """What the kernels are given: the same in all dispatches but for a few numbers."""

    def __init__(
        self,
        points: Tensor,
        ptr: Tensor | None,
        out_ptr: Tensor | None,
        start: Tensor | None,
        out: Tensor,
        clouds: int,
        largest: int,
        most: int,
        start_idx: int,
    ) -> None:
        total, dim = points.shape
        self.dim, self.clouds, self.total = dim, clouds, total
        # the host knows the size of a single cloud too
        self.equal = equal = ptr is None or clouds == 1
        alone = choices.fps_alone_bits(dim)
        group = min(choices.fps_group_bits(largest), alone)
        if dim > 3:  # more work each
            group = min(group, 8)
        self.alone, self.group = alone, group
        self.candidates = choices.fps_candidates(largest, most)
        # threadgroups that update and that sample; sampling.metal tells which serve a large cloud
        self.updating = clouds * -(-largest >> group) if equal else (total >> (group - 1)) + 1
        self.sampling = clouds if equal else (total >> alone) + 1
        lists = self.updating if largest > 1 << alone else 0
        chunks = self.updating * ((1 << group) // CHUNK)
        sizes = [8 * chunks if lists else 0, 2 * LISTED * lists, 2 * lists, 4 * clouds, total]
        work = torch.empty(sum(sizes), dtype=torch.int32, device=points.device)
        leaves = None
        if largest > 1 << alone and dim <= 3 and choices.fps_sorts(largest, most):
            if equal:
                leaves = build(points, clouds=clouds).leaves
            elif ptr is not None:
                leaves = build(points, ptr[:-1], ptr[1:]).leaves
        order = SORTED if leaves is not None else DEALT if choices.fps_deals(largest) else KEPT
        boxes, listed, thresholds, states, nearest = torch.split(work, sizes)
        # what is not read is any tensor of that type that begins where vectors may
        ptr, out_ptr = (out, out) if ptr is None or out_ptr is None else (ptr, out_ptr)
        self.arguments = [points, boxes if leaves is None else leaves, ptr, out_ptr]
        self.arguments += [out if start is None else start]
        self.arguments += [nearest, boxes, states, thresholds, listed, out]
        self.options = (0, 3)
        # places: sampling.metal
        self.shape = [dim, int(equal), largest, most, start_idx if start is None else -1, 0, 0]
        self.shape += [clouds, alone, group, order]

    def sample_small(self, size: int, most: int) -> None:
        """Clouds that one threadgroup samples; larger ones are left alone."""
        threads = choices.fps_alone_threads(size, self.clouds)
        # a thread costs at least this much of the work that is allowed, which bounds the grid too
        least = threads * STEPS_PER_DISPATCH // THREADS_PER_DISPATCH
        steps = max(size * most * self.dim, least)
        for first, last in blocks(self.clouds, steps, STEPS_PER_DISPATCH):
            self._sample(WHOLE, True, last - first, threads, base=first)

    def sample_large(self, size: int, most: int) -> None:
        """The other clouds, in rounds, and what is left after them."""
        room = max(64, STEPS_PER_ROUND // (self.total * self.dim))
        rounds = choices.fps_rounds(size, most) + most // room
        first = True
        for begin, end in blocks(rounds, self.total * most * self.dim // rounds, STEPS_PER_WAIT):
            for _ in range(begin, end):
                self._update(first)
                self._sample(LISTS, first, self.sampling, choices.FPS_THREADS, room=room)
                first = False
        # Rounds of few picks need many points that lie together, so they are few themselves; no
        # bound is certain, and the last dispatch has none.
        work = min(2 * size * most, 8 * size * size // self.candidates)
        budget = REST_STEPS * 4 // max(4, self.dim) // max(1, self.sampling // 16)
        count = -(-work // budget)
        for number in range(1, count + 1):
            limit = budget if number < count else -1
            self._sample(REST, False, self.sampling, choices.FPS_THREADS, budget=limit)
            if number % REST_PER_WAIT == 0:
                torch.mps.synchronize()

    def _update(self, first: bool) -> None:
        shape = [*self.shape, int(first), LISTS, 0, 0, 0, 0]
        kernel, size = UPDATE.kernel(*self.options), (1 << self.group) // EACH
        launch(kernel, *self.arguments, shape, groups=self.updating, group_size=size)

    def _sample(
        self,
        mode: int,
        first: bool,
        groups: int,
        threads: int,
        *,
        base: int = 0,
        room: int = 2**31,
        budget: int = -1,
    ) -> None:
        # a round ends soon, what is left over takes all that the threads can hold
        hold = self.candidates if mode == LISTS else HELD * threads
        shape = [*self.shape, int(first), mode, base, room, budget, hold]
        kernel = SAMPLE.kernel(*self.options)
        launch(kernel, *self.arguments, shape, groups=groups, group_size=threads)
