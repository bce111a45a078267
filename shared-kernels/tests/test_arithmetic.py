"""The arithmetic that references and CPU kernels use, against rational numbers."""

import numpy as np
import pytest
import torch

from mps_pointops._arithmetic import distance_bits, fma, squared_distance
from mps_pointops._rules import Rule, as_rule, as_ties
from pointops_testing import CLOUDS, cloud, oracles

FINITE = [name for name in CLOUDS if name != "not_finite"]


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", FINITE)
def test_squared_distance_is_rounded_as_the_rule_says(name, rule):
    a, b = cloud(name, 40), cloud(name, 40, seed=1)
    got = squared_distance(a, b, Rule[rule.upper()])
    wanted = [
        oracles.squared_distance(p, q, rule) for p, q in zip(a.numpy(), b.numpy(), strict=True)
    ]
    assert got.tolist() == wanted


@pytest.mark.parametrize("dim", [1, 2, 5, 17])
@pytest.mark.parametrize("rule", ["separate", "fma_xyz"])
def test_any_dimension(dim, rule):
    a, b = cloud("random", 30, dim), cloud("random", 30, dim, seed=1)
    got = squared_distance(a, b, Rule[rule.upper()])
    wanted = [
        oracles.squared_distance(p, q, rule) for p, q in zip(a.numpy(), b.numpy(), strict=True)
    ]
    assert got.tolist() == wanted


def test_fused_rounding_differs_from_rounding_twice():
    """The double rounding of a float64 sum is seen: these values need the odd bit."""
    t = np.float32(1 + 2**-12)  # t*t = 1 + 2**-11 + 2**-24
    for acc in (2.0**-60, 2.0**-77, 3.0, 2.0**30):
        got = squared_distance(
            torch.tensor([acc**0.5, float(t)]).float(), torch.zeros(2), Rule.FMA_XYZ
        )
        first = np.float32(acc**0.5)
        wanted = oracles.squared_distance(np.array([first, t]), np.zeros(2, np.float32), "fma_xyz")
        assert got.item() == wanted


def test_fused_rounding_of_either_sign():
    """Exact sums close to the middle of two floats, on either side, also below zero."""
    a = torch.tensor([1.0 + 2**-12, -1.0 - 2**-12]).repeat_interleave(4)
    b = torch.full((8,), 1.0 + 2**-12)  # a * b = +-(1 + 2**-11 + 2**-24): the middle of two
    c = torch.tensor([2.0**-60, -(2.0**-60), 2.0**-70, 0.0]).repeat(2)
    numbers = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    exact = [oracles.Fraction(x) * oracles.Fraction(y) + oracles.Fraction(z) for x, y, z in numbers]
    assert fma(a, b, c).tolist() == [oracles.round32(value) for value in exact]
    assert len({oracles.round32(value) for value in exact}) == 4


@pytest.mark.parametrize("scale", [2.0**60, 2.0**-60, 2.0**125])
def test_scaled_distance_is_the_distance_of_scaled_points(scale):
    a, b = cloud("tiny", 50) * 2.0**-40, torch.zeros(50, 3)
    got = squared_distance(a, b, Rule.FMA_XYZ, scale)
    for p, d2 in zip(a.numpy(), got.tolist(), strict=True):
        scaled = [oracles.round32(oracles._daz(x) * oracles.Fraction(scale)) for x in p.tolist()]
        wanted = oracles.squared_distance(
            np.array(scaled, np.float32), np.zeros(3, np.float32), "fma_xyz"
        )
        assert d2 == wanted


def test_subnormal_coordinates_are_zero():
    a = torch.tensor([[2.0**-127, 0.0, 0.0]])
    assert squared_distance(a, torch.zeros(1, 3), Rule.SEPARATE, 2.0**126).item() == 0.0


def test_distance_bits_keep_the_order():
    values = torch.tensor([0.0, 2.0**-126, 1.0, 3.0, torch.inf, torch.nan])
    bits = distance_bits(values)
    assert torch.equal(bits, bits.sort().values)
    assert bits[-1] > bits[-2]


@pytest.mark.parametrize("name", ["fma", "SEPARATE ", "", None, 3])
def test_unknown_names_are_refused(name):
    with pytest.raises(ValueError, match="rule must be"):
        as_rule("op", name, 3)
    with pytest.raises(ValueError, match="ties must be"):
        as_ties("op", name)


def test_fma_yxz_needs_three_coordinates():
    with pytest.raises(ValueError, match="3 coordinates"):
        as_rule("op", "fma_yxz", 2)
