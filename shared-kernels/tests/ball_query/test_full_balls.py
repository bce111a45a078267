"""Few full balls among many that hold little: the first hits of both."""

import pytest
import torch

from mps_pointops import ball_query
from mps_pointops.ops.ball_query.reference import ball_query_reference
from pointops_testing import assert_same_bits, cloud


@pytest.mark.parametrize("K", [1, 8, 64, 200])
def test_a_heap_of_equal_points(device, K):
    """It lies at the end of the input, in reach of some queries."""
    query = cloud("random", 400) * 2
    ref = torch.cat([query, torch.zeros(112, 3)])
    wanted_distance, wanted_index = ball_query_reference(query, ref, 0.6, K)
    full = (ref[400:].sub(query[:, None]).norm(dim=2) < 0.6).any(dim=1)
    assert 2 <= int(full.sum()) <= 10
    distance, index = ball_query(query[None].to(device), ref[None].to(device), 0.6, K)
    assert_same_bits(distance[0], wanted_distance)
    assert_same_bits(index[0], wanted_index)
