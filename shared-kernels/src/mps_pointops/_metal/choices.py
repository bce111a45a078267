"""Which kernel serves which sizes: the thresholds, each with its evidence.

Choices depend on sizes alone, never on values or on a chip's name. Every kernel gives the same
answer, so a threshold that fits a chip badly costs time and nothing else.
"""

from __future__ import annotations

import math

# Up to three nearest neighbours: so many points are looked at one by one by any number of queries,
# an H200 needs 0.018 ms for 256 queries of 1024 points, 0.087 ms for 100,000;
FEW_POINTS_ALWAYS = 1024
# ... up to so many by no fewer queries: 16,384 of 8192 take 0.13 ms and 4096 of them 0.06, with the
# kernel for any k 0.17 and 0.055;
FEW_POINTS = 8192
# ... and lanes to keep busy: fewer queries get several each.
FEW_LANES = 2**17

# Ball query by a scan: simdgroups to keep busy, teams of two queries get several each. On an H200
# 1024 queries of 100,000 points take 0.054 ms with 16 simdgroups a team and 0.11 with one, 4096
# 0.18 with 8 and 0.14 with one.
BALL_SIMDGROUPS = 2**13
# Ball query builds a tree for clouds of at least so many points, ...
BALL_TREE_POINTS = 8192
# ... so many pairs of a query and a point: on an H200 scan and tree are equally quick, 0.06 ms, for
# 3.4e7 pairs (4096 of 8192, 1024 of 32,768); 6.7e7 take 0.10 and 0.06. A Mac pays more for
# dispatches.
BALL_TREE_PAIRS = 2**26
# ... and K**2 up to so many times the points: each 256 places are a walk of their own.
BALL_TREE_PLACES = 64
# Ball query in a tree: rows scanned at a time before the walk. 0 to 512 rows differ by a tenth.
BALL_PROBE = 128
# ... rows scanned at most, if by what was found the last hit is no further away.
BALL_REACH = 4096
# ... rows that are scanned in the time of one step of a walk: of 64, 128, 256 and never, 64 has the
# quickest worst case of radii from 0.01 to 3 on a sphere, random and sorted (0.22 ms, H200).
BALL_CUT = 64
# ... rows of a cloud that is scanned without a walk.
BALL_WHOLE = 1024

# k nearest neighbours by every pair: threadgroups that keep the GPU busy, of up to 8 queries or of
# 32 with more than three coordinates. With fewer several share the points of a query, ...
KNN_GROUPS = 256
# ... each at least so many points; those of more than three coordinates are more work;
KNN_PART = 8192
KNN_FEATURE_PART = 256
# ... but not for so many queries. On an H200 1024 of 20,000, k=128, take 68 us in 256 groups and 84
# in twice 128; 32 of 1,000,000, k=16, take 158 us in 32 x 16 groups and 73 in 4 x 128.
KNN_MANY_ROWS = 1024
# Groups of 64 threads, not 256, for clouds up to this size, k <= 32, and so many groups: 32 x 1024,
# k=20, takes 109 us and 152, 8 x 1024 41 and 47, 4 x 1024 33 and 26; 16384 of 100,000, k=16, take
# 2.0 ms and 1.6.
KNN_SMALL_SIZE = 4096
KNN_SMALL_GROUPS = 1024
# One block in up to so many makes the threshold, and so many points a neighbour at least: 1024 of
# 100,000, k=128, take 207 us with one in 8, 238 with all; 1024 of 20,000 take 81 and 68.
KNN_SAMPLE = 8
KNN_SAMPLED = 128
# They are searched in a tree, built for the call, in clouds of at least so many points, ...
KNN_TREE_POINTS = 4096
# ... of at least so many points a neighbour: on an H200 4096 queries of 100,000, k=512, take
# 1.08 ms in a tree and 1.27 by every pair, k=1000, 2.14 and 2.03, ...
KNN_TREE_SHARE = 64
# ... for so many pairs of a query and a point: there 8000 in themselves, k=16, take 0.092 ms in a
# tree and 0.109, 12,000 take 0.111 and 0.202; 1024 of 100,000, k=128, take 0.189 and 0.187. An
# Apple GPU is expected to need more pairs, as the tree is eight dispatches more.
KNN_TREE_PAIRS = 2**27

# Farthest point sampling: logarithm of the largest cloud that one threadgroup samples by itself,
# of up to three coordinates; with more, of the largest number of coordinates.
FPS_ALONE_BITS = 12
FPS_ALONE_NUMBERS_BITS = 15


def fps_alone_bits(dim: int) -> int:
    """Logarithm of the largest such cloud of `dim` coordinates."""
    if dim <= 3:
        return FPS_ALONE_BITS
    return min(FPS_ALONE_BITS, max(8, FPS_ALONE_NUMBERS_BITS - (dim - 1).bit_length()))


