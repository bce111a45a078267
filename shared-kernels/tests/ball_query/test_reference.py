"""The reference and the threshold against oracles that share no code with them."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from mps_pointops._rules import Rule
from mps_pointops.ops.ball_query.reference import ball_query_reference
from mps_pointops.ops.ball_query.threshold import threshold
from pointops_testing import CLOUDS, cloud, oracles


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", [name for name in CLOUDS if name not in ("tiny", "huge")])
def test_hits(name, rule):
    query, ref = cloud(name, 9, seed=1), cloud(name, 40)
    radius = 0.03 if name == "near_origin" else 1.25
    limit = float(np.float32(np.float32(radius) * np.float32(radius)))
    _, index = ball_query_reference(query, ref, radius, 6, Rule[rule.upper()])
    assert index.tolist() == oracles.ball(query.numpy(), ref.numpy(), limit, 6, rule)


@pytest.mark.parametrize("radius", [0.1, 0.2, 0.4, 0.7, 0.8, 0.9, 1.3, 1e-10, 3e15])
def test_two_ways_to_round_a_squared_radius(radius):
    f = np.float32
    assert threshold(radius, round_radius=True).squared == f(f(radius) * f(radius))
    assert threshold(radius, round_radius=False).squared == f(radius * radius)
    assert threshold(radius, round_radius=True).scale == 1.0


@pytest.mark.parametrize("exponent", [-126, -112, -60, -51, 63, 64, 100, 127])
def test_extreme_radii_get_a_scale_of_their_own(exponent):
    radius = 1.5 * 2.0**exponent
    limit = threshold(radius, round_radius=True)
    assert np.float32(limit.scale) == limit.scale >= 2.0**-126
    assert np.log2(limit.scale) % 1 == 0
    assert Fraction(limit.squared) == (Fraction(radius) * Fraction(limit.scale)) ** 2
    assert 2.0**-100 <= limit.squared <= 2.0**126


@pytest.mark.parametrize("radius", [0.0, 2.0**-127, 1e-45])
def test_nothing_is_closer_than_zero(radius):
    ref = torch.zeros(3, 3)
    _, index = ball_query_reference(ref, ref, radius, 2)
    assert (index == -1).all()


@pytest.mark.parametrize("name", ["tiny", "huge"])
def test_scaling_points_and_radius_changes_no_hit(name):
    factor = {"tiny": 2.0**-63, "huge": 2.0**63}[name]
    points = cloud("random", 60)
    _, wanted = ball_query_reference(points, points, 0.75, 20)
    _, got = ball_query_reference(points * factor, points * factor, 0.75 * factor, 20)
    assert torch.equal(got, wanted)
