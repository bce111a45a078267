"""`flat_knn_graph`: the edges of `flat_knn` to k + 1 points, without loops, in one read-back."""

import pytest
import torch

import mps_emulator
from mps_pointops import _flat_graph
from pointops_testing import CLOUDS, assert_same_bits, cloud

BATCHES = {
    "one": None,
    "gaps": torch.tensor([0] * 20 + [2] * 1 + [5] * 2 + [7] * 40),
}


def _wanted(x, k, batch):
    edges = torch.ops.mps_pointops.flat_knn(x, x, batch, batch, None, None, k + 1, None, 1).cpu()
    return edges[:, edges[0] != edges[1]]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("k", [1, 6, 63])
def test_edges(device, name, batch, k):
    x, batch = cloud(name, 63).to(device), BATCHES[batch]
    batch = None if batch is None else batch.to(device)
    got = torch.ops.mps_pointops.flat_knn_graph(x, batch, k, None, 1)
    assert got.device.type == device
    assert got.is_contiguous()
    assert_same_bits(got, _wanted(x, k, batch))


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_few(device, size, k):
    x = torch.arange(size * 2.0, device=device).view(size, 2)
    got = torch.ops.mps_pointops.flat_knn_graph(x, None, k, None, 1)
    assert got.tolist() == ([[0, 1], [1, 0]] if size == 2 and k else [[], []])


def test_equal_points_keep_k_plus_one(device):
    got = torch.ops.mps_pointops.flat_knn_graph(torch.ones(9, 3, device=device), None, 2, None, 1)
    assert got[0].bincount(minlength=9).tolist() == [2, 2, 2, 3, 3, 3, 3, 3, 3]
    assert bool((got[0] != got[1]).all())


def test_counted_first(device, monkeypatch):
    x, batch = cloud("duplicates", 63).to(device), BATCHES["gaps"].to(device)
    monkeypatch.setattr(_flat_graph, "_SLOTS_UNCOUNTED", 0)
    monkeypatch.setattr(_flat_graph, "_USUAL_K", 49)
    assert_same_bits(
        torch.ops.mps_pointops.flat_knn_graph(x, batch, 50, None, 1), _wanted(x, 50, batch)
    )


def test_equal_points_counted_first(device, monkeypatch):
    """Whether a point is among its k + 1 neighbours is known after the search alone."""
    x = torch.ones(9, 3, device=device)
    batch = torch.zeros(9, dtype=torch.int64, device=device)
    wanted = torch.ops.mps_pointops.flat_knn_graph(x, batch, 2, None, 1)
    monkeypatch.setattr(_flat_graph, "_SLOTS_UNCOUNTED", 0)
    monkeypatch.setattr(_flat_graph, "_USUAL_K", 1)
    assert wanted.shape == (2, 24)
    assert_same_bits(torch.ops.mps_pointops.flat_knn_graph(x, batch, 2, None, 1), wanted)


def test_no_finite_point(device, monkeypatch):
    x = torch.full((5, 3), torch.nan, device=device)
    for _ in range(2):
        got = torch.ops.mps_pointops.flat_knn_graph(x, None, 2, None, 1)
        assert got.shape == (2, 0)
        monkeypatch.setattr(_flat_graph, "_SLOTS_UNCOUNTED", 0)
        monkeypatch.setattr(_flat_graph, "_USUAL_K", 1)


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a device counts no reads")
@pytest.mark.parametrize("slots", [0, 2**24])
def test_one_read(monkeypatch, slots):
    """However large the result is: the usual k is not counted first."""
    monkeypatch.setattr(_flat_graph, "_SLOTS_UNCOUNTED", slots)
    x, batch = cloud("random", 63).to("mps"), BATCHES["gaps"].to("mps")
    torch.ops.mps_pointops.flat_knn_graph(x, batch, 5, None, 1)
    with mps_emulator.count_readbacks() as reads:
        torch.ops.mps_pointops.flat_knn_graph(x, batch, 5, None, 1)
    assert reads.count == 1, reads


def test_batch_is_checked(device):
    x, call = torch.rand(4, 3, device=device), torch.ops.mps_pointops.flat_knn_graph
    with pytest.raises(ValueError, match="sorted in ascending order"):
        call(x, torch.tensor([0, 1, 0, 1], device=device), 2, None, 1)
    with pytest.raises(ValueError, match=r"below the number of clouds \(1\)"):
        call(x, torch.tensor([0, 0, 1, 1], device=device), 2, 1, 1)


def test_operator(device):
    torch.library.opcheck(
        torch.ops.mps_pointops.flat_knn_graph,
        (torch.rand(9, 3, device=device), None, 3, None, 1),
    )
