"""The tree and the pairwise search of CPU tensors, each forced, against the reference."""

import numpy as np
import pytest
import torch

import mps_pointops.ops.ball_query.cpu as ball
import mps_pointops.ops.knn.squared as nearest
from mps_pointops._cpu import rows as cpu_rows
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud

OPS = torch.ops.mps_pointops
RADIUS = {"near_origin": 0.03, "tiny": 2.0**-63, "huge": 2.0**63}


@pytest.fixture(params=[True, False], ids=["tree", "pairs"])
def way(request, monkeypatch):
    for room in (nearest, ball):
        monkeypatch.setattr(room, "_worth_a_tree", lambda runs, *_: np.full(len(runs), way_of))
    way_of = request.param


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", [name for name in CLOUDS if name not in RADIUS])
@pytest.mark.parametrize(("dim", "rule"), [(1, 0), (3, 0), (3, 2), (8, 1)])
def test_search(name, dim, rule):
    ref = cloud(name, 700, dim)
    query = torch.cat((ref[:8], cloud(name, 8, dim, seed=1)))
    distance, index = OPS.knn(query, ref, None, None, 1, 20, False, rule)
    wanted = knn_reference(query, ref, 20, Rule(rule))
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])
    for K in (3, 900):
        arguments = (query, ref, None, None, 1, K, 1.0, False, False, rule)
        distance, index = OPS.ball_query(*arguments)
        wanted = ball_query_reference(query, ref, 1.0, K, Rule(rule), False)
        assert_same_bits(index, wanted[1])
        assert_same_bits(distance, wanted[0])
        assert_same_bits(OPS.ball_count(*arguments), (wanted[1] >= 0).sum(dim=1))


@pytest.mark.parametrize(("rows", "most", "wanted"), [
    (0, 99, 99), (40, 999, 256), (40, 9, 9), (16_000, 4_000, 1_000), (16_001, 4_000, 1_001),
    (16_000, 300, 300), (5, 0, 1),
])  # fmt: skip
def test_few_queries_are_not_cut_up_for_many_threads(monkeypatch, rows, most, wanted):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    assert cpu_rows.rows_a_task(rows, most) == wanted
