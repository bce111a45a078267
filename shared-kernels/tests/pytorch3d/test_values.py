"""Every value against an oracle that takes the clouds one by one, without their padding."""

import itertools

import pytest
import torch

from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.fps.reference import furthest_point_sample_reference
from mps_pointops.ops.knn.reference import knn_reference
from mps_pointops.pytorch3d import (
    KNN,
    ball_query,
    knn_gather,
    knn_points,
    manhattan,
    masked_gather,
    sample,
    sample_farthest_points,
    sample_farthest_points_naive,
)
from pointops_testing import CLOUDS, assert_same_bits, cloud

P1, P2 = 14, 40
LENGTHS1 = torch.tensor([14, 0, 1, 9, 13, 14, 7, 14, 3])
LENGTHS2 = torch.tensor([40, 33, 0, 1, 39, 2, 40, 31, 8])


def batch(rows, size, dim=3):
    """One cloud of every name: queries, some of them points, and points."""
    p2 = torch.stack([cloud(name, size, dim) for name in CLOUDS])
    p1 = torch.stack([cloud(name, rows, dim, seed=1) for name in CLOUDS])
    shared = min(rows // 2, size)
    p1[:, :shared] = p2[:, :shared]
    return p1, p2


def lengths(use1, use2):
    return LENGTHS1 if use1 else None, LENGTHS2 if use2 else None


def to(device, *tensors):
    return [None if t is None else t.to(device) for t in tensors]


def sizes(n, l1, l2, p1=P1, p2=P2):
    return (p1 if l1 is None else int(l1[n])), (p2 if l2 is None else int(l2[n]))


def by_sums(query, ref, k):
    """k nearest by |dx| + |dy| + ..., in plain Python on float32 numbers."""
    distance = torch.full((len(query), k), torch.inf)
    index = torch.full((len(query), k), -1)
    for i, q in enumerate(query):
        pairs = []
        for j, p in enumerate(ref):
            if not (torch.isfinite(q).all() and torch.isfinite(p).all()):
                continue
            total = torch.zeros((), dtype=torch.float32)
            for a, b in zip(q, p, strict=True):
                total = total + (a - b).abs()
            pairs.append((total.item(), j))
        for slot, (d, j) in enumerate(sorted(pairs)[:k]):
            distance[i, slot], index[i, slot] = d, j
    return distance, index


def check_knn(device, p1, p2, l1, l2, K, norm=2):
    got = knn_points(*to(device, p1, p2, l1, l2), K=K, norm=norm, return_nn=True)
    assert isinstance(got, KNN)
    assert got.dists.device.type == got.idx.device.type == device
    clouds, rows, dim = p1.shape
    dists, idx = torch.zeros(clouds, rows, K), torch.zeros(clouds, rows, K, dtype=torch.int64)
    points = torch.zeros(clouds, rows, K, dim)
    for n in range(clouds):
        a, b = sizes(n, l1, l2, rows, p2.shape[1])
        k = min(K, b)
        if norm == 2:
            d, i = knn_reference(p1[n, :a], p2[n, :b], k, Rule.FMA_XYZ)
        else:
            d, i = by_sums(p1[n, :a], p2[n, :b], k)
        dists[n, :a, :k], idx[n, :a, :k] = d, i.clamp(min=0)
        if k:
            points[n, :, :k] = p2[n][idx[n, :, :k]]
    assert_same_bits(got.idx, idx)
    assert_same_bits(got.dists, dists)
    assert_same_bits(got.knn, points)


@pytest.mark.parametrize(("use1", "use2"), list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("K", [0, 1, 5, 40, 47])
def test_knn(device, K, use1, use2):
    check_knn(device, *batch(P1, P2), *lengths(use1, use2), K)


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("use", [False, True])
def test_knn_dimensions(device, dim, use):
    check_knn(device, *batch(P1, P2, dim), *lengths(use, use), 6)


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1023, 1025])
def test_knn_sizes(device, size):
    p1, p2 = batch(6, size)
    l2 = torch.tensor([size, size // 2, 0, 1, size, size - 1, size, size, size])
    check_knn(device, p1, p2, None, l2, 5)


@pytest.mark.parametrize("together", [2**22, 1200, 90])
@pytest.mark.parametrize("use", [False, True])
def test_knn_of_absolute_differences(device, use, together, monkeypatch):
    monkeypatch.setattr(manhattan, "DISTANCES_TOGETHER", together)
    tiny = CLOUDS.index("tiny")  # subnormal differences: a test of its own
    kept = [n for n in range(len(CLOUDS)) if n != tiny]
    p1, p2 = (t[kept] for t in batch(P1, P2))
    l1, l2 = (None if t is None else t[kept] for t in lengths(use, use))
    check_knn(device, p1, p2, l1, l2, 7, norm=1)


def test_absolute_differences_that_are_subnormal_are_zero(device):
    p2 = torch.tensor([[[2.0**-126 * 1.5], [2.0**-126 * 3], [2.0**-127]]], device=device)
    p1 = torch.tensor([[[2.0**-126]]], device=device)
    got = knn_points(p1, p2, K=3, norm=1)
    assert got.idx.tolist() == [[[0, 2, 1]]]
    assert got.dists.tolist() == [[[0.0, 2.0**-126, 2.0**-125]]]


@pytest.mark.parametrize("arguments", [{"version": 3}, {"return_sorted": False}])
def test_arguments_that_change_nothing(device, arguments):
    p1, p2 = to(device, *batch(P1, P2))
    plain, other = knn_points(p1, p2, K=4), knn_points(p1, p2, K=4, **arguments)
    assert plain.knn is None
    assert_same_bits(plain.dists, other.dists)
    assert_same_bits(plain.idx, other.idx)


def test_positions_of_the_arguments(device):
    """Callers name few of them."""
    p1, p2, l1, l2 = to(device, *batch(P1, P2), *lengths(True, True))
    named = knn_points(p1, p2, lengths1=l1, lengths2=l2, norm=2, K=3, version=-1, return_nn=True)
    placed = knn_points(p1, p2, l1, l2, 2, 3, -1, True, True)
    for a, b in zip(named, placed, strict=True):
        assert_same_bits(a, b)
    named = ball_query(p1, p2, lengths1=l1, lengths2=l2, K=3, radius=0.5, return_nn=True)
    placed = ball_query(p1, p2, l1, l2, 3, 0.5, True, True)
    for a, b in zip(named, placed, strict=True):
        assert_same_bits(a, b)
    assert ball_query(p1, p2).idx.shape == (len(CLOUDS), P1, 500)
    assert sample_farthest_points(p2)[1].shape == (len(CLOUDS), 50)


# --- ball query


@pytest.mark.parametrize(("use1", "use2"), list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize(("K", "radius"), [(0, 1.0), (3, 0.2), (8, 1.0), (50, 3.0)])
def test_ball_query(device, K, radius, use1, use2):
    p1, p2 = batch(P1, P2)
    l1, l2 = lengths(use1, use2)
    got = ball_query(*to(device, p1, p2, l1, l2), K=K, radius=radius)
    dists = torch.zeros(len(p1), P1, K)
    idx = torch.full((len(p1), P1, K), -1)
    points = torch.zeros(len(p1), P1, K, 3)
    for n in range(len(p1)):
        a, b = sizes(n, l1, l2)
        if b:
            dists[n, :a], idx[n, :a] = ball_query_reference(p1[n, :a], p2[n, :b], radius, K)
        hit = idx[n] >= 0
        points[n][hit] = p2[n][idx[n][hit]]
    if radius == 1.0 and K:
        assert bool((idx >= 0).any())
        assert bool((idx < 0).any())
    assert_same_bits(got.idx, idx)
    assert_same_bits(got.dists, dists)
    assert_same_bits(got.knn, points)
    assert ball_query(*to(device, p1, p2), K=K, radius=radius, return_nn=False).knn is None


def test_infinite_radius(device):
    points = torch.stack([cloud("not_finite", 20), 1e18 * cloud("random", 20)]).to(device)
    for got, wanted in zip(
        ball_query(points, points, K=20, radius=torch.inf),
        ball_query(points, points, K=20, radius=3e38),
        strict=True,
    ):
        assert_same_bits(got, wanted)


# --- farthest point sampling


def sampled(points, sizes, picks):
    most = max(picks)
    idx = torch.full((len(points), most), -1)
    values = torch.zeros(len(points), most, points.shape[2])
    for n, (size, k) in enumerate(zip(sizes, picks, strict=True)):
        count = min(size, k)
        if count:
            found = furthest_point_sample_reference(points[n, :size], count, rule=Rule.FMA_XYZ)
            idx[n, :count], values[n, :count] = found, points[n][found]
    return values, idx


@pytest.mark.parametrize("sample", [sample_farthest_points, sample_farthest_points_naive])
@pytest.mark.parametrize("use", [False, True])
@pytest.mark.parametrize(
    "K", [0, 1, 13, 40, 55, [3, 0, 5, 1, 40, 50, 2, 2, 8], [7] * 9, "tensor", "tensor on the CPU"]
)
def test_sample(device, K, use, sample):
    _, points = batch(P1, P2)
    picks = [3, 0, 5, 1, 40, 50, 2, 2, 8] if isinstance(K, str) else K
    if isinstance(K, str):
        K = torch.tensor(picks, device="cpu" if "CPU" in K else device)
    picks = [picks] * len(points) if isinstance(picks, int) else picks
    l2 = LENGTHS2 if use else None
    got, idx = sample(*to(device, points, l2), K=K)
    wanted = sampled(points, l2.tolist() if use else [P2] * len(points), picks)
    assert_same_bits(idx, wanted[1])
    assert_same_bits(got, wanted[0])


@pytest.mark.parametrize("dtype", [torch.int16, torch.uint8, torch.float32, torch.float16])
def test_sample_truncates_numbers(device, dtype):
    """As PyTorch3D does, where `K=0.3 * lengths` is a tensor of floats."""
    _, points = batch(P1, P2)
    part = 0.75 if dtype.is_floating_point else 0
    picks = torch.arange(len(points)) % 4
    wanted = sampled(points, LENGTHS2.tolist(), picks.tolist())
    told = LENGTHS2.to(dtype) + part, picks.to(dtype) + part
    got, idx = sample_farthest_points(points.to(device), *to(device, *told))
    assert_same_bits(idx, wanted[1])
    assert_same_bits(got, wanted[0])
    listed = sample_farthest_points(*to(device, points, LENGTHS2), K=told[1].tolist())
    assert_same_bits(listed[1], wanted[1])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_sample_of_integers(device, dtype):
    points = torch.randint(9, (2, 30, 3), generator=torch.Generator().manual_seed(0)).to(dtype)
    got, idx = sample_farthest_points(points.to(device), K=7)
    wanted = sample_farthest_points(points.float().to(device), K=7)
    assert_same_bits(idx, wanted[1])
    assert_same_bits(got, wanted[0])


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_sample_dimensions(device, dim):
    _, points = batch(P1, P2, dim)
    got, idx = sample_farthest_points(*to(device, points, LENGTHS2), K=20)
    wanted = sampled(points, LENGTHS2.tolist(), [20] * len(points))
    assert_same_bits(idx, wanted[1])
    assert_same_bits(got, wanted[0])


def test_sample_starts_inside_whatever_is_drawn(monkeypatch, device):
    monkeypatch.setattr(torch, "rand", lambda n, device, **_: torch.ones(n, device=device))
    points = torch.zeros(3, 5, 2, device=device)
    assert sample._starts(points, [5, 0, 1], True).tolist() == [4, 0, 0]


@pytest.mark.parametrize("use", [False, True])
def test_sample_starts_at_random(device, use):
    """Every start is in its cloud, all of them occur, and the picks follow from it."""
    points = torch.stack([cloud("random", 5), cloud("random", 5, seed=1)])
    l2 = torch.tensor([5, 3]) if use else None
    seen = [set(), set()]
    for seed in range(60):
        torch.manual_seed(seed)
        _, idx = sample_farthest_points(*to(device, points, l2), K=3, random_start_point=True)
        for n in range(2):
            first, size = int(idx[n, 0]), 3 if use and n else 5
            wanted = furthest_point_sample_reference(points[n, :size], 3, first, rule=Rule.FMA_XYZ)
            assert idx[n].tolist() == wanted.tolist()
            seen[n].add(first)
    assert seen == [set(range(5)), set(range(3 if use else 5))]


def test_padding_is_not_looked_at(device):
    """Whatever stands there."""
    p1, p2 = batch(P1, P2)
    for n in range(len(p1)):
        p1[n, LENGTHS1[n] :] = torch.nan
        p2[n, LENGTHS2[n] :] = torch.nan
    dirty = to(device, p1, p2, LENGTHS1, LENGTHS2)
    clean = to(device, *batch(P1, P2), LENGTHS1, LENGTHS2)
    for call in (
        lambda *a: knn_points(*a, K=4)[:2],
        lambda *a: knn_points(*a, K=4, norm=1)[:2],
        lambda *a: ball_query(*a, K=4, radius=1.0),
        lambda a, b, la, lb: sample_farthest_points(b, lb, K=9),
    ):
        for x, y in zip(call(*dirty), call(*clean), strict=True):
            assert_same_bits(x, y)


# --- gathers


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.bool]
)
@pytest.mark.parametrize("use", [False, True])
def test_knn_gather(device, dtype, use):
    x = (torch.randn(9, P2, 4) * 3).to(dtype)
    idx = torch.randint(P2, (9, 5, 6))
    l2 = LENGTHS2 if use else None
    got = knn_gather(*to(device, x, idx, l2))
    wanted = torch.stack([x[n][idx[n]] for n in range(9)])
    for n in range(9):
        wanted[n, :, P2 if l2 is None else l2[n] :] = 0
    assert got.dtype == dtype
    assert torch.equal(got.cpu(), wanted)


def test_knn_gather_pads_more_slots_than_points(device):
    x = torch.randn(2, 3, 4, device=device)
    idx = torch.zeros(2, 5, 7, dtype=torch.int32, device=device)
    got = knn_gather(x, idx)
    assert torch.equal(got[:, :, :3], x[:, None, :1].expand(2, 5, 3, 4))
    assert torch.equal(got[:, :, 3:], torch.zeros(2, 5, 4, 4, device=device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(9, 6), (9, 5, 6)])
def test_masked_gather(device, dtype, shape):
    points = (torch.randn(9, P2, 4) * 3).to(dtype)
    idx = torch.randint(-1, P2, shape)
    idx[0] = -1
    got = masked_gather(*to(device, points, idx))
    wanted = torch.zeros(*shape, 4, dtype=dtype)
    for n in range(9):
        wanted[n][idx[n] >= 0] = points[n][idx[n][idx[n] >= 0]]
    assert got.dtype == dtype
    assert torch.equal(got.cpu(), wanted)


# --- shapes, dtypes, views


@pytest.mark.parametrize(
    ("clouds", "rows", "size"), [(0, 4, 5), (2, 0, 5), (2, 4, 0), (0, 0, 0), (2, 0, 0)]
)
@pytest.mark.parametrize("use", [False, True])
@pytest.mark.parametrize("norm", [1, 2])
def test_empty(device, clouds, rows, size, use, norm):
    p1 = torch.rand(clouds, rows, 3, device=device, requires_grad=True)
    p2 = torch.rand(clouds, size, 3, device=device, requires_grad=True)
    full1, full2 = (torch.full((clouds,), n, device=device) if use else None for n in (rows, size))
    for got, rest in (
        (knn_points(p1, p2, full1, full2, K=3, norm=norm, return_nn=True), 0),
        (ball_query(p1, p2, full1, full2, K=3), -1),
    ):
        assert got.dists.shape == got.idx.shape == (clouds, rows, 3)
        assert got.knn.shape == (clouds, rows, 3, 3)
        if size == 0:
            assert bool((got.idx == rest).all())
            assert bool((got.dists == 0).all())
        grads = torch.autograd.grad(got.dists.sum() + got.knn.sum(), (p1, p2), allow_unused=True)
        assert all(g is None or bool(torch.isfinite(g).all()) for g in grads)
    if clouds == 0 or size == 0:
        picked, idx = sample_farthest_points(p2, full2, K=4)
        assert picked.shape == (clouds, 4, 3)
        assert idx.shape == (clouds, 4)
        assert bool((idx == -1).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened(device, dtype):
    p1, p2 = to(device, *batch(P1, P2))
    p1, p2 = p1[:2].to(dtype), p2[:2].to(dtype)
    for call in (
        lambda a, b: knn_points(a, b, K=4)[:2],
        lambda a, b: ball_query(a, b, K=4, radius=1.0)[:2],
        lambda a, b: sample_farthest_points(a, K=3),
    ):
        for x, y in zip(call(p1, p2), call(p1.float(), p2.float()), strict=True):
            assert_same_bits(x, y)
    assert knn_points(p1, p2, return_nn=True).knn.dtype == dtype


def test_double_precision():
    p1, p2 = torch.randn(2, 6, 3, dtype=torch.float64), torch.randn(2, 9, 3, dtype=torch.float64)
    squares = (p1[:, :, None] - p2[:, None]).square().sum(3)
    for norm, all_of in ((2, squares), (1, (p1[:, :, None] - p2[:, None]).abs().sum(3))):
        got = knn_points(p1, p2, K=4, norm=norm)
        assert got.dists.dtype == torch.float64
        torch.testing.assert_close(got.dists, all_of.sort(dim=2).values[..., :4])
        assert torch.equal(got.idx, all_of.argsort(dim=2)[..., :4])
    got = ball_query(p1, p2, K=9, radius=1.0)
    assert torch.equal((got.idx >= 0).sum(2), (squares < 1).sum(2))
    picked, idx = sample_farthest_points(p1, K=3)
    assert picked.dtype == torch.float32
    assert torch.equal(picked, masked_gather(p1, idx).float())


def test_views(device):
    p1, p2 = to(device, *batch(P1, P2))
    wide = torch.zeros(9, 3, 2 * P2, device=device)
    wide[:, :, ::2] = p2.transpose(1, 2)
    view = wide[:, :, ::2].transpose(1, 2)
    for call in (
        lambda b: knn_points(p1, b, K=4, return_nn=True),
        lambda b: knn_points(p1, b, K=4, norm=1),
        lambda b: ball_query(p1, b, K=4),
        lambda b: sample_farthest_points(b, K=3),
    ):
        for x, y in zip(call(p2), call(view), strict=True):
            assert (x is None and y is None) or torch.equal(x.nan_to_num(), y.nan_to_num())


def test_default_dtype_does_not_matter(device):
    p1, p2, l1, l2 = to(device, *batch(P1, P2), LENGTHS1, LENGTHS2)

    def run():
        a = p1.detach().requires_grad_()
        found = knn_points(a, p2, l1, l2, K=3, return_nn=True, norm=1)
        (grad,) = torch.autograd.grad(found.dists[:2].sum(), a)
        return *found, grad, *ball_query(p1, p2, l1, l2, K=3), *sample_farthest_points(p2, l2, 4)

    wanted = run()
    torch.set_default_dtype(torch.float64)
    try:
        for x, y in zip(run(), wanted, strict=True):
            assert_same_bits(x, y)
    finally:
        torch.set_default_dtype(torch.float32)
