"""Integer arithmetic that does not rest on what torch gets wrong on MPS."""

import pytest
import torch

from mps_pointops import _integers as integers

EDGES = [-(2**63), -(2**63) + 1, -(2**32) - 1, -(2**32), -(2**31), -3, -1]
EDGES += [0, 1, 2, 2**24 + 1, 2**31, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_lowest_and_highest(device, dtype):
    info = torch.iinfo(dtype)
    known = [v for v in EDGES if info.min <= v <= info.max]
    for begin in range(len(known)):
        for end in range(begin + 1, len(known) + 1):
            values = torch.tensor(known[begin:end], dtype=dtype)
            points = torch.stack((values, values.flip(0)), dim=1).to(device)
            low, high = integers.lowest(points), integers.highest(points)
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


def test_counted(device):
    row, place = integers.counted(3, 2, device)
    assert row.tolist() == [0, 0, 1, 1, 2, 2]
    assert place.tolist() == [0, 1] * 3
    assert integers.repeated(5, 2, device).tolist() == [0, 1, 0, 1, 0]


def test_floor_divide(device):
    divisors = [1, 2, 3, 7, 2**24 - 1, 2**24 + 1, 2**31, 2**40 + 1, 2**62, 2**63 - 1]
    near = [n * d + e for d in divisors for n in (1, 5, 2**23 + 1, -9) for e in (-1, 0, 1)]
    values = [v for v in EDGES + near if -(2**63) <= v < 2**63]
    pairs = [(v, d) for v in values for d in divisors]
    found = integers.floor_divide(*(torch.tensor(x).to(device) for x in zip(*pairs, strict=True)))
    assert found.tolist() == [v // d for v, d in pairs]
