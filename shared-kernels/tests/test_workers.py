"""Worker processes of a data loader on CPU tensors, forked and spawned."""

import copy
import pickle

import pytest
import torch
from torch.utils.data import DataLoader

from mps_pointops import SpatialIndex
from pointops_testing import assert_same_bits, cloud
from pointops_testing.workers import Answers


# forked from a process that has had several threads, torch itself hangs with more than one
@pytest.mark.parametrize(
    ("way", "threads"), [("fork", 1), pytest.param("spawn", 3, marks=pytest.mark.slow)]
)
def test_workers(way, threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)  # the parent has had threads when it forks
        data = Answers(3)
        wanted = [data[0], data[1]]
        data.threads = threads
        loader = DataLoader(
            data, batch_size=None, num_workers=2, multiprocessing_context=way, timeout=120
        )
        for got, plain in zip(loader, wanted, strict=True):
            for g, w in zip(got, plain, strict=True):
                assert_same_bits(g, w)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda i: pickle.loads(pickle.dumps(i))]
)
def test_copies_of_an_index(device, copied):
    points, query = cloud("random", 2500).to(device), cloud("random", 50, seed=1).to(device)
    ptr = torch.tensor([0, 1100, 2500], device=device)
    batch = torch.arange(50, device=device) // 25
    for index, told in ((SpatialIndex(points), {}), (SpatialIndex(points, ptr), {"batch": batch})):
        wanted = index.ball_query(query, 0.5, 9, **told) + index.knn(query, 9, **told)
        other = copied(index)
        got = other.ball_query(query, 0.5, 9, **told) + other.knn(query, 9, **told)
        for g, w in zip(got, wanted, strict=True):
            assert_same_bits(g, w)
