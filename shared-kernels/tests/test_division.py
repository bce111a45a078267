"""The shared text for division against rational numbers, in every math mode."""

from fractions import Fraction

import numpy as np
import pytest
import torch

import mps_emulator
from mps_pointops._metal.compile import _read
from pointops_testing import oracles

KERNELS = """
kernel void divide(
    device const float* a [[buffer(0)]],
    device const float* b [[buffer(1)]],
    device uint* quotient [[buffer(2)]],
    uint i [[thread_position_in_grid]])
{
    quotient[i] = as_type<uint>(exact_divide(a[i], b[i]));
}

kernel void round_guesses(
    device const uint* a [[buffer(0)]],
    device const uint* b [[buffer(1)]],
    device const uint* guess [[buffer(2)]],
    device uint* quotient [[buffer(3)]],
    uint i [[thread_position_in_grid]])
{
    quotient[i] = nearest_quotient(a[i], b[i], guess[i]);
}
"""
SPECIAL = [0.0, 2.0**-149, 2.0**-127, 2.0**-126, 1.0, 3.0, 2.0**127, 3.4028234663852886e38]
SPECIAL += [float("inf"), float("nan")]


@pytest.fixture(params=[(False, 310), (True, 310), (True, 320)], ids=["safe", "fast", "fast-3.2"])
def library(request, monkeypatch):
    if mps_emulator.is_installed():
        from mps_emulator.shader import options

        fast, version = request.param
        monkeypatch.setattr(options, "fast_math", fast)
        monkeypatch.setattr(options, "metal_version", version)
    elif request.param != (False, 310):
        pytest.skip("the math mode of a real GPU belongs to the process")
    texts = [_read("mps_pointops._metal", f"{name}.metal") for name in ("arithmetic", "division")]
    return torch.mps.compile_shader("\n".join(["#define RULE 0\n#define DIM 3", *texts, KERNELS]))


def _wanted(a: float, b: float) -> float:
    """IEEE division of float32 numbers, subnormal ones being zero."""
    a, b = (np.copysign(0.0, x) if abs(x) < 2.0**-126 else x for x in (a, b))
    if not (np.isfinite(a) and np.isfinite(b)) or b == 0.0:
        with np.errstate(all="ignore"):
            return float(np.float64(a) / np.float64(b))
    return float(np.copysign(oracles.round32(Fraction(a) / Fraction(b)), float(a) * np.sign(b)))


def _check(library, a, b):
    a, b = torch.as_tensor(a, dtype=torch.float32), torch.as_tensor(b, dtype=torch.float32)
    got = torch.empty(len(a), dtype=torch.int32, device="mps")
    library.divide(a.to("mps"), b.to("mps"), got)
    with np.errstate(over="ignore"):
        wanted = np.array([_wanted(*pair) for pair in zip(a.tolist(), b.tolist(), strict=True)])
    wanted = torch.from_numpy(wanted.astype(np.float32))
    got = got.cpu().view(torch.float32)
    assert torch.equal(torch.isnan(got), torch.isnan(wanted))
    numbers = ~torch.isnan(wanted)
    same = got.view(torch.int32)[numbers] == wanted.view(torch.int32)[numbers]
    wrong = (~same).nonzero()[:, 0]
    assert not len(wrong), [(a[numbers][i].item(), b[numbers][i].item()) for i in wrong[:3]]


def _from_bits(bits):
    return torch.from_numpy(bits.astype(np.uint32).view(np.float32))


def test_numbers_of_every_kind(library):
    """Random bits: every exponent, overflow and underflow, NaN now and then."""
    rng = np.random.default_rng(0)
    _check(library, *(_from_bits(rng.integers(2**32, size=20_000)) for _ in range(2)))


def test_special_numbers(library):
    values = [sign * value for value in SPECIAL for sign in (1.0, -1.0)]
    pairs = [(a, b) for a in values for b in values]
    _check(library, *zip(*pairs, strict=True))


def test_quotients_next_to_the_middle_of_two_floats(library):
    """Dividends for which the quotient is as near to a rounding border as it can be."""
    rng = np.random.default_rng(1)
    divisor = rng.integers(2**23, 2**24, size=6_000)
    middle = rng.integers(2**23, 2**24, size=6_000) * 2 + 1
    dividend = divisor * middle / 2**24 + rng.integers(-1, 2, size=6_000)
    _check(library, dividend, divisor)


def test_quotients_at_the_ends(library):
    """All ones and all zeros in the significands; at the smallest normal number; at the largest."""
    near = np.array([0, 1, 2, 3, 2**22, 2**23 - 3, 2**23 - 2, 2**23 - 1])
    low, high = np.meshgrid(near, near)
    for first, second in (
        (127, 127),
        (1, 127),
        (2, 128),
        (1, 126),
        (64, 190),
        (254, 127),
        (254, 126),
    ):
        a = _from_bits((first << 23 | low).ravel())
        b = _from_bits((second << 23 | high).ravel())
        _check(library, a, b)


@pytest.mark.parametrize("off", [-127, -4, -1, 0, 1, 4, 127])
def test_a_wrong_guess_is_made_right(library, off):
    rng = np.random.default_rng(2)
    b = rng.integers(2**23, 2**24, size=2_000)
    b[:4] = [2**23, 2**24 - 1, 2**23, 2**24 - 1]
    a = rng.integers(b, 2 * b)
    a[:4] = [2**24 - 1, 2**25 - 4, 2**23, 2**24 - 1]
    wanted = [int(Fraction(int(p) * 2**24 + int(q), 2 * int(q))) for p, q in zip(a, b, strict=True)]
    guess = a * 2**23 // b + off
    arguments = [torch.from_numpy(x.astype(np.int32)).to("mps") for x in (a, b, guess)]
    got = torch.empty_like(arguments[0])
    library.round_guesses(*arguments, got)
    assert got.tolist() == wanted
