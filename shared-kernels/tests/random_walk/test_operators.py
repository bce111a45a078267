"""The public function and its operators: order of edges, random numbers, errors, read-backs."""

from itertools import pairwise

import pytest
import torch

import mps_emulator
from mps_pointops.ops.random_walk import random_walk
from mps_pointops.ops.random_walk.reference import random_walk_reference

OPS = torch.ops.mps_pointops
CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)


def _graph(device="cpu", nodes=20, edges=90):
    rng = torch.Generator().manual_seed(3)
    row, col = (torch.randint(nodes, (edges,), generator=rng) for _ in range(2))
    return row.to(device), col.to(device)


def _ring(device, size=6):
    """Every node has one edge: walks are not random."""
    number = torch.arange(size, device=device)
    return number, (number + 1) % size


def _csr(row, nodes):
    row = row.sort().values.cpu()
    return torch.searchsorted(row, torch.arange(nodes + 1))


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3), (2.0, 0.25)])
def test_two_nodes_and_a_third(device, p, q):
    row, col = torch.tensor([0, 1], device=device), torch.tensor([1, 0], device=device)
    start = torch.tensor([0, 1, 2], device=device)
    nodes, edges = random_walk(row, col, start, 3, p, q, return_edge_indices=True)
    assert nodes.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0], [2, 2, 2, 2]]
    assert edges.tolist() == [[0, 1, 0], [1, 0, 1], [-1, -1, -1]]
    assert nodes.dtype == edges.dtype == torch.int64
    assert nodes.device.type == edges.device.type == device
    assert torch.equal(random_walk(row, col, start, 3, p, q), nodes)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("num_nodes", [None, 25])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3)])
@pytest.mark.parametrize("coalesced", [True, False])
def test_edges_are_those_of_the_list(device, coalesced, p, q, num_nodes, dtype):
    """Each step takes the edge that it names, in the order that `coalesced` says."""
    row, col = _graph(device)
    if not coalesced:
        row, order = row.sort(stable=True)
        col = col[order].flip(0)  # rows in order, the targets of a row in none
    start = torch.arange(22, device=device)
    arguments = (t.to(dtype) for t in (row, col, start))
    nodes, edges = random_walk(*arguments, 9, p, q, coalesced, num_nodes, True)
    pairs = list(zip(row.tolist(), col.tolist(), strict=True))
    pairs = sorted(pairs) if coalesced else pairs
    known = set(row.tolist())
    for path, steps in zip(nodes.tolist(), edges.tolist(), strict=True):
        for here, there, edge in zip(path, path[1:], steps, strict=False):
            if edge < 0:
                assert here == there
                assert here not in known
            else:
                assert pairs[edge] == (here, there)
    assert set(edges.flatten().tolist()) > {-1}


def _drawn_seed():
    return torch.randint(2**16, (4,), dtype=torch.int32).tolist()


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3)])
def test_the_seed_is_drawn_from_torch(p, q):
    row, col = _graph()
    start = torch.arange(20)
    torch.manual_seed(11)
    nodes, edges = random_walk(row, col, start, 7, p, q, return_edge_indices=True)
    torch.manual_seed(11)
    pairs = sorted(zip(row.tolist(), col.tolist(), strict=True))
    rowptr, targets = _csr(row, 20).tolist(), [b for _, b in pairs]
    wanted = random_walk_reference(rowptr, targets, start.tolist(), 7, p, q, _drawn_seed())
    assert (nodes.tolist(), edges.tolist()) == wanted


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3)])
def test_manual_seed_repeats(device, p, q):
    row, col = _graph(device)
    start = torch.arange(20, device=device).repeat(5)
    torch.manual_seed(5)
    first, second = (random_walk(row, col, start, 8, p, q) for _ in range(2))
    torch.manual_seed(5)
    again = random_walk(row, col, start, 8, p, q)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3)])
def test_rows_are_as_edges(device, p, q, dtype):
    """From rowptr the same walks as from the list; edges count in the given order."""
    row, col = _graph(device)
    order = (row * 20 + col).cpu().argsort(stable=True).to(device)
    row, col = row[order], col[order]
    rowptr = _csr(row, 20).to(device)
    start = torch.arange(20, device=device)
    torch.manual_seed(2)
    nodes, edges = random_walk(row, col, start, 8, p, q, return_edge_indices=True)
    torch.manual_seed(2)
    got = OPS.random_walk(rowptr.to(dtype), col.to(dtype), start.to(dtype), 8, p, q)
    assert torch.equal(got[0], nodes)
    assert torch.equal(got[1], edges)
    assert got[0].dtype == got[1].dtype == torch.int64
    # rows in another order: other edge numbers, and other walks only where p = q = 1
    flipped = torch.cat([col[a:b].flip(0) for a, b in pairwise(rowptr)])
    torch.manual_seed(2)
    other = OPS.random_walk(rowptr, flipped, start, 8, p, q)
    if p != 1:
        assert torch.equal(other[0], nodes)
    took = other[1] >= 0
    assert torch.equal(flipped[other[1][took]], other[0][:, 1:][took])
    assert torch.equal(row[other[1][took]], other[0][:, :-1][took])


