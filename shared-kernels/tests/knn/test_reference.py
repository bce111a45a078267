"""The reference against an oracle that shares no code with it."""

import pytest
import torch

from mps_pointops._rules import Rule
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, cloud, oracles


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
def test_neighbours(name, rule):
    query, ref = cloud(name, 9, seed=1), cloud(name, 40)
    query[:3] = ref[:3]
    distance, index = knn_reference(query, ref, 40, Rule[rule.upper()])
    wanted_distance, wanted_index = oracles.knn(query.numpy(), ref.numpy(), 40, rule)
    assert index.tolist() == wanted_index
    assert distance.tolist() == wanted_distance


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_any_dimension(dim):
    query, ref = cloud("lattice", 5, dim), cloud("lattice", 30, dim)
    distance, index = knn_reference(query, ref, 7, Rule.FMA_XYZ)
    wanted = oracles.knn(query.numpy(), ref.numpy(), 7, "fma_xyz")
    assert (distance.tolist(), index.tolist()) == wanted


def test_nothing_to_find():
    distance, index = knn_reference(torch.rand(2, 3), torch.full((4, 3), torch.nan), 2)
    assert (index == -1).all()
    assert torch.isinf(distance).all()
