import sys
from itertools import pairwise

import pytest
import torch

import mps_emulator


def cloud(*shape, seed=0):
    # a coarse lattice: ties everywhere
    return torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(seed)) / 4


def pointer(*sizes):
    return torch.tensor([0, *sizes]).cumsum(0)


def ranges(ptr, points):
    bounds = [0, len(points)] if ptr is None else ptr.tolist()
    return list(pairwise(bounds))


def squares(a, b):
    return ((a.double() - b.double()) ** 2).sum(-1)


def knn_reference(x, y, ptr_x, ptr_y, k, distance=squares):
    edges = []
    for (a, b), (c, d) in zip(ranges(ptr_x, x), ranges(ptr_y, y), strict=True):
        for q in range(c, d):
            order = sorted(range(a, b), key=lambda i: (float(distance(x[i], y[q])), i))
            edges += [(q, i) for i in order[:k]]
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()


def radius_reference(x, y, ptr_x, ptr_y, r, most, skip):
    edges = []
    for (a, b), (c, d) in zip(ranges(ptr_x, x), ranges(ptr_y, y), strict=True):
        for q in range(c, d):
            inside = [i for i in range(a, b) if squares(x[i], y[q]) < r * r]
            edges += [(q, i) for i in inside if not (skip and i == q)][:most]
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).t()


def on_mps(*tensors):
    return [None if t is None else t.to("mps") for t in tensors]


def equal(got, wanted):
    assert got.device.type == "mps"
    assert got.dtype == torch.int64
    assert not got.requires_grad
    assert torch.equal(got.cpu(), wanted)


SIZES = {
    "one cloud": (None, None, 20, 9),
    "clouds": ([7, 0, 13], [3, 4, 2], 20, 9),
    "no queries in one": ([7, 6, 7], [3, 0, 6], 20, 9),
}


@pytest.mark.parametrize("case", SIZES)
@pytest.mark.parametrize("dim", [1, 2, 3, 64])
def test_knn(pyg, case, dim):
    sizes_x, sizes_y, n, m = SIZES[case]
    x, y = cloud(n, dim), cloud(m, dim, seed=1)
    ptr_x, ptr_y = (None if s is None else pointer(*s) for s in (sizes_x, sizes_y))
    for k in (1, 4, 30):
        wanted = knn_reference(x, y, ptr_x, ptr_y, k)
        args = on_mps(x, y, ptr_x, ptr_y)
        equal(pyg.knn(*args, k), wanted)
        equal(pyg.knn(args[0].requires_grad_(), *args[1:], k, False, 4), wanted)


@pytest.mark.parametrize("case", SIZES)
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_radius(pyg, case, skip, dim):
    sizes_x, sizes_y, n, m = SIZES[case]
    x, y = cloud(n, dim), cloud(m, dim, seed=1)
    ptr_x, ptr_y = (None if s is None else pointer(*s) for s in (sizes_x, sizes_y))
    for r, most in ((0.5, 32), (0.8, 3), (0.0, 3), (10.0, 100)):
        wanted = radius_reference(x, y, ptr_x, ptr_y, r, most, skip)
        equal(pyg.radius(*on_mps(x, y, ptr_x, ptr_y), r, most, 1, skip), wanted)


def test_the_same_row_is_left_out_before_the_cap(pyg):
    x = torch.zeros(6, 3, device="mps")
    edges = pyg.radius(x, x, None, None, 1.0, 2, 1, True)
    assert edges.tolist() == [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5],
                              [1, 2, 0, 2, 0, 1, 0, 1, 0, 1, 0, 1]]  # fmt: skip


def test_pointers_of_different_length_mean_empty_clouds(pyg):
    """DynamicEdgeConv and GravNetConv make each pointer from its own batch vector."""
    x, y = cloud(20, 3), cloud(9, 3, seed=1)
    short, full = pointer(12, 8), pointer(3, 0, 4, 2)
    padded = torch.cat((short, short[-1:], short[-1:]))
    args = on_mps(x, y)
    wanted = knn_reference(x, y, padded, full, 3)
    equal(pyg.knn(*args, *on_mps(short, full), 3), wanted)
    equal(pyg.knn(*args, short.to("mps", torch.int32), full.to("mps", torch.int32), 3), wanted)
    wanted = radius_reference(x, y, padded, full, 0.6, 5, False)
    equal(pyg.radius(*args, *on_mps(short, full), 0.6, 5), wanted)
    wanted = knn_reference(y, x, full, padded, 3)
    equal(pyg.knn(args[1], args[0], *on_mps(full, short), 3), wanted)


