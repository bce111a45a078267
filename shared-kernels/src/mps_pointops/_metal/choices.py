"""Which kernel serves which sizes: the thresholds, each with its evidence.

Choices depend on sizes alone, never on values or on a chip's name. Every kernel gives the same
answer, so a threshold that fits a chip badly costs time and nothing else.
"""

from __future__ import annotations

# Up to three nearest neighbours: the most points that every query looks at one by one.
FEW_POINTS = 8192
# ... and lanes to keep busy: fewer queries get several lanes each.
FEW_LANES = 2**16

# Ball query in a tree: rows scanned at a time before the walk.
BALL_PROBE = 512
# ... rows that the last hit may still be away, by what was found, for the scan to go on.
BALL_REACH = 4096
# ... rows that are scanned in the time of one step of a walk.
BALL_CUT = 128

# k nearest neighbours by every pair: threadgroups that keep the GPU busy, for which several share the
# points of a query, ...
KNN_GROUPS = 512
# ... each at least so many points; those of more than three coordinates are more work.
KNN_PART = 4096
KNN_FEATURE_PART = 256
# ... the threshold is made of one block in up to so many, and of so many points a neighbour at least.
KNN_SAMPLE = 8
KNN_SAMPLED = 64

FPS_ALONE_BITS = 12
FPS_LOCAL_THREADS = 256


def fps_group_bits(size: int) -> int:
    return 10 if size < 2**18 else 12


def fps_rounds(size: int, picks: int) -> int:
    return 40
