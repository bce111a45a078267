"""CPU searches of clouds in which very many distances are equal: exact, and no more work."""

from functools import partial

import numpy as np
import pytest
import torch

import mps_pointops._cpu.nearest as nearest
import mps_pointops.ops.ball_query.cpu as ball
import mps_pointops.ops.knn.squared as squared
from mps_pointops import SpatialIndex, flat
from mps_pointops._cpu import boxes, pairs, rows
from mps_pointops._cpu.tree import Tree
from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.ball_query.tree import BallSearch
from mps_pointops.ops.knn.reference import knn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud
from pointops_testing.compare import count_work

OPS = torch.ops.mps_pointops
TIES = ("tiny", "squares_vanish", "subnormal", "squares_overflow", "far", "very_far", "half_tiny")
TIES += ("half_equal", "heap", "planes", "coarse", "all_equal")


def tied(name, size, dim=3):
    """Queries and points."""
    points = cloud("random", size, dim)
    if name == "squares_vanish":
        points = points * 2.0**-90
    elif name == "subnormal":
        points = points * 2.0**-140
    elif name == "squares_overflow":
        points = points * 2.0**100
    elif name in ("far", "very_far"):  # differences are rounded away
        return points * 100 + (1e8 if name == "far" else 1e25), points
    elif name in ("half_tiny", "half_equal"):
        points[size // 2 :] *= 1e-25 if name == "half_tiny" else 0
    elif name == "heap":  # of no width, as the other points see it
        points[: size // 2] = points[: size // 2] * 1e3 + 1e4
        points[size // 2 :] *= 1e-6
    elif name == "planes":
        points = points * torch.logspace(10, -10, dim)
    elif name == "coarse":
        points = points * 4 + 1e8
    elif name in CLOUDS:
        points = cloud(name, size, dim)
    else:
        raise AssertionError(name)
    return points, points


@pytest.fixture
def treed(monkeypatch):
    for room in (squared, ball):
        monkeypatch.setattr(room, "_worth_a_tree", lambda runs, *_: np.full(len(runs), True))


@pytest.fixture(params=[True, False], ids=["boxes", "as_it_comes"])
def way(request, monkeypatch, treed):
    if not request.param:
        return

    def search(self, query, rows):
        self.search_in_boxes(query, rows)
        return 0

    monkeypatch.setattr(BallSearch, "search", search)
    monkeypatch.setattr(nearest, "_WIDER", 0)
    monkeypatch.setattr(nearest, "_is_beyond", lambda far, limit: np.full(len(far), False))


def check_nearest(query, points, k, rule):
    distance, index = OPS.knn(query, points, None, None, 1, k, False, rule)
    wanted = knn_reference(query, points, k, Rule(rule))
    assert_same_bits(index, wanted[1])
    assert_same_bits(distance, wanted[0])


def check_ball(query, points, radius, K, rule, same=False):
    arguments = (query, points, None, None, 1, K, radius, False, same, rule)
    distance, index = OPS.ball_query(*arguments)
    if same:  # leave out the point itself, then keep K
        wanted = ball_query_reference(query, points, radius, K + 1, Rule(rule), False)
        rest = [i[i != row].tolist() for row, i in enumerate(wanted[1])]
        assert [[i for i in r if i >= 0][:K] for r in rest] == [
            [i for i in r if i >= 0] for r in index.tolist()
        ]
    else:
        wanted = ball_query_reference(query, points, radius, K, Rule(rule), False)
        assert_same_bits(index, wanted[1])
        assert_same_bits(distance, wanted[0])
    assert_same_bits(OPS.ball_count(*arguments), (index >= 0).sum(dim=1))


def radii(query, points):
    """Some that hold few and many of the points."""
    distance = torch.cdist(query.double(), points.double()).flatten()
    return [float(distance.quantile(part)) for part in (0.05, 0.6)]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", [*TIES, "random", "lattice", "not_finite", "duplicates"])
@pytest.mark.parametrize(("dim", "rule"), [(1, 0), (3, 2), (8, 1)])
def test_ties(name, dim, rule):
    query, points = tied(name, 600, dim)
    query = query[torch.arange(0, 600, 50)]
    for k in (1, 70):
        check_nearest(query, points, k, rule)
    some = points[torch.isfinite(points).all(dim=1)]
    for radius in radii(query[torch.isfinite(query).all(dim=1)], some):
        for K in (3, 300):
            check_ball(query, points, radius, K, rule)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("size", [1, 8, 9, 65, 129, 1025])
@pytest.mark.parametrize("name", ["random", "half_equal", "squares_vanish"])
def test_sizes(name, size):
    query, points = tied(name, size)
    check_nearest(query[:8], points, min(size, 5), 0)
    for radius in radii(query[:8], points):
        check_ball(query[:8], points, radius, 4, 0)
        check_ball(query[:8], points, radius, 4, 1, same=True)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("radius", [0.0, 1e-42, 2.0**-64, 1e-18, 1e30, float("inf")])
@pytest.mark.parametrize("name", ["tiny", "subnormal", "squares_overflow", "half_tiny", "lattice"])
@pytest.mark.parametrize("rule", [0, 2])
def test_radii_whose_squares_are_unusual(name, radius, rule):
    query, points = tied(name, 500)
    for K in (3, 600):
        check_ball(query[::70], points, radius, K, rule)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("factor", [1.0, 1e-170, 1e160])
@pytest.mark.parametrize("name", ["half_equal", "random", "lattice"])
def test_float64(name, factor):
    query, points = (part.double() * factor for part in tied(name, 500))
    check_nearest(query[::25], points, 9, 0)
    for radius in radii(query[::25], points):
        check_ball(query[::25], points, radius, 9, 0)


@pytest.mark.usefixtures("treed")
def test_tasks_of_any_size(monkeypatch):
    monkeypatch.setattr(boxes, "_PAIRS", 40)
    monkeypatch.setattr(nearest, "_WIDER", 0)
    for name in ("half_tiny", "random"):
        query, points = tied(name, 900)
        check_nearest(query[::9], points, 5, 0)


@pytest.fixture
def work(monkeypatch):
    """Pairs of a query and a point, or a box, that were looked at."""
    done = []
    counted = partial(count_work, monkeypatch, done)
    counted(rows.Windows, "rough_distance", lambda found: found.numel())
    counted(Tree, "query", lambda found: found[0].size)
    for owner in (pairs, boxes):
        counted(owner, "sum_of_squares", lambda found: found.size)
    return done


@pytest.mark.parametrize("name", TIES)
def test_work_does_not_grow_with_the_square(work, name):
    size = 5000
    query, points = tied(name, size)
    index = SpatialIndex(points)
    index.knn(query, 8)
    searched, work[:] = sum(work), []
    middle = points.median(dim=0).values
    radius = float((points - middle).double().norm(dim=1).median())
    for r in (radius * 0.3, radius * 3):
        index.ball_query(query, r, 8)
    assert searched < size * 2000
    assert sum(work) < 2 * size * 2500


def test_work_of_clouds_of_different_sizes(work):
    points = tied("squares_vanish", 8000)[1]
    batch = (torch.arange(8000) > 3000).long()
    flat.knn(points, points, 4, batch, batch)
    flat.radius(points, points, 1e-27, batch, batch, max_num_neighbors=4)
    flat.nearest(points, points, batch, batch)
    assert sum(work) < 8000 * 2500