def test_one_pointer_missing(pyg):
    x, y = cloud(20, 3), cloud(9, 3, seed=1)
    args = on_mps(x, y)
    wanted = knn_reference(x, y, None, None, 2)
    equal(pyg.knn(*args, torch.tensor([0, 20], device="mps"), None, 2), wanted)
    equal(pyg.knn(*args, None, torch.tensor([0, 9], device="mps"), 2), wanted)
    for given in ((pointer(10, 10).to("mps"), None), (None, pointer(4, 5).to("mps"))):
        with pytest.raises(ValueError, match=r"None beside ptr_\w of 2 clouds; pass both"):
            pyg.knn(*args, *given, 2)
    with pytest.raises(ValueError, match="ptr_x must be a vector of at least one element"):
        pyg.knn(*args, torch.zeros(0, dtype=torch.int64, device="mps"), None, 2)


def test_input_that_the_wrappers_let_through(pyg):
    x, y = cloud(20, 3), cloud(9, 3, seed=1)
    wanted = knn_reference(x, y, None, None, 3)
    strided = x.t().contiguous().to("mps").t()
    assert not strided.is_contiguous()
    equal(pyg.knn(strided, y.to("mps"), None, None, 3), wanted)
    column_x, column_y = x[:, 0], y[:, 0]
    wanted = knn_reference(column_x[:, None], column_y[:, None], None, None, 3)
    equal(pyg.knn(*on_mps(column_x, column_y), None, None, 3), wanted)
    whole_x, whole_y = (x * 4).long(), (y * 4).long()
    wanted = knn_reference(whole_x, whole_y, None, None, 3)
    equal(pyg.knn(*on_mps(whole_x, whole_y), None, None, 3), wanted)
    equal(pyg.knn(*on_mps(x.half(), y.half()), None, None, 3), knn_reference(x, y, None, None, 3))
    for a, b in ((x[:0], y), (x, y[:0]), (x[:0], y[:0])):
        assert pyg.knn(*on_mps(a, b), None, None, 3).shape == (2, 0)
        assert pyg.radius(*on_mps(a, b), None, None, 3.0).shape == (2, 0)
    with pytest.raises(ValueError, match="dimension"):
        pyg.knn(*on_mps(x, y[:, :2]), None, None, 3)
    with pytest.raises(ValueError, match="device"):
        pyg.knn(x.to("mps"), y, None, None, 3)
    with pytest.raises(ValueError, match="ptr"):
        pyg.knn(
            *on_mps(x, y), torch.tensor([0, 9], device="mps"), torch.tensor([0, 9], device="mps")
        )


