"""Graclus clusters: the order of the edges, properties of a result, what torch sees."""

import itertools
from collections import Counter

import pytest
import torch

import mps_emulator
from mps_pointops.ops.graclus_cluster import graclus_cluster
from mps_pointops.ops.graclus_cluster.order import edge_order, may_match, random_order
from mps_pointops.ops.graclus_cluster.reference import greedy_matching_reference, order_reference
from pointops_testing import assert_same_bits

CSR = torch.ops.mps_pointops.graclus_csr
INF, NAN = float("inf"), float("nan")
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SIZES = (1, 31, 32, 33, 1023, 1025)

needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)


def _skip_missing(device, dtype):
    if device == "mps" and dtype == torch.float64:
        pytest.skip("float64 does not exist on MPS")


def _weights(dtype, size, seed=0):
    """Ties everywhere, and every special value."""
    rng = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        values = torch.randint(max(info.min, -3), 9, (size,), generator=rng).to(dtype)
        special = [info.min, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, 0, 1]
    else:
        info = torch.finfo(dtype)
        values = (torch.randn(size, generator=rng) * 4).round().to(dtype) / 4
        tiny = info.smallest_normal
        special = [INF, -INF, NAN, -0.0, 0.0, info.max, -info.max, tiny, -tiny, tiny / 2, -tiny / 2]
        special += [info.smallest_normal * info.eps, 1 + info.eps]
    place = torch.randint(size, (len(special) * 2,), generator=rng)
    values[place] = torch.tensor(special * 2, dtype=dtype)
    return values


def _graph(nodes, degree, seed=0):
    rng = torch.Generator().manual_seed(seed * 7919 + nodes * 31 + degree)
    return torch.randint(nodes, (2, nodes * degree), generator=rng)


def _expected(edges, weight, nodes, device, seed=0):
    """What the reference makes of the permutation that is drawn after this seed."""
    torch.manual_seed(seed)
    permutation = random_order(edges.shape[1], torch.device(device)).tolist()
    assert sorted(permutation) == list(range(edges.shape[1]))
    order = torch.tensor(order_reference(weight, permutation), dtype=torch.int64)
    return greedy_matching_reference(edges[0, order], edges[1, order], nodes)


def _assert_maximal_matching(cluster, edges, weight=None):
    cluster = cluster.tolist()
    sizes = Counter(cluster)
    assert set(sizes.values()) <= {1, 2}
    pairs = {frozenset(pair) for pair in edges.t().tolist()}
    for node, label in enumerate(cluster):
        assert label <= node
        assert cluster[label] == label
        assert label == node or frozenset((node, label)) in pairs
    for e, (u, v) in enumerate(edges.t().tolist()):
        if u != v and (weight is None or weight[e] >= 0):
            assert sizes[cluster[u]] == 2 or sizes[cluster[v]] == 2


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("size", SIZES)
def test_order_of_weights(device, dtype, size):
    _skip_missing(device, dtype)
    weight = _weights(dtype, size)
    permutation = torch.randperm(size, generator=torch.Generator().manual_seed(5))
    moved = weight.to(device)
    order = edge_order(moved, permutation.to(device))
    there = may_match(moved)[order].cpu()
    wanted = order_reference(weight, permutation.tolist())
    assert order.cpu()[there].tolist() == wanted
    assert order.cpu().sort()[0].tolist() == list(range(size))


def test_large_integers_are_told_apart(device):
    base = 2**62
    weight = torch.tensor([base, base + 1, 2**21 - 1, 2**21, 2**42 - 1, 2**42, 2**63 - 1])
    order = edge_order(weight.to(device), torch.arange(7, device=device))
    assert order.tolist() == [6, 1, 0, 5, 4, 3, 2]


@pytest.mark.parametrize("dtype", [None, *INTEGERS, *FLOATS])
@pytest.mark.parametrize("nodes", SIZES)
def test_equals_the_reference(device, dtype, nodes):
    _skip_missing(device, dtype)
    edges = _graph(nodes, 3)
    weight = None if dtype is None else _weights(dtype, edges.shape[1])
    wanted = _expected(edges, weight, nodes, device)
    torch.manual_seed(0)
    moved = None if weight is None else weight.to(device)
    got = graclus_cluster(*edges.to(device), moved, nodes)
    assert got.device.type == device
    assert got.is_contiguous()
    assert_same_bits(got, wanted)
    _assert_maximal_matching(got, edges, weight)


@pytest.mark.parametrize("listed", ["one way", "both ways"])
def test_heavy_edges_first(device, listed):
    """A path 0 - 1 - 2 - 3 whose middle edge is the heaviest, and not."""
    row, col = torch.tensor([[0, 1, 2], [1, 2, 3]])
    for weight, wanted in (([1, 2, 1], [0, 1, 1, 3]), ([2, 1, 2], [0, 0, 2, 2])):
        weight = torch.tensor(weight).float()
        if listed == "both ways":
            arguments = torch.cat((row, col)), torch.cat((col, row)), torch.cat((weight, weight))
        else:
            arguments = row, col, weight
        got = graclus_cluster(*(a.to(device) for a in arguments))
        assert got.tolist() == wanted


