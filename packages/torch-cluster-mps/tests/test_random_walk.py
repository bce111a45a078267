"""`random_walk`; the distributions of its steps are tested with the kernel."""

import pytest
import torch

from torch_cluster import random_walk

ROW = [0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
COL = [1, 0, 2, 3, 1, 4, 1, 4, 2, 3]


def _tensors(device, *lists, dtype=torch.int64):
    return [torch.tensor(values, device=device, dtype=dtype) for values in lists]


def _check(nodes, edges, row, col, start, length):
    """Every step is along an edge that the second result names."""
    assert nodes.dtype == edges.dtype == torch.int64
    assert nodes.shape == (len(start), length + 1)
    assert edges.shape == (len(start), length)
    assert nodes[:, 0].tolist() == start.tolist()
    for walk, steps in zip(nodes.tolist(), edges.tolist(), strict=True):
        for at, edge, then in zip(walk, steps, walk[1:], strict=False):
            if edge == -1:
                assert at == then
                assert at not in row.tolist()
            else:
                assert (row[edge].item(), col[edge].item()) == (at, then)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (0.25, 4.0), (4, 0.25), (1e6, 1e-6)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_walks(device, p, q, dtype):
    row, col, start = _tensors(device, ROW, COL, [0, 1, 2, 3, 4, 1], dtype=dtype)
    nodes, edges = random_walk(row, col, start, 10, p, q, return_edge_indices=True)
    assert nodes.device.type == device
    _check(nodes, edges, row, col, start, 10)
    assert random_walk(row, col, start, 10, p, q).shape == (6, 11)


def test_edges_count_in_the_sorted_list(device):
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0)).tolist()
    row, col, start = _tensors(device, [ROW[i] for i in order], [COL[i] for i in order], [0, 4, 2])
    nodes, edges = random_walk(row, col, start, 8, return_edge_indices=True)
    _check(nodes, edges, *_tensors(device, ROW, COL), start, 8)


def test_no_choice(device):
    """A pair of nodes and one without edges."""
    row, col, start = _tensors(device, [0, 1], [1, 0], [0, 1, 2])
    for options in ({}, {"p": 2.0, "q": 0.5}, {"coalesced": False}):
        nodes, edges = random_walk(
            row, col, start, 4, num_nodes=3, return_edge_indices=True, **options
        )
        assert nodes.tolist() == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1], [2, 2, 2, 2, 2]]
        assert edges.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0], [-1, -1, -1, -1]]


def test_sizes(device):
    row, col, start, nothing = _tensors(device, ROW, COL, [3, 1], [])
    nodes, edges = random_walk(row, col, start, 0, return_edge_indices=True)
    assert nodes.tolist() == [[3], [1]]
    assert edges.shape == (2, 0)
    assert random_walk(row, col, nothing, 3).shape == (0, 4)
    assert random_walk(nothing, nothing, start, 2, num_nodes=4).tolist() == [[3] * 3, [1] * 3]


def test_seeds(device):
    row, col, start = _tensors(device, ROW, COL, list(range(5)) * 8)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(random_walk(row, col, start, 10, 0.5, 2.0).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_errors(device):
    row, col, start = _tensors(device, ROW, COL, [0])
    for bad in ({"p": 0}, {"q": -1.0}, {"p": float("nan")}):
        with pytest.raises(ValueError, match="must be positive"):
            random_walk(row, col, start, 3, **bad)
    with pytest.raises(ValueError, match="col must be"):
        random_walk(row, col[:3], start, 3)
