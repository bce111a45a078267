"""Integer arithmetic that does not rest on what torch gets wrong on MPS."""

import pytest
import torch

import mps_emulator
from mps_pointops import _integers as integers

EDGES = [-(2**63), -(2**63) + 1, -(2**32) - 1, -(2**32), -(2**31), -3, -1]
EDGES += [0, 1, 2, 2**24 + 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_extremes(device, dtype):
    info = torch.iinfo(dtype)
    known = [v for v in EDGES if info.min <= v <= info.max]
    for begin in range(len(known)):
        for end in range(begin + 1, len(known) + 1):
            values = torch.tensor(known[begin:end], dtype=dtype)
            points = torch.stack((values, values.flip(0)), dim=1).to(device)
            low, high = integers.extremes(points)
            assert low.dtype == high.dtype == dtype
            assert low.tolist() == [known[begin]] * 2
            assert high.tolist() == [known[end - 1]] * 2


@pytest.mark.parametrize(
    ("values", "wanted"), [([3, 5], (0, 5)), ([-3, -5], (-5, 0)), ([-3, 5], (-3, 5))]
)
def test_around_zero(device, values, wanted):
    low, high = integers.around_zero(torch.tensor(values, device=device))
    assert (int(low), int(high)) == wanted


def test_largest_where(device):
    numbers = torch.tensor([4, 0, 2], device=device)
    for condition, wanted in ([0, 0, 0], 0), ([0, 1, 0], 1), ([0, 1, 1], 3), ([1, 1, 1], 5):
        found = integers.largest_where(torch.tensor(condition, device=device).bool(), numbers)
        assert int(found) == wanted


def test_quotients_and_rests(device):
    assert integers.quotients(3, 2, device).tolist() == [0, 0, 1, 1, 2, 2]
    assert integers.rests(3, 2, device).tolist() == [0, 1] * 3
    assert integers.repeated(5, 2, device).tolist() == [0, 1, 0, 1, 0]


def test_floor_divide(device):
    divisors = [1, 2, 3, 7, 2**24 - 1, 2**24 + 1, 2**31, 2**40 + 1, 2**62, 2**63 - 1]
    near = [n * d + e for d in divisors for n in (1, 5, 2**23 + 1, -9) for e in (-1, 0, 1)]
    values = [v for v in EDGES + near if -(2**63) <= v < 2**63]
    pairs = [(v, d) for v in values for d in divisors]
    found = integers.floor_divide(*(torch.tensor(x).to(device) for x in zip(*pairs, strict=True)))
    assert found.tolist() == [v // d for v, d in pairs]


@pytest.mark.parametrize("rows", [4096, 4097, 9000])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_many_rows(dtype, rows):
    rng = torch.Generator().manual_seed(rows)
    points = torch.randint(5, 1000, (rows, 3), generator=rng, dtype=dtype)
    points[-1, 0], points[rows // 2, 1], points[0, 2] = 1, 2, 2000
    low, high = integers.extremes(points.to("mps"))
    assert low.tolist() == points.amin(dim=0).tolist()
    assert high.tolist() == points.amax(dim=0).tolist()
    assert [int(n) for n in integers.around_zero(points.to("mps"))] == [0, 2000]
    assert [int(n) for n in integers.around_zero(-points.to("mps").t())] == [-2000, 0]
    assert [int(n) for n in integers.around_zero(points.to("mps").to(torch.int16))] == [0, 2000]


def test_few_operators():
    """Each is a dispatch on a Mac; hot paths call these."""
    points = torch.randint(-9, 9, (5000, 3)).to("mps")
    seven = torch.full((), 7, device="mps")
    calls = {
        integers.extremes: (points,),
        integers.around_zero: (points,),
        integers.floor_divide: (points, seven),
    }
    for call, arguments in calls.items():
        call(*arguments)
        with mps_emulator.count_operators() as operators:
            call(*arguments)
        assert operators.count <= 1, (call, operators.operators)
