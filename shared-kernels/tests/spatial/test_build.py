"""The tree that the kernels build is the reference's, bit for bit."""

import pytest
import torch

import mps_emulator
from mps_pointops.ops.inverse_index import mps as sort
from mps_pointops.spatial import build as room
from mps_pointops.spatial.build import build, key_bits
from mps_pointops.spatial.layout import levels
from mps_pointops.spatial.reference import tree_reference
from pointops_testing import assert_same_bits
from pointops_testing.clouds import CLOUDS, cloud

SIZES = (1, 31, 32, 33, 511, 513, 1023, 1024, 1025, 1056, 4097)


def check(points, begins=(), **clouds):
    got = build(points.to("mps"), **clouds)
    wanted = tree_reference(points, list(begins), room.key_bits(len(points)))
    assert got.dim == wanted.dim
    for name in ("frame", "keys", "leaves", "boxes"):
        bits = (getattr(tree, name).view(torch.int32) for tree in (got, wanted))
        assert_same_bits(*bits)
    assert got.levels == levels(len(points))
    return got


def ranges(pairs):
    first, last = torch.tensor(pairs).reshape(-1, 2).t().contiguous().to("mps")
    return {"first": first, "last": last}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dim", [1, 3])
def test_sizes(size, dim):
    check(cloud("random", size, dim))


def test_no_points():
    tree = build(torch.empty(0, 3, device="mps"))
    assert (tree.size, tree.levels, tree.leaves.shape, tree.boxes.shape) == (0, [], (0, 4), (0, 8))


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("size", [40, 1100])
def test_clouds(name, size):
    check(cloud(name, size))


def _adversary(name, size=1500):
    rng = torch.Generator().manual_seed(1)
    points = torch.rand(size, 3, generator=rng)
    if name == "far outliers":
        points[::50] = 1e6 * torch.rand(size // 50, 3, generator=rng)
    elif name == "cluster":
        points[:-150] = 512 + points[:-150] / 1000
        points[-150:] *= 1024
    elif name == "mostly one place":
        points[:-20] = 0
    elif name == "nothing finite":
        points[:] = torch.nan
    elif name == "nothing finite in the sample":
        points[[number * size // 256 for number in range(256)]] = torch.inf
    elif name == "largest":
        points = (points - 0.5).sign() * torch.finfo(torch.float32).max
    elif name == "subnormal":
        points = points * 1e-38
    elif name == "smallest":
        points = points * 2.0**-124
    elif name == "zeros of both signs":
        points = torch.where(points > 0.5, 0.0, -0.0)
    elif name == "sorted":
        points = points[points[:, 0].argsort()]
    return points


@pytest.mark.parametrize(
    "name",
    [
        "far outliers",
        "cluster",
        "mostly one place",
        "nothing finite",
        "nothing finite in the sample",
        "largest",
        "subnormal",
        "smallest",
        "zeros of both signs",
        "sorted",
    ],
)
def test_adversaries(name):
    check(_adversary(name))


@pytest.mark.parametrize(("clouds", "size"), [(2, 33), (5, 7), (40, 1), (3, 700), (1, 20)])
def test_equal_clouds(clouds, size):
    points = cloud("duplicates", clouds * size)
    check(points, range(0, clouds * size, size), clouds=clouds)


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 300)],
        [(0, 5), (0, 5), (5, 5), (5, 40), (40, 299), (299, 300)],
        [(10, 20), (20, 250)],  # no query in the first and the last clouds
        [(0, 0), (300, 300)],
        [],
    ],
)
def test_ragged_clouds(pairs):
    begins = [begin for pair in pairs for begin in pair]
    check(cloud("random", 300), begins, **ranges(pairs))


@pytest.mark.parametrize("size", [300, 5000])
def test_many_small_clouds(size):
    rng = torch.Generator().manual_seed(2)
    begins = torch.randint(size + 1, (size // 3,), generator=rng).sort().values.tolist()
    pairs = list(zip([0, *begins], [*begins, size], strict=True))
    check(cloud("not_finite", size), begins, **ranges(pairs))


@pytest.mark.parametrize(
    "pairs", [[(50, 90), (0, 10)], [(-5, 7), (10**12, 10**13)], [(0, 50), (20, 70)], [(90, 3)]]
)
def test_ranges_that_are_no_clouds_do_no_harm(pairs):
    points = cloud("random", 100)
    tree = build(points.to("mps"), **ranges(pairs))
    assert tree.order.cpu().sort().values.tolist() == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "lattice", "all_equal"])
def test_three_levels(name):
    check(cloud(name, 32 * 1024 + 1))


def test_kinds_of_tiles(monkeypatch):
    monkeypatch.setattr(sort, "SORT_LONG_TILES", 0)
    monkeypatch.setattr(sort, "SORT_FEW_TILES", 0)
    check(cloud("not_finite", 5000))


@pytest.mark.parametrize("bits", [30, 31])
def test_more_bits(monkeypatch, bits):
    monkeypatch.setattr(room, "key_bits", lambda _: bits)
    check(cloud("random", 1100))
    pairs = [(0, 3), (3, 700), (700, 1100)]
    check(cloud("duplicates", 1100), [3, 700], **ranges(pairs))


def test_every_size_has_a_key_for_each_point():
    for bits in (9, 18, 28):
        for size in (2**bits, 2**bits + 1):
            assert size * (2 ** key_bits(size) // size) > size
    assert key_bits(2**31 - 1) == 31


def test_levels_of_levels():
    """Boxes above the second level, without a large cloud: leaves are joined level by level."""
    points = cloud("random", 40_000)
    tree = build(points.to("mps"))
    (begin, count), (above, parents) = tree.levels[1:]
    boxes = tree.boxes.cpu()
    below = boxes[begin : begin + count]
    rows = tree.boxes.cpu().view(torch.int32)
    for parent in range(parents):
        part = slice(parent * 32, (parent + 1) * 32)
        assert_same_bits(boxes[above + parent, :3], below[part, :3].amin(dim=0))
        assert_same_bits(boxes[above + parent, 4:7], below[part, 4:7].amax(dim=0))
        inside = rows[begin : begin + count][part]
        assert rows[above + parent, 3] == inside[:, 3].min()
        assert rows[above + parent, 7] == inside[:, 7].max()


def test_dispatches_and_reads(monkeypatch):
    launched = []

    def counting(original):
        def launch(*arguments, **grid):
            launched.append(grid)
            original(*arguments, **grid)

        return launch

    for module in (room, sort):
        monkeypatch.setattr(module, "launch", counting(module.launch))
    points = cloud("random", 3000).to("mps")
    with mps_emulator.count_readbacks() as reads:
        build(points)
    assert reads.count == 0
    assert len(launched) == 6


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a real GPU cannot be told how to run")
@pytest.mark.parametrize("fast_math", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_of_threads(monkeypatch, seed, fast_math):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "seed", seed)
    monkeypatch.setattr(options, "fast_math", fast_math)
    for source in (room.KEYS, room.BOXES, sort.SOURCE):
        monkeypatch.setattr(source, "_kernels", {})
    check(cloud("not_finite", 1500), [3, 700], **ranges([(0, 3), (3, 700), (700, 1500)]))
