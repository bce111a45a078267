"""`knn` and `knn_graph`."""

import pytest
import torch

from pointops_testing import assert_same_bits
from torch_cluster import knn, knn_graph


def _ints(batch):
    return None if batch is None else batch.tolist()


@pytest.mark.parametrize("dim", [1, 3, 17])
def test_dtypes_and_batches(device, dtype, batches, exact, pairs, dim):
    x, y = exact.points(33, dim), exact.points(40, dim, seed=1)
    got = knn(x.to(device, dtype), y.to(device, dtype), 5, *batches)
    assert got.device.type == device
    wanted = exact.knn(x, y, 5, *map(_ints, batches))
    if batches[0] is None or len(set(batches[0].tolist())) == 1:
        wanted = exact.knn(x, y, 5)
    assert pairs(got) == wanted


@pytest.mark.parametrize("dim", [2, 4, 5, 64, 130])
def test_dimensions(device, dim):
    rng = torch.Generator().manual_seed(dim)
    x, y = torch.randn(150, dim, generator=rng), torch.randn(9, dim, generator=rng)
    edges = knn(x.to(device), y.to(device), 12)
    order = torch.cdist(y.double(), x.double(), compute_mode="donot_use_mm_for_euclid_dist")
    assert_same_bits(edges[1].view(9, 12), order.argsort(dim=1)[:, :12])
    assert_same_bits(edges[0], torch.arange(9).repeat_interleave(12))


@pytest.mark.parametrize("k", [0, 1, 32, 33, 34, 150, 500, 2**63 - 1])
def test_any_k(device, exact, pairs, k):
    x = exact.points(33, 3)
    assert pairs(knn(x.float().to(device), x.float().to(device), k)) == exact.knn(x, x, k)


def test_columns(device, exact, pairs):
    x, y = exact.points(20, 1, high=99), exact.points(7, 1, seed=1, high=99)
    got = knn(x.flatten().float().to(device), y.flatten().float().to(device), 3)
    assert pairs(got) == exact.knn(x, y, 3)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)])
def test_empty(device, pairs, sizes):
    x, y = (torch.zeros(size, 3, device=device) for size in sizes)
    assert pairs(knn(x, y, 2)) == []
    vectors = [torch.zeros(size, dtype=torch.int64, device=device) for size in sizes]
    assert pairs(knn(x, y, 2, *vectors)) == []


@pytest.mark.parametrize("dtype", [torch.float, torch.long])
@pytest.mark.parametrize("shape", [(0,), (0, 2), (0, 3)])
def test_a_set_without_points_fits_any(device, pairs, shape, dtype):
    """As in the original, `torch.empty(0)` and `torch.tensor([])` are such a set."""
    x = torch.rand(5, 3, device=device)
    none = torch.empty(shape, dtype=dtype, device=device)
    for points in (x, x.long(), x[:, 0]):
        assert pairs(knn(none, points, 2)) == []
        assert pairs(knn(points, none, 2)) == []


def test_batch_dtypes_and_strides(device, exact, pairs):
    x = exact.points(12, 3)
    batch = torch.tensor([0] * 5 + [1] * 7)
    strided = torch.stack((x, x), dim=2)[..., 0].float().to(device)
    wanted = exact.knn(x, x, 2, batch.tolist(), batch.tolist())
    for vector in (batch.to(device), batch.to(device, torch.int32)):
        assert pairs(knn(strided, strided, 2, vector, vector)) == wanted
        assert pairs(knn(strided, strided, 2, vector, vector, batch_size=2)) == wanted
        assert pairs(knn(strided, strided, 2, vector, vector, batch_size=9)) == wanted


def test_large_integers_are_exact(device, exact, pairs):
    x = exact.points(20, 3) + 2**40
    assert pairs(knn(x.to(device), x.to(device), 4)) == exact.knn(x, x, 4)


def test_float64_is_not_squeezed():
    x = torch.tensor([[0.0], [1.0], [1.0 + 1e-9]], dtype=torch.float64)
    assert knn(x, torch.tensor([[1.0 + 9e-10]], dtype=torch.float64), 1).tolist() == [[0], [2]]


def test_far_points_are_found(device, pairs):
    """The CUDA kernel finds none from a squared distance of 1e10 on."""
    x = torch.tensor([[0.0, 0.0], [3e6, 0.0], [0.0, -7e8]], device=device)
    assert pairs(knn(x, x[:1], 3)) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_not_finite_points_have_no_edges(device, pairs, bad):
    x = torch.tensor([[0.0, 0.0], [1.0, bad], [2.0, 0.0]], device=device)
    assert pairs(knn(x, x, 3)) == [(0, 0), (0, 2), (2, 2), (2, 0)]


