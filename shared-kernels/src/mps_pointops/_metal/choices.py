"""Which kernel serves which sizes: the thresholds, each with its evidence.

Choices depend on sizes alone, never on values or on a chip's name. Every kernel gives the same
answer, so a threshold that fits a chip badly costs time and nothing else.
"""

from __future__ import annotations

import math

# Up to three nearest neighbours: the most points that every query looks at one by one.
FEW_POINTS = 8192
# ... and lanes to keep busy: fewer queries get several lanes each.
FEW_LANES = 2**17

# Ball query by a scan: simdgroups to keep busy; fewer queries get several each.
BALL_SIMDGROUPS = 2**13
# Ball query builds a tree for clouds of at least so many points, ...
BALL_TREE_POINTS = 8192
# ... so many pairs of a query and a point, ...
BALL_TREE_PAIRS = 2**24
# ... and K**2 up to so many times the points: each 256 places are a walk of their own.
BALL_TREE_PLACES = 64
# Ball query in a tree: rows scanned at a time before the walk.
BALL_PROBE = 512
# ... rows that the last hit may still be away, by what was found, for the scan to go on.
BALL_REACH = 4096
# ... rows that are scanned in the time of one step of a walk.
BALL_CUT = 128

# k nearest neighbours by every pair: threadgroups that keep the GPU busy, for which several share
# the points of a query, ...
KNN_GROUPS = 512
# ... from so many threadgroups of 8 queries on, small ones;
KNN_SMALL_GROUPS = 2048
# ... each at least so many points; those of more than three coordinates are more work.
KNN_PART = 4096
KNN_FEATURE_PART = 256
# ... the threshold is made of one block in up to so many, and of so many points a neighbour at
# least.
KNN_SAMPLE = 8
KNN_SAMPLED = 64

# Farthest point sampling: logarithm of the largest cloud that one threadgroup samples by itself.
FPS_ALONE_BITS = 12


def fps_alone_threads(size: int) -> int:
    """Threads of such a threadgroup; each holds up to 8 points."""
    return max(64, min(256, -(-size // 128) * 32), -(-size // 256) * 32)


def fps_threads(size: int, picks: int) -> int:
    """Threads, each with up to 8 candidates, that sample the candidates of a round."""
    return 512 if size >= 2**15 and picks <= size // 32 else 256


def fps_group_bits(size: int) -> int:
    """Logarithm of the points that a threadgroup updates."""
    return 10 if size < 2**18 else 12


def fps_rounds(size: int, picks: int) -> int:
    """Rounds after which the picks are done, nearly always.

    Early rounds pick little, for the farthest points lie close together; later ones about half of
    their candidates. Fitted to the counts of a LiDAR scan, the slowest of several kinds of clouds
    of 5,000 to 1,000,000 points, and a tenth more; what is left is picked too, but slowly.
    """
    candidates = min(8 * fps_threads(size, picks), 64 * -(-size >> fps_group_bits(size)))
    early = 3.6 * math.log2(picks) - 11 + 4 * max(0, math.log2(size) - 17)
    return max(1, min(picks, math.ceil(max(early, 4) + picks / candidates)))


def fps_sorts(size: int, picks: int) -> bool:
    """Whether points are sorted along a curve first, so that boxes of some in a row are small."""
    return False

# SpatialIndex makes a tree of clouds of at least so many points, ...
INDEX_POINTS = 1024
# ... and searches balls in it for K**2 up to so many times the points.
INDEX_BALL_PLACES = 64

# Gather, scatter, interpolate: threadgroups that keep the GPU busy; for fewer, rows are shared out.
GATHER_GROUPS = 256
# ... rows of features in one threadgroup's memory, which share the reading of indices: 32 x 64 x 16384
# of 1024 on an H200 takes 66 us with one row, 55 with two, 54 with four.
GATHER_ROWS = 4
# ... channels a thread goes through where features are not in threadgroup memory.
GATHER_CHANNELS = 8