@pytest.mark.parametrize("num_nodes", [None, 5])
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3)])
def test_empty(device, p, q, num_nodes):
    none = torch.empty(0, dtype=torch.int64, device=device)
    row, col = _graph(device, nodes=5)
    start = torch.tensor([2, 4], device=device)
    for coalesced in (True, False):
        nodes, edges = random_walk(none, none, start, 2, p, q, coalesced, num_nodes, True)
        assert nodes.tolist() == [[2, 2, 2], [4, 4, 4]]
        assert edges.tolist() == [[-1, -1], [-1, -1]]
        nodes, edges = random_walk(none, none, none, 2, p, q, coalesced, num_nodes, True)
        assert (nodes.shape, edges.shape) == ((0, 3), (0, 2))
    nodes, edges = random_walk(row, col, none, 4, p, q, True, num_nodes, True)
    assert (nodes.shape, edges.shape) == ((0, 5), (0, 4))
    nodes, edges = random_walk(row, col, start, 0, p, q, True, num_nodes, True)
    assert nodes.tolist() == [[2], [4]]
    assert edges.shape == (2, 0)


def test_strided_input(device):
    row, col = _graph(device)
    start = torch.arange(20, device=device)
    both = torch.stack((row, col), dim=1)
    torch.manual_seed(1)
    wanted = random_walk(row, col, start, 5, 0.5, 2)
    torch.manual_seed(1)
    wide = start.repeat_interleave(2)[::2]
    assert torch.equal(random_walk(both[:, 0], both[:, 1], wide, 5, 0.5, 2), wanted)


@needs_emulator
@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.5, 3)])
@pytest.mark.parametrize(("num_nodes", "reads"), [(None, 1), (20, 0)])
@pytest.mark.parametrize("coalesced", [True, False])
def test_readbacks(coalesced, num_nodes, reads, p, q):
    row, col = _graph("mps")
    row = row.cpu().sort().values.to("mps")
    start = torch.arange(20, device="mps")
    rowptr = _csr(row, 20).to("mps")
    with mps_emulator.count_readbacks() as counted:
        random_walk(row, col, start, 4, p, q, coalesced, num_nodes)
    assert counted.count == reads, counted
    with mps_emulator.count_readbacks() as counted:
        OPS.random_walk(rowptr, col, start, 4, p, q)
    assert counted.count == 0, counted


# opcheck itself reads the gradient of tensors that are no leaves
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.5, 3.0)])
def test_opcheck(device, p, q):
    row, col = _ring(device)
    rowptr = torch.arange(7, device=device)
    start = torch.tensor([3, 0], device=device)
    seed = torch.tensor([1, 2, 3, 4], dtype=torch.int32, device=device)
    calls = [
        (OPS.random_walk_seeded.default, (rowptr, col, start, 4, p, q, seed)),
        (OPS.random_walk.default, (rowptr, col, start, 4, p, q)),
        (OPS.random_walk_coo.default, (row, col, start, 4, p, q, True, None)),
        (OPS.random_walk_coo.default, (row, col, start, 4, p, q, False, 6)),
    ]
    for op, arguments in calls:
        torch.library.opcheck(op, arguments, test_utils=CHECKS)
        assert (torch.Tag.nondeterministic_seeded in op.tags) == (len(arguments) != 7)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("num_nodes", [None, 8])
