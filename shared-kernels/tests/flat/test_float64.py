"""Float64 points of the CPU and the cosine distance, cloud by cloud."""

import pytest
import torch

import mps_emulator
from mps_pointops import flat
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.fps.reference import furthest_point_sample_reference
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud

POINTS, QUERIES = (33, 0, 5, 70), (9, 4, 6, 11)


def _batch(sizes):
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def _edges(x, y, search):
    found, row, first = [], 0, 0
    for points, queries in zip(POINTS, QUERIES, strict=True):
        if points:
            index = search(y[row : row + queries], x[first : first + points])
            which, slot = (index >= 0).nonzero(as_tuple=True)
            found.append(torch.stack((which + row, index[which, slot] + first)))
        row, first = row + queries, first + points
    return torch.cat(found, dim=1)


def _data(name, dtype=torch.float32, dim=3):
    x, y = cloud(name, sum(POINTS), dim), cloud(name, sum(QUERIES), dim, seed=1)
    return x.to(dtype), y.to(dtype), _batch(POINTS), _batch(QUERIES)


def test_float64_tells_near_points_apart():
    x = torch.tensor([[0.0], [1.0], [1 + 1e-9]], dtype=torch.float64)
    y = torch.tensor([[1 + 9e-10]], dtype=torch.float64)
    assert flat.knn(x, y, 1).tolist() == [[0], [2]]
    assert flat.knn(x, y, 3).tolist() == [[0, 0, 0], [2, 1, 0]]
    assert flat.radius(x, y, 2e-10).tolist() == [[0], [2]]
    assert flat.radius(x, y, 1e-9).tolist() == [[0, 0], [1, 2]]
    assert flat.fps(x + 0, ratio=1.0, random_start=False).tolist() == [0, 2, 1]
    # one set in float64 is enough
    assert flat.knn(x[:2].float(), y, 1).tolist() == [[0], [1]]


@pytest.mark.parametrize("name", ["random", "lattice", "duplicates", "not_finite", "far_offset"])
def test_float64(name):
    x, y, bx, by = _data(name, torch.float64)
    x, y = x + torch.rand_like(x) * 1e-12, y + torch.rand_like(y) * 1e-12
    got = flat.knn(x, y, 6, bx, by)
    assert_same_bits(got, _edges(x, y, lambda q, r: knn_reference(q, r, min(6, len(r)))[1]))
    got = flat.radius(x, y, 1.2, bx, by, 5)
    search = lambda q, r: ball_query_reference(q, r, 1.2, 5, round_radius=False)[1]  # noqa: E731
    assert_same_bits(got, _edges(x, y, search))
    picks, first = [], 0
    for size in POINTS:
        if size:
            count = int(torch.tensor(size * 0.3).ceil())
            part = furthest_point_sample_reference(x[first : first + size], count)
            picks.append(part + first)
        first += size
    assert_same_bits(flat.fps(x, bx, 0.3, random_start=False), torch.cat(picks))


def test_float64_needs_the_cpu(device):
    if device == "cpu":
        x = torch.zeros(3, 2, dtype=torch.float64)
        assert flat.knn(x, x, 1).shape == (2, 3)
    else:
        with pytest.raises(TypeError, match="float64"):
            torch.zeros(3, 2, dtype=torch.float64, device="mps")


def _with_zeros(name, dim):
    x, y, bx, by = _data(name, dim=dim)
    x[::7], y[::5] = 0.0, 0.0
    return x, y, bx, by


@pytest.mark.parametrize("k", [1, 6, 90])
@pytest.mark.parametrize("name", CLOUDS)
def test_cosine(device, name, k):
    x, y, bx, by = _with_zeros(name, 3)
    got = flat.knn(x.to(device), y.to(device), k, bx.to(device), by.to(device), rule="cosine")
    search = lambda q, r: knn_reference(q, r, min(k, len(r)), Rule.COSINE)[1]  # noqa: E731
    assert_same_bits(got, _edges(x, y, search))


def test_cosine_dimensions_and_dtypes(device):
    for dim in (1, 2, 17):
        x, y, bx, by = _with_zeros("random", dim)
        got = flat.knn(x.to(device), y.to(device), 4, bx.to(device), by.to(device), rule="cosine")
        search = lambda q, r: knn_reference(q, r, min(4, len(r)), Rule.COSINE)[1]  # noqa: E731
        assert_same_bits(got, _edges(x, y, search))
    # a common shift would turn every vector
    x = torch.tensor([[3, 0], [0, 5], [7, 8]], device=device)
    y = torch.tensor([[1, 1], [9, 1]], device=device)
    assert flat.knn(x, y, 1, rule="cosine").tolist() == [[0, 1], [2, 0]]


def test_cosine_is_for_neighbours(device):
    x = torch.rand(4, 3, device=device)
    for call in (
        lambda: flat.radius(x, x, 1.0, rule="cosine"),
        lambda: flat.fps(x, rule="cosine"),
        lambda: torch.ops.mps_pointops.flat_fps(x, None, None, None, False, None, 3, 0),
    ):
        with pytest.raises(ValueError, match="rule must be"):
            call()


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a real device counts no reads")
def test_cosine_reads_once():
    x, y, bx, by = (t.to("mps") for t in _with_zeros("random", 3))
    flat.knn(x, y, 4, bx, by, rule="cosine")
    with mps_emulator.count_readbacks() as counted:
        flat.knn(x, y, 4, bx, by, rule="cosine")
    assert counted.count == 1, counted
