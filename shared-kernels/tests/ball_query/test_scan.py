"""Ball query by a scan: one simdgroup a query, or several that share one."""

import pytest
import torch

import mps_pointops.ops.ball_query.mps as kernels
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from pointops_testing import assert_same_bits, cloud

OPS = torch.ops.mps_pointops


@pytest.fixture(params=[1, 2, 32], autouse=True)
def simdgroups(request, monkeypatch):
    """Simdgroups of a query, whatever the number of queries."""
    monkeypatch.setattr(kernels, "simdgroups_of", lambda teams: request.param)
    return request.param


def _check(query, ref, radius, K, rule=Rule.FMA_XYZ):
    arguments = (query.to("mps"), ref.to("mps"), None, None, 1, K, radius, True, False, int(rule))
    distance, index = OPS.ball_query(*arguments)
    wanted = ball_query_reference(query, ref, radius, K, rule)
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])
    assert_same_bits(OPS.ball_count(*arguments), (wanted[1] >= 0).sum(dim=1))


@pytest.mark.parametrize("size", [1, 31, 33, 127, 129, 4095, 4097])
@pytest.mark.parametrize("name", ["lattice", "not_finite"])
def test_sizes(name, size):
    ref = cloud(name, size)
    query = torch.cat((ref[:3], cloud(name, 3, seed=1)))
    for radius, K in ((0.4, 40), (1e9, 500)):
        _check(query, ref, radius, K)


@pytest.mark.parametrize("rule", [Rule.SEPARATE, Rule.FMA_XYZ])
@pytest.mark.parametrize("dim", [2, 5])
def test_dimensions(dim, rule):
    ref = cloud("random", 700, dim)
    _check(ref[:5], ref, 1.0, 30, rule)


def test_own_rows_and_ranges():
    ref = cloud("lattice", 500)
    first = torch.tensor([0] * 3 + [200] * 3 + [300] * 2)
    last = torch.tensor([200] * 3 + [500] * 3 + [300, 290])
    rest = (1, 9, 0.7, False, True, 1)
    moved = [t.to("mps") for t in (ref[:8], ref, first, last)]
    for got, wanted in zip(
        OPS.ball_query(*moved, *rest), OPS.ball_query(ref[:8], ref, first, last, *rest), strict=True
    ):
        assert_same_bits(got, wanted)


def test_few_queries_get_many_simdgroups(monkeypatch):
    monkeypatch.undo()
    counts = [kernels.simdgroups_of(teams) for teams in (1, 512, 1024, 1025, 9000, 10**6)]
    assert counts == [32, 16, 8, 1, 1, 1]
