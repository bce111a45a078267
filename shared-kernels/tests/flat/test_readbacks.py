"""The device is read once a call, or not at all where sizes are known."""

import pytest
import torch

import mps_emulator
import mps_pointops
from mps_pointops import _flat_search, flat

needs_emulator = pytest.mark.skipif(
    not mps_emulator.is_installed(), reason="a real device does not count its reads"
)


def _data():
    x = torch.rand(60, 3, device="mps")
    batch = torch.tensor([0] * 20 + [2] * 10 + [5] * 30, device="mps")
    return x, batch


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
def test_counting_first_reads_once(monkeypatch):
    monkeypatch.setattr(_flat_search, "_SLOTS_UNCOUNTED", 0)
    test_reads(lambda x, b: flat.radius(x, x, 0.5, b, b), 1)


@needs_emulator
def test_reads_are_counted():
    with mps_emulator.count_readbacks() as counted:
        torch.ones(3, device="mps").sum().item()
    assert counted.count == 1
