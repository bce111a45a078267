"""Pairs written into place on CPU tensors, beside those of padded tables."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mps_pointops import SpatialIndex, _flat_search
from mps_pointops._edges import count_edges, edges
from mps_pointops._ragged import Facts
from mps_pointops.ops.ball_query.cpu import ball_count_cpu, ball_list_cpu, ball_query_cpu
from mps_pointops.spatial import index as spatial_index
from pointops_testing import CLOUDS, cloud

MANY = 10**9


def _counted(query, ref, first, last, places, *limits):
    facts = Facts("radius")
    counts = count_edges(facts, ball_count_cpu(query, ref, first, last, 1, places, *limits))
    facts.fetch()
    return counts


def _check(query, ref, radius, places, *, first=None, last=None, same=False, rule=0):
    """Both orders of rows, against the table of a search; gives the number of pairs."""
    limits = (radius, False, same, rule)
    places = min(places, len(ref))
    _, index = ball_query_cpu(query, ref, first, last, 1, places, *limits)
    counts = _counted(query, ref, first, last, places, *limits)
    wanted = edges(index, counts)
    got = ball_list_cpu(query, ref, first, last, 1, counts, *limits)
    assert got.dtype == torch.int64
    assert torch.equal(got, wanted)
    swapped = ball_list_cpu(query, ref, first, last, 1, counts, *limits, reverse=True)
    assert torch.equal(swapped, wanted.flip(0))
    return got.shape[1]


@pytest.fixture(params=[1, 3])
def _threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("name", CLOUDS)
def test_lists_are_tables_without_free_slots(name, same):
    points = cloud(name, 1025)
    for places in (1, 9, MANY):
        _check(points[:257], points, 0.4, places, same=same)
        _check(points[:33], points[:32], 0.9, places, same=same)


@pytest.mark.parametrize("radius", [0.05, 0.2, 2.0, 9.0])
@pytest.mark.parametrize("places", [2, 40, MANY])
def test_every_way_to_search(radius, places):
    """By tree, in boxes (a dense heap), in input order, given up in between; some find nothing."""
    points = cloud("random", 1500)
    points[500:700] = points[500] + 1e-3 * points[500:700]
    assert _check(points[:300], points, radius, places) > 0
    assert _check(points[450:750], points, radius, places, same=True) > 0
    _check(points[:300].double(), points.double(), radius, places)
    _check(1e-25 * points[:50], 1e-25 * points, 1e-25 * radius, min(places, 40))
    assert _check(points[:50], points, 0.0, places) == 0
    assert _check(points[:50] + 100.0, points, radius, places) == 0


@pytest.mark.parametrize("rule", [0, 1, 2])
def test_clouds_and_rules(rule):
    """Small clouds in input order, large ones in trees, some empty, rows in any order of size."""
    sizes = torch.tensor([0, 3, 900, 1, 0, 40, 33])
    ends = sizes.cumsum(0)
    row = torch.repeat_interleave(torch.arange(7), sizes)
    points = cloud("lattice", int(sizes.sum()))
    for places in (1, 5, MANY):
        first, last = (ends - sizes)[row], ends[row]
        _check(points, points, 0.4, places, first=first, last=last, same=True, rule=rule)
        first[::3], last[::3] = 0, 0
        _check(points, points, 0.4, places, first=first, last=last, rule=rule)


class _Largest(TorchDispatchMode):
    """Bytes of the largest tensor that an operator gives."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else (found,):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes())
        return found


def test_memory_follows_the_pairs_not_the_fullest_ball(monkeypatch):
    """One heap of 200 points among 4,000: a table would be 4,000 x 200."""
    monkeypatch.setattr(_flat_search, "_SLOTS_UNCOUNTED", 0)
    monkeypatch.setattr(spatial_index, "_SLOTS_UNCOUNTED", 0)
    points = cloud("random", 4000)
    points[1000:1200] = points[1000] + 1e-4 * points[1000:1200]
    index = SpatialIndex(points)
    clouds = (None,) * 4
    for search in (
        lambda: _flat_search._radius(points, points, *clouds, 0.02, None, None, False, 0),
        lambda: index.radius(points, 0.02),
    ):
        with _Largest() as largest:
            found = search()
        assert 200**2 <= found.shape[1] < 200**2 + 8000
        assert largest.size == 2 * 8 * found.shape[1]
    with _Largest() as largest:  # it does see tables
        ball_query_cpu(points, points, None, None, 1, 200, 0.02, False, False, 0)
    assert largest.size == 4000 * 200 * 8