def test_weights_that_never_match(device):
    row, col = torch.tensor([[0, 2, 4, 6, 8, 8], [1, 3, 5, 7, 9, 8]], device=device)
    weight = torch.tensor([NAN, -1.0, 0.0, -0.0, INF, INF], device=device)
    wanted = [0, 1, 2, 3, 4, 4, 6, 6, 8, 8]
    assert graclus_cluster(row, col, weight).tolist() == wanted
    weight = torch.tensor([-5, -1, 0, 1, 2, 2], device=device)
    assert graclus_cluster(row, col, weight).tolist() == wanted


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_compressed_rows(device, index_dtype):
    nodes = 200
    edges = _graph(nodes, 4)
    edges = edges[:, edges[0].argsort(stable=True)]
    edges = edges[:, (edges[0] % 7) != 3]  # nodes without edges, the last one too
    edges = edges[:, edges[0] < nodes - 2]
    counts = torch.bincount(edges[0], minlength=nodes)
    rowptr = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0)))
    for weight in (None, _weights(torch.float32, edges.shape[1])):
        wanted = _expected(edges, weight, nodes, device, seed=4)
        torch.manual_seed(4)
        moved = None if weight is None else weight.to(device)
        got = CSR(rowptr.to(device, index_dtype), edges[1].to(device, index_dtype), moved)
        assert_same_bits(got, wanted)


def test_seeds(device):
    edges = _graph(300, 5).to(device)
    weight = torch.ones(edges.shape[1], device=device)
    for more in ((), (weight,)):
        results = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            results.append(graclus_cluster(*edges, *more))
        assert torch.equal(results[0], results[1])
        assert not torch.equal(results[0], results[2])
        assert not torch.equal(graclus_cluster(*edges, *more), results[2])  # the next draw


def test_all_orders_are_drawn(device):
    torch.manual_seed(0)
    draws = Counter(tuple(random_order(3, torch.device(device)).tolist()) for _ in range(240))
    assert set(draws) == set(itertools.permutations(range(3)))
    assert min(draws.values()) > 15


def test_no_edges(device):
    none = torch.empty(0, dtype=torch.int64, device=device)
    for weight in (None, torch.empty(0, device=device)):
        got = graclus_cluster(none, none, weight)
        assert_same_bits(got, none.cpu())
        assert graclus_cluster(none, none, weight, 3).tolist() == [0, 1, 2]
        assert graclus_cluster(none, none, weight, 0).tolist() == []
        assert CSR(torch.zeros(4, dtype=torch.int64, device=device), none, weight).tolist() == [
            *range(3)
        ]
        assert CSR(torch.zeros(1, dtype=torch.int64, device=device), none, weight).shape == (0,)


def test_number_of_nodes(device):
    row, col = torch.tensor([[4, 0], [2, 4]], device=device)
    assert graclus_cluster(row, col, torch.tensor([2, 1], device=device)).tolist() == [
        0,
        1,
        2,
        3,
        2,
    ]
    got = graclus_cluster(row.int(), col.int(), torch.tensor([1, 2], device=device), 7)
    assert got.tolist() == [0, 1, 2, 3, 0, 5, 6]
    assert got.dtype == torch.int64


def test_views_and_gradients(device):
    edges = _graph(50, 4)
    weight = torch.rand(400, generator=torch.Generator().manual_seed(1))
    wanted = _expected(edges, weight[::2], 50, device)
    torch.manual_seed(0)
    moved = weight.to(device).requires_grad_()[::2]
    row, col = edges.t().contiguous().to(device).unbind(1)
    got = graclus_cluster(row, col, moved, 50)
    assert not got.requires_grad
    assert_same_bits(got, wanted)


def test_default_dtype_and_device_change_nothing(device):
    edges = _graph(100, 4).to(device)
    weight = torch.rand(400, generator=torch.Generator().manual_seed(1)).to(device)
    torch.manual_seed(0)
    wanted = graclus_cluster(*edges, weight)
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("cpu" if device == "mps" else "mps")
        torch.manual_seed(0)
        got = graclus_cluster(*edges, weight)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert torch.equal(got, wanted)


@needs_emulator
@pytest.mark.parametrize(
    ("call", "reads"),
    [
        (lambda row, col, weight: graclus_cluster(row, col, weight, 300), 0),
        (lambda row, col, weight: graclus_cluster(row, col, weight), 1),
        (lambda row, col, weight: graclus_cluster(row, col, weight.long(), 300), 0),
        (lambda row, col, weight: graclus_cluster(row, col), 1),
        (lambda row, col, weight: graclus_cluster(row[:0], col[:0]), 0),
        (lambda row, col, weight: CSR(row.sort()[0][:301], col, weight), 0),
    ],
)
@pytest.mark.allow_wrong_on_mps("sort.int64")
def test_reads(call, reads):
    arguments = (*_graph(300, 4).to("mps"), torch.rand(1200, device="mps"))
    with mps_emulator.count_readbacks() as counted:
        call(*arguments)
    assert counted.count == reads, counted


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_opcheck(device):
    row, col = _graph(9, 3).to(device)
    weight = torch.rand(27, device=device, requires_grad=True)
    rowptr = torch.arange(10, device=device) * 3
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    if device == "cpu":
        checks.append("test_autograd_registration")
    core = torch.ops.mps_pointops.graclus_cluster.default
    # another draw would be another result
    heavier = (1 + torch.randperm(27)).to(device)
    for arguments in ((row, col, heavier, 9), (row, col, heavier, None)):
        torch.library.opcheck(core, arguments, test_utils=checks)
    torch.library.opcheck(CSR.default, (rowptr, col, heavier), test_utils=checks)
    torch.library.opcheck(core, (row, col, weight, 9), test_utils=checks)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(device, dynamic):
    def clusters(row, col, weight, nodes):
        one = graclus_cluster(row, col, weight)
        other = graclus_cluster(row, col, None, nodes)
        return one + 1, other * 2

    compiled = torch.compile(clusters, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for nodes in (20, 31):
        row, col = _graph(nodes, 3)
        row[0] = nodes - 1
        arguments = (row.to(device), col.to(device), torch.rand(3 * nodes).to(device), nodes)
        torch.manual_seed(0)
        got = compiled(*arguments)
        torch.manual_seed(0)
        for one, wanted in zip(got, clusters(*arguments), strict=True):
            assert torch.equal(one, wanted)