def test_compile_fullgraph(device, num_nodes, dynamic):
    def walk(row, col, start):
        nodes, edges = random_walk(row, col, start, 4, 0.5, 2, True, num_nodes, True)
        return nodes + 1, edges

    torch.compiler.reset()  # all variants are one function to torch
    compiled = torch.compile(walk, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for size in (5, 8):
        row, col = _ring(device, size)
        start = torch.arange(size - 1, device=device)
        for got, wanted in zip(compiled(row, col, start), walk(row, col, start), strict=True):
            assert torch.equal(got, wanted)


def test_float64_as_default_changes_nothing(device):
    row, col = _graph(device)
    start = torch.arange(20, device=device)
    torch.manual_seed(4)
    wanted = random_walk(row, col, start, 5, 0.5, 2)
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(4)
        assert torch.equal(random_walk(row, col, start, 5, 0.5, 2), wanted)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"row": [0, 1]}, TypeError, r"row must be a torch.Tensor, got list"),
        ({"col": torch.rand(6)}, TypeError, r"col must be int64 or int32, got torch.float32"),
        ({"start": torch.tensor(0)}, ValueError, r"start must be a tensor of one axis"),
        ({"start": torch.zeros(2, 2).long()}, ValueError, r"start must be .* shape \[2, 2\]"),
        ({"col": torch.zeros(5).long()}, ValueError, r"col must be of the shape of row \[6\]"),
        ({"walk_length": -1}, ValueError, r"walk_length must be at least 0, got -1"),
        ({"walk_length": 2.5}, TypeError, r"walk_length must be an integer, got float"),
        ({"p": 0}, ValueError, r"p must be positive, got 0"),
        ({"q": -1.5}, ValueError, r"q must be positive, got -1.5"),
        ({"q": float("nan")}, ValueError, r"q must be positive, got nan"),
        ({"p": "1"}, TypeError, r"p must be a number, got str"),
        ({"p": None}, TypeError, r"p must be a number, got NoneType"),
        ({"num_nodes": -1}, ValueError, r"num_nodes must be at least 0"),
        ({"num_nodes": 1.0}, TypeError, r"num_nodes must be an integer, got float"),
        ({"start": torch.tensor([0, -3])}, IndexError, r"start must be at least 0, got -3"),
        ({"row": torch.tensor([0, 1, -1, 2, 3, 4])}, IndexError, r"row must be at least 0"),
        (
            {"row": torch.tensor([0, 1, 2, 4, 3, 5]), "coalesced": False},
            ValueError,
            r"row must be sorted in ascending order.*coalesced=True",
        ),
    ],
)
def test_errors(device, change, error, message):
    row, col = _ring("cpu")
    arguments = {"row": row, "col": col, "start": torch.tensor([0, 1]), "walk_length": 3, **change}
    moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    with pytest.raises(error, match=r"^random_walk: " + message):
        random_walk(**moved)


@pytest.mark.parametrize("name", ["row", "col", "start"])
def test_given_sizes_are_checked_where_nothing_is_read(device, name, monkeypatch):
    if device == "mps":
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    row, col = _ring(device)
    arguments = {"row": row, "col": col, "start": row.clone()}
    arguments[name] = arguments[name] + 1
    size = int(arguments[name].max())
    with pytest.raises(IndexError, match=rf"{name} must be from 0 to {size - 1}, got {size}"):
        random_walk(**arguments, walk_length=2, num_nodes=size)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({0: [0, 3, 2, 6]}, ValueError, "rowptr must be ascending .* descend"),
        ({0: [1, 3, 4, 6]}, ValueError, "rowptr must be ascending from 0 .* got 1 to 6"),
        ({0: [0, 3, 4, 5]}, ValueError, r"length of col \(6\), got 0 to 5"),
        ({1: [0, 1, 2, 3, 0, 0]}, IndexError, "col must be from 0 to 2, got 3"),
        ({2: [3]}, IndexError, "start must be from 0 to 2, got 3"),
    ],
)
def test_rows_are_checked(device, change, error, message, monkeypatch):
    if device == "mps":
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    lists = {0: [0, 3, 4, 6], 1: [0, 1, 2, 0, 0, 0], 2: [1], **change}
    tensors = [torch.tensor(lists[i], device=device) for i in range(3)]
    with pytest.raises(error, match=message):
        OPS.random_walk(*tensors, 3, 1.0, 1.0)


def test_rows_of_no_length(device):
    none = torch.empty(0, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match=r"rowptr must be of shape \[N \+ 1\]"):
        OPS.random_walk(none, none, none, 3, 1.0, 1.0)


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.5, 2.0)])
def test_wrong_numbers_on_mps_stay_inside(p, q):
    """Nothing is read back, so nothing is refused; nothing is read out of bounds either."""
    row, col = torch.tensor([3, 0, -7, 2**40, 1]), torch.tensor([1, 2**33, 5, 0, -1])
    start = torch.tensor([0, -1, 99, 2])
    nodes, edges = random_walk(*(t.to("mps") for t in (row, col, start)), 5, p, q, True, 4, True)
    assert nodes.shape == (4, 6)
    assert ((edges >= -1) & (edges < 5)).all()
    rowptr = torch.tensor([-5, 2, 9, 1, 2**40])
    nodes, edges = OPS.random_walk(*(t.to("mps") for t in (rowptr, col, start)), 5, p, q)
    assert ((edges >= -1) & (edges < 5)).all()


def test_devices_differ():
    row, col = _ring("cpu")
    with pytest.raises(ValueError, match=r"start must be on the device of row \(cpu\)"):
        random_walk(row, col, torch.tensor([0], device="mps"), 2)