def fps_alone_threads(size: int, clouds: int) -> int:
    """Threads of such a threadgroup; each holds up to 8 points.

    Few clouds leave room for more threads: 32 x 512 -> 128 takes 0.064 ms with 2 points a thread,
    0.100 with 8; 512 x 1024 -> 256 takes 0.35 and 0.19 (H200).
    """
    if size <= 256:
        return 32
    each = 4 if clouds < 64 else 8
    return min(512, max(64, -(-size // (32 * each)) * 32))


# Threads that sample the candidates of a round, each up to 8 of them, ...
FPS_THREADS = 512
# ... and candidates at most: more make fewer rounds, but each pick looks at all of them. 100,000 ->
# 1024 takes 0.83 ms so, 0.93 with 4096, 0.99 with 256 threads; -> 25,000 7.0, 9.3, 7.6 (H200).
FPS_CANDIDATES = 2048


def fps_candidates(size: int, picks: int) -> int:
    """Candidates of a round at most.

    Of very large clouds that keep their order the farthest points lie together in a few places:
    1,000,000 of a scan -> 1024 takes 2.78 ms with 4096 and 2.94 with 2048, LiDAR 2.56 and 2.58, a
    sphere 2.36 and 2.36; 300,000 of the scan 1.53 and 1.49; sorted, 1,000,000 -> 25,000, 10.0 and
    8.0 (H200).
    """
    return FPS_CANDIDATES * (2 if size >= 2**19 and not fps_sorts(size, picks) else 1)


def fps_group_bits(size: int) -> int:
    """Logarithm of the points that a threadgroup updates.

    It lists up to 64 of them: 20,000 -> 1024 takes 0.52 ms with 1024 points, 0.56 with 512;
    1,000,000 -> 1024 2.2 ms with 4096, 2.8 with 2048 (H200).
    """
    return 10 if size < 2**18 else 12


def fps_rounds(size: int, picks: int) -> int:
    """Rounds after which the picks are done, nearly always.

    Early rounds pick little, for the farthest points lie close together; later ones about half of
    their candidates. Fitted to the counts of two scans, the slowest of several kinds of clouds of
    5,000 to 1,000,000 points, and some more: what is left over is picked too, but slowly. A scan of
    500,000 -> 8000 needs 56 rounds, 250,000 -> 8000 48, 1,000,000 -> 4096 46; a round too many
    takes 5 us, a few too few of 1,000,000 points 30 ms (H200).
    """
    candidates = min(fps_candidates(size, picks), 64 * -(-size >> fps_group_bits(size)))
    early = 3.6 * math.log2(picks) - 11 + 6.5 * max(0, math.log2(size) - 17)
    rounds = max(early, 4) + picks / candidates
    if fps_sorts(size, picks):
        rounds *= 1.15
    elif size > 2**17:
        rounds *= 1.2
    return max(1, min(picks, math.ceil(rounds)))


def fps_sorts(size: int, picks: int) -> bool:
    """Whether points are sorted along a curve first, so that boxes of some in a row are small.

    1,000,000 -> 25,000 takes 9.5 ms sorted and 17.8 as it comes, 100,000 -> 25,000 5.6 and 7.0,
    100,000 -> 4096 1.9 and 2.0; but 1,000,000 -> 4096 10 and 4.4, for far points then lie together
    and rounds get more (H200).
    """
    return picks >= 2**13 and size * picks >= 2**31


def fps_deals(size: int) -> bool:
    """Whether points in a row go to different threadgroups, where they are not sorted.

    A scan of 1,000,000 with dozens of points in a place in a row -> 1024 takes 63 rounds kept
    together, 42 dealt out: 47 ms and 2.9. But boxes are large then: a scan of 100,000 takes 0.96 ms
    as it comes and 1.02 dealt out (H200).
    """
    return size >= 2**18


# Stable order: up to so many tiles each adds up the counts of all by itself, which takes as long
# as one more dispatch at 20 tiles on an H200, and 7 us longer at 49.
SORT_FEW_TILES = 32
# ... more keys than this are cut into tiles of 2048 instead of 1024: at 100,000 keys those take 1.2
# times as long there, at 1,000,000 as long, with half of the counts.
SORT_LONG_TILES = 2**18

# SpatialIndex makes a tree of clouds of at least so many points, ...
INDEX_POINTS = 1024
# ... and looks for neighbours in it if points are so many times as many: 128 nearest among 8,000
# take 61 us in the tree and 50 by every pair on an H200 for 1,024 queries, 143 and 205 for 8,000.
INDEX_SHARE = 56
# ... and searches balls in it for K**2 up to so many times the points.
INDEX_BALL_PLACES = 64

# Gather, scatter, interpolate: threadgroups that keep the GPU busy; for fewer, rows are shared out.
GATHER_GROUPS = 256
# ... rows of features in one threadgroup's memory, which share the reading of indices: 32 x 64 x
# 16384 of 1024 on an H200 takes 66 us with one row, 55 with two, 54 with four.
GATHER_ROWS = 4
# ... channels a thread goes through where features are not in threadgroup memory.
GATHER_CHANNELS = 8
# ... rows are brought to threadgroup memory if they are read so often, compared with their length:
# 32 x 64 rows of 4096 took 21 us for 1024 reads and 62 for 16384; left where they are, 16 and 180.
GATHER_READS = 0.5

# Scatter: rows for each chunk of 1024 positions from which on sums go chunk by chunk. 24 rows of 16
# chunks take 26 us on an H200 (53 through the inverse index), 64 rows of 64 chunks 141 (105), but
# if all positions are of one target 312 (3631).
SCATTER_ROWS = 1
