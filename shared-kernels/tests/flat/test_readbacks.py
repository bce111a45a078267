"""The device is read once a call, or not at all where sizes are known."""

import pytest
import torch

import mps_emulator
import mps_pointops
from mps_pointops import _flat_graph, _flat_search, flat
from mps_pointops._metal import Source

needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)


def _data():
    x = torch.rand(60, 3, device="mps")
    batch = torch.tensor([0] * 20 + [2] * 10 + [5] * 30, device="mps")
    return x, batch


def _whole(x, call):
    """With integer coordinates, which take two operators to make."""
    return call((x * 100).long())


@needs_emulator
@pytest.mark.parametrize(
    ("call", "reads"),
    [
        (lambda x, b: mps_pointops.furthest_point_sample(x[None], 5), 0),
        (lambda x, b: mps_pointops.knn(x[None], x[None], 5), 0),
        (lambda x, b: mps_pointops.ball_query(x[None], x[None], 0.5, 5), 0),
        (lambda x, b: flat.fps(x, ratio=0.5), 0),
        (lambda x, b: flat.fps(x, ptr=[0, 20, 60]), 0),
        (lambda x, b: flat.fps(x, b), 1),
        (lambda x, b: flat.fps(x, b, batch_size=6), 1),
        (lambda x, b: flat.fps(x, ptr=torch.tensor([0, 20, 60], device="mps")), 1),
        (lambda x, b: flat.fps(x, b, torch.full((6,), 0.5, device="mps")), 1),
        (lambda x, b: flat.fps(x, b, torch.tensor(0.5, device="mps")), 1),
        (lambda x, b: flat.knn(x, x, 3), 1),
        (lambda x, b: flat.knn(x, x, 3, b, b), 1),
        (lambda x, b: flat.radius(x, x, 0.5), 1),
        (lambda x, b: flat.radius(x, x, 0.5, b, b), 1),
        (lambda x, b: flat.knn(x, x, 0), 0),
        (lambda x, b: flat.knn(x, x[:0], 3, b), 1),
    ],
)
def test_reads(call, reads):
    x, batch = _data()
    call(x, batch)  # compiles
    with mps_emulator.count_readbacks() as counted:
        call(x, batch)
    assert counted.count == reads, counted


@needs_emulator
@pytest.mark.parametrize(
    ("call", "most"),
    [
        (lambda x, b: flat.knn(x, x, 3, b, b), 3),
        (lambda x, b: flat.knn(x, x, 3, b.int(), b.int(), batch_size=6), 7),
        (lambda x, b: flat.radius(x, x, 0.5, b, b), 4),
        (lambda x, b: torch.ops.mps_pointops.flat_knn_graph(x, b, 3, None, 0), 4),
        (lambda x, b: _whole(x, lambda i: flat.knn(i, i, 3, b, b)), 2 + 12),
        (lambda x, b: flat.fps(x, b), 4),
        (lambda x, b: flat.fps(x, b, 0.3, False, batch_size=6), 3),
        (lambda x, b: flat.fps(x), 3),
        (lambda x, b: flat.fps(x, random_start=False), 1),
    ],
)
def test_dispatches(call, most, monkeypatch):
    """Kernels and operators that run on the device, but for the read."""
    x, batch = _data()
    launched = []
    kernel = Source.kernel

    def counted(self, *values, name=None):
        found = kernel(self, *values, name=name)

        def launch(*arguments, **grid):
            launched.append(name or self.kernels[0])
            return found(*arguments, **grid)

        return launch

    call(x, batch)  # compiles
    monkeypatch.setattr(Source, "kernel", counted)
    with mps_emulator.count_operators() as operators, mps_emulator.count_readbacks() as reads:
        call(x, batch)
    count = len(launched) + operators.count - reads.count
    assert count <= most, (launched, operators)


@needs_emulator
@pytest.mark.parametrize(
    ("size", "k", "reads"),
    [(40, 3, 1), (40, 9, 2), (40, 10, 1), (40, 11, 1), (40, 29, 2), (0, 10, 1)],
)
def test_large_graphs_are_counted_first(size, k, reads, monkeypatch):
    """Once, if no cloud has more than k points; all edges are those of a graph not counted."""
    x, batch = _data()
    x[5] = torch.nan
    x[size:] = x[0]  # more points in one place than k
    batch = torch.arange(60, device="mps") // 10 if k < 20 else batch
    graph = torch.ops.mps_pointops.flat_knn_graph
    wanted = graph(x.cpu(), batch.cpu(), k, None, 0)
    monkeypatch.setattr(_flat_graph, "_SLOTS_UNCOUNTED", 0)
    monkeypatch.setattr(_flat_graph, "_USUAL_K", 3)
    with mps_emulator.count_readbacks() as counted:
        got = graph(x, batch, k, None, 0)
    assert got.tolist() == wanted.tolist()
    assert counted.count == reads


@needs_emulator
def test_counting_first_reads_once(monkeypatch):
    monkeypatch.setattr(_flat_search, "_SLOTS_UNCOUNTED", 0)
    test_reads(lambda x, b: flat.radius(x, x, 0.5, b, b), 1)


@needs_emulator
def test_reads_are_counted():
    with mps_emulator.count_readbacks() as counted:
        torch.ones(3, device="mps").sum().item()
    assert counted.count == 1