def test_messages_name_the_operator_and_its_arguments(pyg):
    x = cloud(20, 3).to("mps")
    ptr = torch.tensor([0, 9, 20], device="mps")
    for name, text, call in (
        ("fps", "ratio must be finite", lambda: pyg.fps(x, ptr, -0.5)),
        ("fps", "src must be", lambda: pyg.fps(x > 0, ptr)),
        ("fps", r"ptr must be on the device of src", lambda: pyg.fps(x.cpu(), ptr)),
        ("knn", "k must be at least 0", lambda: pyg.knn(x, x, ptr, ptr, -1)),
        ("knn", "y must be of the dimension", lambda: pyg.knn(x, x[:, :2])),
        ("radius", "max_num_neighbors must be", lambda: pyg.radius(x, x, ptr, ptr, 1.0, -1)),
        ("radius", "ptr_x must be ascending", lambda: pyg.radius(x, x, ptr[:2], ptr, 1.0)),
        ("random_walk", "seed must be a v", lambda: pyg.random_walk(ptr, ptr, ptr[0], 2, 1, 1)),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^pyg::{name}: {text}"):
            call()


def test_cosine(pyg):
    torch.manual_seed(0)
    x, y = torch.randn(20, 3), torch.randn(9, 3)

    def distance(a, b):
        return 1 - torch.cosine_similarity(a.double(), b.double(), dim=-1)

    wanted = knn_reference(x, y, None, None, 4, distance)
    equal(pyg.knn(*on_mps(x, y), None, None, 4, True), wanted)


@pytest.mark.parametrize("ratio", [0.1, 0.25, 0.5, 0.6, 0.7, 1.0])
def test_fps(pyg, ratio):
    sizes = (25, 1, 10, 7)
    x = torch.randn(sum(sizes), 3, generator=torch.Generator().manual_seed(2))
    ptr = pointer(*sizes)
    got = pyg.fps(*on_mps(x, ptr), ratio, False)
    wanted = []
    for a, b in ranges(ptr, x):
        count = (torch.tensor(b - a).float() * torch.tensor(ratio, dtype=torch.float32)).ceil()
        picks = [a]
        nearest = squares(x[a:b], x[a])
        while len(picks) < int(count):
            picks.append(a + int(nearest.argmax()))
            nearest = nearest.minimum(squares(x[a:b], x[picks[-1]]))
        wanted += picks
    equal(got, torch.tensor(wanted))


def test_fps_starts_at_random_and_repeats_with_a_seed(pyg):
    x, ptr = on_mps(torch.randn(30, 3), pointer(15, 0, 15))
    torch.manual_seed(3)
    first = [pyg.fps(x, ptr, 0.1) for _ in range(8)]
    torch.manual_seed(3)
    again = [pyg.fps(x, ptr, 0.1) for _ in range(8)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert len({tuple(a.tolist()) for a in first}) > 1
    assert all((a[:2] < 15).all() and (a[2:] >= 15).all() for a in first)
    assert len(pyg.fps(x, ptr, 0.5)) == 16  # the default


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_nearest(pyg, dim):
    x, y = cloud(20, dim), cloud(9, dim, seed=1)
    for ptr_x, ptr_y in ((None, None), (pointer(7, 0, 13), pointer(3, 4, 2))):
        wanted = knn_reference(y, x, ptr_y, ptr_x, 1)[1]
        equal(pyg.nearest(*on_mps(x, y, ptr_x, ptr_y)), wanted)
    with pytest.raises(ValueError, match="nearest"):
        pyg.nearest(*on_mps(x, y, pointer(7, 13), pointer(9)))


@pytest.mark.parametrize("limits", [False, True])
def test_grid_cluster(pyg, limits):
    pos = torch.rand(30, 3, generator=torch.Generator().manual_seed(4)) * 4 - 1
    size = torch.tensor([0.5, 1.0, 0.25])
    start = torch.full((3,), -2.0) if limits else pos.amin(0)
    end = torch.full((3,), 4.0) if limits else pos.amax(0)
    given = (start, end) if limits else (None, None)
    cells = ((pos - start) / size).trunc().long()
    extent = ((end - start) / size).trunc().long() + 1
    wanted = cells[:, 0] + extent[0] * (cells[:, 1] + extent[1] * cells[:, 2])
    equal(pyg.grid_cluster(*on_mps(pos, size, *given)), wanted)


@pytest.mark.parametrize("weighted", [False, True])
def test_graclus(pyg, weighted):
    torch.manual_seed(5)
    pairs = torch.randint(0, 12, (2, 30))
    pairs = torch.cat((pairs, pairs.flip(0)), 1).unique(dim=1)
    row, col = pairs
    rowptr = torch.tensor([int((row < n).sum()) for n in range(13)])
    weight = (row + col).float() if weighted else None
    got = pyg.graclus_cluster(*on_mps(rowptr, col, weight)).cpu()
    members = [torch.where(got == c)[0].tolist() for c in got.unique()]
    edges = set(zip(row.tolist(), col.tolist(), strict=True))
    assert all(min(m) == got[m[0]] and len(m) <= 2 for m in members)
    assert all(len(m) == 1 or tuple(m) in edges for m in members)
    single = {m[0] for m in members if len(m) == 1}
    assert not any(u in single and v in single for u, v in edges if u != v)  # maximal


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_random_walk(pyg, dtype):
    rowptr = torch.tensor([0, 2, 3, 3, 6], dtype=dtype)
    col = torch.tensor([1, 3, 0, 0, 1, 2], dtype=dtype)
    edges = {(r, c) for r in range(4) for c in col[rowptr[r] : rowptr[r + 1]].tolist()}
    edges.add((2, 2))  # no way out
    seed = torch.tensor([0, 1, 2, 3] * 5, dtype=dtype)
    for p, q in ((1.0, 1.0), (0.25, 4.0)):
        torch.manual_seed(6)
        walks = pyg.random_walk(*on_mps(rowptr, col, seed), 6, p, q)
        assert (walks.shape, walks.dtype, walks.device.type) == ((20, 7), dtype, "mps")
        assert torch.equal(walks[:, 0].cpu(), seed)
        steps = walks.cpu().unfold(1, 2, 1).reshape(-1, 2).tolist()
        assert {tuple(s) for s in steps} <= edges
        torch.manual_seed(6)
        again = pyg.random_walk(*on_mps(rowptr, col, seed), 6, p, q)
        assert torch.equal(walks, again)
    # Node2Vec leaves its graph on the CPU
    mixed = pyg.random_walk(rowptr, col, seed.to("mps"), 3, 1.0, 1.0)
    assert mixed.shape == (20, 4)


def test_edge_sample(pyg):
    rowptr = torch.tensor([0, 3, 3, 10, 30], device="mps")
    start = torch.tensor([3, 0, 1, 2, 2], device="mps")
    degrees = [20, 3, 0, 7, 7]
    for count, factor in ((4, 1.0), (100, 1.0), (0, 0.5), (0, 1.0), (0, 0.0), (-1, 0.25)):
        sizes = [min(d, count if count > 0 else -int(-(factor * d) // 1)) for d in degrees]
        torch.manual_seed(7)
        with mps_emulator.count_readbacks() as reads:
            got = pyg.edge_sample(start, rowptr, count, factor)
        assert reads.count == 1, reads.operators
        assert (got.device.type, got.dtype) == ("mps", torch.int64)
        parts = got.cpu().split(sizes)
        for node, part in zip(start.tolist(), parts, strict=True):
            low, high = rowptr[node].item(), rowptr[node + 1].item()
            assert len(set(part.tolist())) == len(part)
            assert all(low <= e < high for e in part.tolist())
        torch.manual_seed(7)
        assert torch.equal(pyg.edge_sample(start, rowptr, count, factor), got)
    torch.manual_seed(8)
    drawn = torch.cat([pyg.edge_sample(start[:1], rowptr, 5) for _ in range(40)]).cpu()
    assert set(drawn.tolist()) == set(range(10, 30))
    assert pyg.edge_sample(start[:0], rowptr, 5).shape == (0,)


def test_readbacks(pyg):
    x, y, ptr_x, ptr_y = on_mps(cloud(20, 3), cloud(9, 3), pointer(7, 13), pointer(3, 4, 2))
    rowptr, col = on_mps(pointer(1, 1, 1), torch.tensor([1, 2, 0]))
    calls = {
        "knn": lambda: pyg.knn(x, y, ptr_x, ptr_y, 3),
        "radius": lambda: pyg.radius(x, y, ptr_x, ptr_y, 0.5),
        "nearest": lambda: pyg.nearest(x, y, ptr_x, ptr_y[[0, 1, 3]]),
        "fps": lambda: pyg.fps(x, ptr_x, 0.5),
        "grid_cluster": lambda: pyg.grid_cluster(x, x[0] + 1),
        "graclus_cluster": lambda: pyg.graclus_cluster(rowptr, col),
        "random_walk": lambda: pyg.random_walk(rowptr, col, col, 3, 1.0, 1.0),
    }
    for name, call in calls.items():
        call()
        with mps_emulator.count_readbacks() as reads:
            call()
        assert reads.count <= 1, (name, reads.operators)


def test_more_neighbours_than_fit_in_32_bits_are_all(pyg):
    x = torch.rand(9, 3, device="mps")
    assert torch.equal(pyg.knn(x, x, None, None, sys.maxsize), pyg.knn(x, x, None, None, 9))
    edges = pyg.radius(x, x, None, None, 0.5, sys.maxsize)
    assert torch.equal(edges, pyg.radius(x, x, None, None, 0.5, 9))


def test_random_walk_and_edge_sample_refuse(pyg):
    rowptr, col, node = on_mps(pointer(1, 1), torch.tensor([1, 0]), torch.tensor([0, 1]))
    with pytest.raises(TypeError, match="seed must be int64 or int32"):
        pyg.random_walk(rowptr, col, node.float(), 2, 1.0, 1.0)
    with pytest.raises(ValueError, match="seed must be on mps"):
        pyg.random_walk(rowptr, col, node.cpu(), 2, 1.0, 1.0)
    with pytest.raises(TypeError, match="start must be int64 or int32"):
        pyg.edge_sample(node.float(), rowptr, 2)
    with pytest.raises(ValueError, match="start must be a vector"):
        pyg.edge_sample(node[None], rowptr, 2)
    with pytest.raises(ValueError, match="start must be on the device of rowptr"):
        pyg.edge_sample(node.cpu(), rowptr, 2)
    for wrong in (-1, 2, 2**40):
        with pytest.raises(ValueError, match=r"nodes from 0 to 1 .* at place 1 of start"):
            pyg.edge_sample(torch.tensor([0, wrong], device="mps"), rowptr, 2)
    with pytest.raises(ValueError, match="ascending"):
        pyg.edge_sample(node, rowptr.flip(0), 2)
    with pytest.raises(ValueError, match="no nodes"):
        pyg.edge_sample(node, rowptr[:1], 2)
    assert pyg.edge_sample(node[:0], rowptr[:1], 2).shape == (0,)
