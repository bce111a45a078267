"""Float64 clouds of CPU tensors as large and as small as float64 goes: exact, and no more work."""

from functools import partial

import numpy as np
import pytest
import torch

import mps_pointops.ops.ball_query.cpu as ball
import mps_pointops.ops.knn.squared as squared
from mps_pointops import flat
from mps_pointops._arithmetic import square_root
from mps_pointops._cpu import boxes, pairs, rows, tree
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import assert_same_bits, cloud
from pointops_testing.compare import count_work

OPS = torch.ops.mps_pointops
# squares are subnormal, about the smallest normal number, about the largest; they overflow
EXPONENTS = (-1070, -535, -525, -510, -400, 400, 505, 511, 515, 1020)


def _scaled(name, size, exponent, seed=0):
    return torch.ldexp(cloud(name, size, seed=seed).double(), torch.tensor(exponent))


@pytest.fixture
def treed(monkeypatch):
    for room in (squared, ball):
        monkeypatch.setattr(room, "_worth_a_tree", lambda runs, *_: np.full(len(runs), True))
    monkeypatch.setattr(tree, "_MANY", 100)


def _check(query, ref, ks, radii):
    for k in ks:
        distance, index = OPS.knn(query, ref, None, None, 1, k, False, 0)
        wanted = knn_reference(query, ref, k)
        assert_same_bits(index, wanted[1])
        assert_same_bits(distance, wanted[0])
    for radius in radii:
        for K in (4, 200):
            distance, index = OPS.ball_query(query, ref, None, None, 1, K, radius, False, False, 0)
            wanted = ball_query_reference(query, ref, radius, K, round_radius=False)
            assert_same_bits(index, wanted[1])
            assert_same_bits(distance, wanted[0])


@pytest.mark.usefixtures("treed")
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("name", ["random", "lattice", "duplicates"])
def test_range(name, exponent):
    ref = _scaled(name, 150, exponent)
    query = torch.cat((ref[::30], _scaled(name, 3, exponent, seed=1)))
    _check(query, ref, (1, 9, 75, 150), [2.0 ** min(exponent, 1000), 2.0**510, 1e300])


@pytest.mark.usefixtures("treed")
@pytest.mark.parametrize(("exponent", "other"), [
    (0, 1020), (0, 515), (-1060, 1020), (-1060, 0), (1020, 0), (511, -535),
])  # fmt: skip
def test_queries_of_another_size(exponent, other):
    ref = _scaled("random", 300, exponent)
    query = torch.cat(
        (ref[:3], _scaled("random", 5, other), torch.full((1, 3), 1.7e308, dtype=torch.float64))
    )
    _check(query, ref, (5, 140), [2.0**exponent, 2.0**other])


@pytest.mark.usefixtures("treed")
def test_some_points_are_vast():
    ref = _scaled("random", 300, 0)
    ref[::3] = _scaled("random", 100, 1020, seed=1)
    _check(ref[::20], ref, (5, 250), [0.5, 1e200])


@pytest.mark.parametrize("exponent", [-535, -525, 511, 1020, "far"])
def test_work_does_not_grow_with_the_square(monkeypatch, exponent):
    """Squares that keep few of their bits, or differ in their last bits only."""
    size, done = 4000, []
    counted = partial(count_work, monkeypatch, done)
    counted(rows.Windows, "coordinate", lambda found: found.numel())
    counted(tree.Tree, "query", lambda found: found[0].size)
    for owner in (pairs, boxes):
        counted(owner, "sum_of_squares", lambda found: found.size)
    if exponent == "far":
        points = _scaled("random", size, 0)
        query = points + 1e12
    else:
        query = points = _scaled("random", size, exponent)
    flat.knn(points, query, 8)
    assert sum(done) < size * 2500


def test_roots_are_correctly_rounded():
    squares = cloud("random", 3000).double().square_().flatten()
    assert_same_bits(square_root(squares), torch.from_numpy(np.sqrt(squares.numpy())))
    points = cloud("random", 60, 4).double() + 1e-9
    near, far = (OPS.knn(points, points, None, None, 1, 50, root, 0)[0] for root in (True, False))
    assert_same_bits(near, torch.from_numpy(np.sqrt(far.numpy())))
