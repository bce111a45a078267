"""`torch.ops.torch_cluster`: names, kinds of arguments, results as those of the functions."""

import pytest
import torch

import torch_cluster
from pointops_testing import assert_same_bits

ops = torch.ops.torch_cluster
KINDS = {
    "fps": "Tensor Tensor Tensor bool",
    "knn": "Tensor Tensor Optional[Tensor] Optional[Tensor] int bool int",
    "radius": "Tensor Tensor Optional[Tensor] Optional[Tensor] float int int bool",
    "nearest": "Tensor Tensor Tensor Tensor",
    "grid": "Tensor Tensor Optional[Tensor] Optional[Tensor]",
    "graclus": "Tensor Tensor Optional[Tensor]",
    "random_walk": "Tensor Tensor Tensor int float float",
    "neighbor_sampler": "Tensor Tensor int float",
    "cuda_version": "",
}


@pytest.mark.parametrize("name", KINDS)
def test_schema(name):
    schema = getattr(ops, name).default._schema
    assert " ".join(str(argument.type) for argument in schema.arguments) == KINDS[name]
    returned = ["Tensor", "Tensor"] if name == "random_walk" else ["Tensor"]
    returned = ["int"] if name == "cuda_version" else returned
    assert [str(result.type) for result in schema.returns] == returned
    if name != "cuda_version":
        for key in ("CPU", "MPS"):
            assert torch._C._dispatch_has_kernel_for_dispatch_key(f"torch_cluster::{name}", key)


def test_there_are_no_others():
    registered = torch._C._dispatch_get_all_op_names()
    ours = {name for name in registered if name.startswith("torch_cluster::")}
    assert ours == {f"torch_cluster::{name}" for name in KINDS}
    assert ops.cuda_version() == torch_cluster.cuda_version == -1


@pytest.fixture
def data(device):
    x = torch.rand(30, 3, generator=torch.Generator().manual_seed(0)).to(device)
    batch = torch.tensor([0] * 10 + [1] * 5 + [2] * 15, device=device)
    return x, batch, torch.tensor([0, 10, 15, 30], device=device)


@pytest.fixture
def graph(device):
    row = torch.tensor([0, 1, 1, 1, 2, 2, 3, 3, 4, 4], device=device)
    col = torch.tensor([1, 0, 2, 3, 1, 4, 1, 4, 2, 3], device=device)
    return row, col, torch.tensor([0, 1, 4, 6, 8, 10], device=device)


def test_points(data):
    x, batch, ptr = data
    ratio = torch.tensor(0.3)
    assert_same_bits(ops.fps(x, ptr, ratio, False), torch_cluster.fps(x, batch, 0.3, False))
    wanted = torch_cluster.knn(x, x, 4, batch, batch)
    assert_same_bits(ops.knn(x, x, ptr, ptr, 4, False, 1), wanted)
    assert_same_bits(ops.knn(x, x, ptr.int(), ptr.int(), 4, False, 1), wanted)
    assert_same_bits(ops.knn(x, x, None, None, 4, False, 1), torch_cluster.knn(x, x, 4))
    wanted = torch_cluster.radius(x, x, 0.4, batch, batch, 5)
    assert_same_bits(ops.radius(x, x, ptr, ptr, 0.4, 5, 1), wanted)
    assert_same_bits(ops.radius(x, x, ptr, ptr, 0.4, 5, 1, False), wanted)
    wanted = torch_cluster.radius_graph(x, 0.4, batch, False, 5, "target_to_source")
    assert_same_bits(ops.radius(x, x, ptr, ptr, 0.4, 5, 1, True), wanted)
    y = x.flip([0]) * 2
    wanted = torch_cluster.nearest(x, y, batch, batch)
    assert_same_bits(ops.nearest(x, y, ptr, ptr), wanted)
    size = torch.full((3,), 0.3, device=x.device)
    assert_same_bits(ops.grid(x, size, None, None), torch_cluster.grid_cluster(x, size))
    cosine = torch_cluster.knn(x, x, 4, batch, batch, True)
    assert_same_bits(ops.knn(x, x, ptr, ptr, 4, True, 1), cosine)


def test_graphs(graph):
    row, col, rowptr = graph
    weight = torch.arange(10.0, device=row.device) ** 2
    weight = weight + weight[[1, 0, 4, 6, 2, 8, 3, 9, 5, 7]]  # both directions weigh the same
    wanted = torch_cluster.graclus_cluster(row, col, weight)
    assert_same_bits(ops.graclus(rowptr, col, weight), wanted)
    start = torch.tensor([0, 3, 4], device=row.device)
    for p, q in ((1.0, 1.0), (0.5, 2.0)):
        torch.manual_seed(0)
        nodes, edges = ops.random_walk(rowptr, col, start, 6, p, q)
        torch.manual_seed(0)
        wanted = torch_cluster.random_walk(row, col, start, 6, p, q, return_edge_indices=True)
        assert_same_bits(nodes, wanted[0])
        assert_same_bits(edges, wanted[1])
    if row.device.type == "cpu":
        assert ops.neighbor_sampler(start, rowptr, 2, -1.0).shape == (5,)
        assert ops.neighbor_sampler(start, rowptr, -1, 1.0).shape == (5,)


def test_pointers_that_do_not_fit(data):
    x, _, ptr = data
    for wrong in (ptr[:-1], ptr + 1, ptr.flip([0])):
        with pytest.raises(ValueError, match="ptr"):
            ops.knn(x, x, wrong, wrong, 2, False, 1)
        with pytest.raises(ValueError, match="ptr"):
            ops.fps(x, wrong, torch.tensor(0.5), True)
    with pytest.raises(ValueError, match="ptr_y must be given"):
        ops.knn(x, x, ptr, None, 2, False, 1)


CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def test_opcheck(data, graph):
    x, _, ptr = data
    _, col, rowptr = graph
    size = torch.full((3,), 0.3, device=x.device)
    calls = {
        "fps": (x, ptr, torch.tensor(0.3), False),
        "knn": (x, x, ptr, ptr, 4, False, 1),
        "radius": (x, x, ptr, ptr, 0.4, 5, 1),
        "nearest": (x, x, ptr, ptr),
        "grid": (x, size, None, None),
        "graclus": (rowptr, col, None),
        "random_walk": (rowptr, col, col, 5, 1.0, 1.0),
    }
    for name, arguments in calls.items():
        torch.library.opcheck(getattr(ops, name), arguments, test_utils=CHECKS)
