"""The reference tree: the properties that a search relies on."""

import pytest
import torch

from mps_pointops.spatial.layout import LARGEST, NOTHING, WIDTH, levels
from mps_pointops.spatial.reference import tree_reference
from pointops_testing.clouds import CLOUDS, cloud


def test_levels():
    assert levels(0) == []
    assert levels(1) == levels(32) == [(0, 1)]
    assert levels(1024) == [(0, 32)]
    assert levels(1025) == [(0, 33), (33, 2)]
    assert levels(32 * 1024 + 1) == [(0, 1025), (1025, 33), (1058, 2)]


def check(tree, points, begins):
    """Every point once, in its cloud's range, below boxes that hold it."""
    size, dim = points.shape
    rows = tree.leaves.view(torch.int32)[:, 3]
    assert (rows[size:] == NOTHING).all()
    finite = torch.isfinite(points).all(dim=1)
    there = rows != NOTHING
    assert rows[there].sort().values.tolist() == finite.nonzero()[:, 0].tolist()
    assert (tree.leaves[there, :dim] == points[rows[there].long()]).all()
    assert (tree.leaves[:, dim:3] == 0).all()
    for first, last in zip(begins, [*begins[1:], size], strict=True):
        inside = rows[first:last]
        assert ((inside == NOTHING) | ((inside >= first) & (inside < last))).all()
        assert (tree.keys[first:last].diff() >= 0).all()
    number = tree.boxes.view(torch.int32)
    for level, (begin, count) in enumerate(tree.levels):
        below = WIDTH ** (level + 1)
        for node in range(count):
            leaf = slice(node * below, (node + 1) * below)
            held = there[leaf]
            if not held.any():
                assert number[begin + node, 3] == number[begin + node, 7] == NOTHING
                assert (tree.boxes[begin + node, :3] == LARGEST).all()
                continue
            places = tree.leaves[leaf, :3][held]
            assert (tree.boxes[begin + node, :3] == places.amin(dim=0)).all()
            assert (tree.boxes[begin + node, 4:7] == places.amax(dim=0)).all()
            assert number[begin + node, 3] == rows[leaf][held].min()
            assert number[begin + node, 7] == rows[leaf][held].max()


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 1023, 1025, 1100])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_sizes(size, dim):
    points = cloud("random", size, dim)
    check(tree_reference(points), points, [0])


@pytest.mark.parametrize("name", CLOUDS)
def test_clouds(name):
    points = cloud(name, 300)
    begins = [0, 5, 5, 40, 299]
    check(tree_reference(points, begins), points, begins)