def test_cosine(device):
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 5, generator=rng), torch.randn(8, 5, generator=rng)
    similarity = torch.nn.functional.cosine_similarity(
        y.double()[:, None], x.double()[None], dim=2, eps=1e-300
    )
    order = (1 - similarity).argsort(dim=1)[:, :6]
    assert_same_bits(knn(x.to(device), y.to(device), 6, cosine=True)[1].view(8, 6), order)
    batch = torch.tensor([0] * 25 + [1] * 35)
    edges = knn(x.to(device), y.to(device), 60, batch.to(device), batch[::8].to(device), True)
    assert bool((batch[edges[1].cpu()] == batch[::8][edges[0].cpu()]).all())
    assert edges.shape[1] == 4 * 25 + 4 * 35


def test_cosine_never_returns_zero_vectors(device, pairs):
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], device=device)
    assert pairs(knn(x, x, 3, cosine=True)) == [(1, 1), (1, 2), (2, 2), (2, 1)]


@pytest.mark.parametrize(
    ("message", "vectors"),
    [
        ("batch_x must be sorted", ([1, 0, 0], [0, 0, 1])),
        ("batch_y must be sorted", ([0, 0, 1], [0, 1, 0])),
        ("batch_y must be given", ([0, 0, 1], None)),
        ("batch_x must be given", (None, [0, 1, 1])),
        ("batch_x must be of shape", ([0, 0], [0, 0, 0])),
        ("batch_x must be cloud numbers from 0", ([-1, 0, 0], [0, 0, 0])),
    ],
)
def test_batch_vectors_that_do_not_fit(device, message, vectors):
    x = torch.rand(3, 3, device=device)
    vectors = [None if v is None else torch.tensor(v, device=device) for v in vectors]
    with pytest.raises(ValueError, match=message):
        knn(x, x, 1, *vectors)


def test_errors(device):
    x = torch.rand(3, 3, device=device)
    batch = torch.tensor([0, 0, 2], device=device)
    with pytest.raises(ValueError, match=r"below the number of clouds \(2\), got a cloud 2"):
        knn(x, x, 1, batch, batch, batch_size=2)
    with pytest.raises(ValueError, match="dimension D"):
        knn(x, x[:, :2], 1)
    with pytest.raises(ValueError, match="k must be at least 0"):
        knn(x, x, -1)
    with pytest.raises(ValueError, match="shape"):
        knn(x[None], x[None], 1)


def test_needs_no_gradient(device, pairs):
    x = torch.rand(5, 3, device=device, requires_grad=True)
    assert len(pairs(knn(x, x * 2, 2))) == 10
    assert len(pairs(knn_graph(x, 2))) == 10


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("loop", [False, True])
def test_graph(device, dtype, exact, pairs, flow, loop):
    x = exact.points(40, 2, high=50)
    batch = [0] * 15 + [1] * 2 + [4] * 23
    vector = torch.tensor(batch, device=device)
    wanted = exact.knn(x, x, 3 if loop else 4, batch, batch)
    wanted = [(i, j) for i, j in wanted if loop or i != j]
    if flow == "source_to_target":
        wanted = [(j, i) for i, j in wanted]
    assert pairs(knn_graph(x.to(device, dtype), 3, vector, loop, flow)) == wanted


def test_graph_of_equal_points(device, pairs):
    """As on CUDA: who is not among the first k + 1 keeps k + 1, and nobody has a loop."""
    edges = pairs(knn_graph(torch.ones(14, 3, device=device), 2))
    degrees = [sum(target == node for _, target in edges) for node in range(14)]
    assert degrees == [2, 2, 2] + [3] * 11
    assert all(i != j for i, j in edges)
    assert len(pairs(knn_graph(torch.ones(14, 3, device=device), 13))) == 14 * 13


def test_graph_by_cosine(device, pairs):
    x = torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [-1.0, 0.1]], device=device)
    assert pairs(knn_graph(x, 1, cosine=True, flow="target_to_source")) == [
        *((0, 1), (1, 0), (2, 3), (3, 2))
    ]


@pytest.mark.parametrize("size", [0, 1])
def test_graph_of_few(device, pairs, size):
    x = torch.zeros(size, 3, device=device)
    assert pairs(knn_graph(x, 4)) == []
    assert len(pairs(knn_graph(x, 4, loop=True))) == size
    assert pairs(knn_graph(x, 2**63 - 1)) == []
    assert pairs(knn_graph(x, 0)) == []


def test_graph_flow(device):
    with pytest.raises(AssertionError, match="flow must be"):
        knn_graph(torch.rand(3, 3, device=device), 1, flow="both")
