"""Limits of arguments that no operator can be called with in a test."""

import pytest
import torch

from mps_pointops._checks import MAX_POINTS, as_float, check_points


def test_points_are_counted_not_coordinates():
    half = torch.empty((2**30, 3), device="meta")
    assert check_points("op", "x", half, rank=2) is half
    assert check_points("op", "x", half.expand(1, *half.shape), rank=3).shape == (1, 2**30, 3)
    with pytest.raises(ValueError, match=f"^op: x must be at most {MAX_POINTS} points in all"):
        check_points("op", "x", torch.empty((2**31, 3), device="meta"), rank=2)
    with pytest.raises(ValueError, match="points in all"):
        check_points("op", "x", torch.empty((2, 2**30, 3), device="meta"), rank=3)


def test_integers_beyond_all_floats_are_infinite():
    assert as_float("op", "r", 10**400, infinite=True) == float("inf")
    with pytest.raises(ValueError, match=r"^op: r must be finite and not negative, got inf"):
        as_float("op", "r", 10**400)
