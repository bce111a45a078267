"""`neighbor_sampler`."""

import pytest
import torch

from torch_cluster import neighbor_sampler

ROWPTR = [0, 3, 3, 7, 107]


@pytest.mark.parametrize("size", [0.3, 1, 1.0, 2, 3, 50, 1000])
def test_counts(size):
    rowptr = torch.tensor(ROWPTR)
    start = [3, 0, 1, 2, 3]
    edges = neighbor_sampler(torch.tensor(start), rowptr, size).tolist()
    for node in start:
        begin, end = ROWPTR[node], ROWPTR[node + 1]
        degree = end - begin
        count = -int(-degree * size // 1) if size <= 1 else min(degree, size)
        drawn, edges = edges[:count], edges[count:]
        assert len(set(drawn)) == count
        assert all(begin <= edge < end for edge in drawn)
    assert edges == []


def test_seeds():
    start, rowptr = torch.tensor([3]), torch.tensor(ROWPTR)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(neighbor_sampler(start, rowptr, 5).tolist())
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_large_part_is_a_permutation():
    torch.manual_seed(7)
    edges = neighbor_sampler(torch.tensor([2, 0]), torch.tensor(ROWPTR), 1.0)
    torch.manual_seed(7)
    assert edges.tolist() == [*(3 + torch.randperm(4)).tolist(), *torch.randperm(3).tolist()]


@pytest.mark.parametrize("size", [-1.0, float("inf"), float("nan")])
def test_sizes_that_mean_nothing(size):
    with pytest.raises(ValueError, match=f"^neighbor_sampler: size must be finite .*, got {size}"):
        neighbor_sampler(torch.tensor([0]), torch.tensor(ROWPTR), size)


def test_cpu_only():
    start, rowptr = torch.tensor([0], device="mps"), torch.tensor(ROWPTR, device="mps")
    with pytest.raises(ValueError, match="start must be on the CPU"):
        neighbor_sampler(start, rowptr, 2)
