from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import mps_pointops
from mps_pointops.demo.check import Checker, differences
from mps_pointops.demo.progress import Progress


def checker(pairs: int, check_all: bool = False) -> Checker:
    return Checker(Progress(io.StringIO()), pairs=pairs, check_all=check_all)


def test_differences_are_counted_in_bits() -> None:
    a = torch.tensor([0.0, 1.0, torch.nan, torch.inf])
    assert differences(a, a.clone()) == 0
    assert differences(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0])) == 1
    assert differences(a, torch.zeros(4)) == 3
    assert differences(a, a.double()) == 4
    assert differences(a, a[:2]) == 4
    assert differences(torch.zeros(0), torch.zeros(0)) == 0
    assert differences(torch.zeros(0), torch.zeros((0, 3))) == 1


def test_a_large_cloud_is_checked_in_part(cloud: NDArray[np.float32]) -> None:
    points = torch.from_numpy(cloud)
    picks = mps_pointops.furthest_point_sample(points[None], 50)
    near = mps_pointops.knn(points[picks[0]][None], points[None], 4)
    some = checker(pairs=10 * len(points))
    sampling = some.sampling(points, 50, (picks,))
    assert (sampling.checked, sampling.total, sampling.mismatches) == (10, 50, 0)
    assert sampling.describe() == "10 of 50 picks"
    knn = some.knn(points[picks[0]], points, 4, near)
    assert (knn.checked, knn.total, knn.mismatches) == (10, 50, 0)
    everything = checker(pairs=1, check_all=True)
    assert everything.knn(points[picks[0]], points, 4, near).describe() == "all 50 queries"


@pytest.mark.parametrize("row", [0, 49])
def test_a_partial_check_spans_all_queries(cloud: NDArray[np.float32], row: int) -> None:
    points = torch.from_numpy(cloud)
    query = points[:50]
    distance, index = mps_pointops.knn(query[None], points[None], 4)
    index[0, row, 0] += 1
    verdict = checker(pairs=10 * len(points)).knn(query, points, 4, (distance, index))
    assert verdict.mismatches == 1
