"""A `SpatialIndex` under what a program sets around it: a default device, a compiler."""

import pytest
import torch

from mps_pointops import SpatialIndex
from pointops_testing import assert_same_bits
from pointops_testing.clouds import cloud


def _answers(points, query):
    size, rows = len(points), len(query)
    ends, batch = [0, size // 3, size], torch.arange(rows, device="cpu") * 2 // rows
    ptr = torch.tensor(ends, device=points.device)
    for index, told in (
        (SpatialIndex(points), {}),
        (SpatialIndex(points, ptr), {"batch": batch.to(points.device)}),
    ):
        for rule in ("separate", "fma_xyz"):
            yield from index.knn(query, 9, rule=rule, **told)
            yield from index.ball_query(query, 1.0, 7, rule=rule, **told)
            yield index.radius(query, 1.0, rule=rule, **told)
        yield index.nearest(query, **told)


@pytest.mark.parametrize(("size", "dim"), [(40, 3), (40, 9), (1500, 3)])
@pytest.mark.parametrize("name", ["random", "all_equal"])
def test_default_device(device, name, size, dim):
    points, query = (cloud(name, n, dim).to(device) for n in (size, 20))
    wanted = list(_answers(points, query))
    with torch.device("meta"):
        got = list(_answers(points, query))
    for g, w in zip(got, wanted, strict=True):
        assert g.device == w.device
        assert_same_bits(g, w)


def test_compiled_code_breaks_off_at_an_index(device):
    points = cloud("random", 1300).to(device)
    index = SpatialIndex(points)

    def net(query):
        moved = query + 0.125
        distance, _ = index.knn(moved, 3)
        return distance.sum() + SpatialIndex(moved).radius(moved, 0.25).shape[1]

    wanted = net(points)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(net, backend="eager", dynamic=False)(points), wanted)
