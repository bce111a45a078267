"""`torch.compile(fullgraph=True)`, inference mode, default dtype and device, read-backs."""

import pytest
import torch

import mps_emulator
import torch_cluster
from pointops_testing import assert_same_bits


def _data(device, size=30):
    x = torch.rand(size, 3, generator=torch.Generator().manual_seed(0)).to(device)
    batch = (torch.arange(size) // 10).to(device)
    row = torch.arange(size, device=device)
    return x, batch, row, (row + 1) % size


def _points(x, batch, row, col):
    tc = torch_cluster
    sizes = torch.full((3,), 0.3, device=x.device)
    picks = tc.fps(x, batch, 0.3, False)
    return [
        picks,
        tc.fps(x, batch, torch.full((3,), 0.5, device=x.device), False, batch_size=3),
        tc.fps(x, ptr=[0, x.shape[0]], random_start=False),
        tc.knn(x, x[picks], 4, batch, batch[picks]),
        tc.knn_graph(x, 3, batch),
        tc.knn_graph(x, 3, batch, True, "target_to_source", True),
        tc.radius(x, x[picks], 0.4, batch, batch[picks], 5),
        tc.radius_graph(x, 0.4, batch, max_num_neighbors=None),
        tc.nearest(x, x, batch, batch),
        tc.grid_cluster(x, sizes),
        tc.graclus_cluster(row, col, (row % 7).float()),
        tc.random_walk(row, col, row, 4),
        *tc.random_walk(row, col, row, 4, 0.5, 2.0, True, x.shape[0], True),
    ]


def _seeded(function, *arguments):
    torch.manual_seed(0)
    return function(*arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_fullgraph(device, dynamic):
    compiled = torch.compile(_points, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for size in (30, 27):
        data = _data(device, size)
        torch.manual_seed(0)
        for n, (got, wanted) in enumerate(zip(compiled(*data), _points(*data), strict=True)):
            if n == 10:  # edges of equal weight come in random order
                assert got.shape == wanted.shape
            else:  # one edge a node: walks have no choice
                assert_same_bits(got, wanted)


def _with_numbers_as_tensors(x, batch, row, col, number, part):
    tc = torch_cluster
    clouds, nodes = batch.max() + 1, row.max() + 1
    return [
        tc.fps(x, batch, 0.3, False, batch_size=clouds),
        tc.knn(x, x, number, batch, batch, batch_size=clouds),
        tc.knn_graph(x, number, batch, batch_size=clouds),
        tc.radius(x, x, part, batch, batch, number, batch_size=clouds),
        tc.radius_graph(x, part, batch, max_num_neighbors=number, batch_size=clouds),
        tc.graclus_cluster(row[:2], row[:2], None, nodes),
        tc.random_walk(row, col, row, number, part, part, num_nodes=nodes),
    ]


def test_numbers_as_tensors(device):
    """Such as a cutoff that is learned, or `batch.max() + 1`: without a warning, compiled too."""
    x, batch, row, col = _data(device)
    batch, row, col = batch.int(), row.int(), col.int()
    part = torch.tensor([0.4], device=device, requires_grad=True)
    number = torch.tensor(4, device=device)
    plain = _with_numbers_as_tensors(x, batch, row, col, 4, 0.4)
    compiled = torch.compile(_with_numbers_as_tensors, backend="aot_eager")
    for call in (_with_numbers_as_tensors, compiled):
        for got, wanted in zip(call(x, batch, row, col, number, part), plain, strict=True):
            assert_same_bits(got, wanted)


def test_tensors_that_are_no_number(device):
    x = torch.rand(4, 3, device=device)
    row = torch.arange(4, device=device)
    for call, name in (
        (lambda r: torch_cluster.radius(x, x, r), "r"),
        (lambda r: torch_cluster.radius_graph(x, r), "r"),
        (lambda p: torch_cluster.random_walk(row, row, row, 2, p), "p"),
    ):
        for wrong in (torch.ones(4), torch.ones(0), torch.complex(torch.ones(1), torch.ones(1))):
            with pytest.raises(TypeError, match=f"{name} must be a number, got a tensor of"):
                call(wrong.to(device))


def test_gradients_pass_beside_indices(device):
    def energy(x, batch):
        edges = torch_cluster.radius_graph(x, 0.5, batch)
        return (x[edges[0]] - x[edges[1]]).square().sum()

    x, batch, *_ = _data(device)
    x.requires_grad_()
    compiled = torch.compile(energy, backend="aot_eager", fullgraph=True)
    (got,) = torch.autograd.grad(compiled(x, batch), x)
    (wanted,) = torch.autograd.grad(energy(x, batch), x)
    torch.testing.assert_close(got, wanted)


def test_inference_mode_and_default_dtype(device):
    data = _data(device)
    wanted = _seeded(_points, *data)
    with torch.inference_mode():
        results = [_seeded(_points, *data)]
    torch.set_default_dtype(torch.float64)
    try:
        # float64 is for the callers' own tensors, which the device may not have
        data = [t.clone() for t in data]
        results.append(
            [
                torch_cluster.fps(data[0], data[1], 0.3, False),
                torch_cluster.knn_graph(data[0], 3, data[1]),
                torch_cluster.radius_graph(data[0], 0.4, data[1], max_num_neighbors=None),
            ]
        )
    finally:
        torch.set_default_dtype(torch.float32)
    for got, plain in zip(results[0], wanted, strict=True):
        assert_same_bits(got, plain)
    for got, plain in zip(results[1], (wanted[0], wanted[4], wanted[7]), strict=True):
        assert_same_bits(got, plain)


def test_default_device(device):
    """Tensors that a function makes do not go where the caller's new ones go."""
    x, batch, *_ = _data(device)
    other = "mps" if device == "cpu" else "cpu"
    wanted = torch_cluster.fps(x, ptr=[0, 10, 30], ratio=0.3, random_start=False)
    with torch.device(other):
        got = torch_cluster.fps(x, ptr=[0, 10, 30], ratio=0.3, random_start=False)
        assert_same_bits(torch_cluster.knn_graph(x, 2, batch), torch_cluster.knn_graph(x, 2, batch))
    assert_same_bits(got, wanted)
    assert got.device.type == device


READS = {
    "fps": (lambda tc, x, b, r, c: tc.fps(x), 0),
    "fps list": (lambda tc, x, b, r, c: tc.fps(x, ptr=[0, 10, 30]), 0),
    "fps batch": (lambda tc, x, b, r, c: tc.fps(x, b), 1),
    "fps batch_size": (lambda tc, x, b, r, c: tc.fps(x, b, batch_size=3), 1),
    "knn": (lambda tc, x, b, r, c: tc.knn(x, x, 3, b, b), 1),
    "cosine": (lambda tc, x, b, r, c: tc.knn(x, x, 3, b, b, True), 1),
    "knn_graph": (lambda tc, x, b, r, c: tc.knn_graph(x, 3, b), 1),
    "radius": (lambda tc, x, b, r, c: tc.radius(x, x, 0.3, b, b), 1),
    "radius_graph": (lambda tc, x, b, r, c: tc.radius_graph(x, 0.3, b), 1),
    "nearest": (lambda tc, x, b, r, c: tc.nearest(x, x), 0),
    "nearest batch": (lambda tc, x, b, r, c: tc.nearest(x, x, b, b), 1),
    "grid": (lambda tc, x, b, r, c: tc.grid_cluster(x, x[0]), 0),
    "graclus": (lambda tc, x, b, r, c: tc.graclus_cluster(r, c), 1),
    "graclus known": (lambda tc, x, b, r, c: tc.graclus_cluster(r, c, None, 30), 0),
    "walk": (lambda tc, x, b, r, c: tc.random_walk(r, c, r, 3), 1),
    "walk known": (lambda tc, x, b, r, c: tc.random_walk(r, c, r, 3, num_nodes=30), 0),
    "walk p q": (lambda tc, x, b, r, c: tc.random_walk(r, c, r, 3, 0.5, 2.0), 1),
}


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a real device does not count")
@pytest.mark.parametrize("name", READS)
def test_read_backs(name):
    call, reads = READS[name]
    data = _data("mps")
    call(torch_cluster, *data)
    with mps_emulator.count_readbacks() as counted:
        call(torch_cluster, *data)
    assert counted.count == reads, counted
