"""Ragged farthest point sampling: counts, clouds, starts."""

import numpy as np
import pytest
import torch

import mps_pointops
from mps_pointops import flat
from mps_pointops.ops.fps.reference import furthest_point_sample_reference as reference
from pointops_testing import CLOUDS, assert_same_bits, cloud

# clouds 1, 2, 4 and 6 of 8 are empty
SIZES = (33, 0, 0, 1, 0, 300, 0, 2)


def _ragged(name="random", dim=3):
    points = torch.cat([cloud(name, size, dim, seed=b) for b, size in enumerate(SIZES) if size])
    batch = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    return points, batch


def _ptr(sizes=SIZES):
    return [0, *np.cumsum(sizes).tolist()]


def _expected(points, counts):
    begins = _ptr()
    picks = []
    for b, size in enumerate(SIZES):
        if size:
            part = points[begins[b] : begins[b + 1]]
            picks.append(reference(part, counts[b]) + begins[b])
    return torch.cat(picks)


def _counts(ratio):
    f = np.float32
    return [int(np.ceil(f(size) * f(ratio))) for size in SIZES]


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 1.3])
@pytest.mark.parametrize("name", CLOUDS)
def test_picks(device, name, ratio):
    points, batch = _ragged(name)
    got = flat.fps(points.to(device), batch.to(device), ratio, random_start=False)
    assert got.device.type == device
    assert_same_bits(got, _expected(points, _counts(ratio)))


@pytest.mark.parametrize("dim", [1, 2, 5, 17])
def test_dimensions(device, dim):
    points, batch = _ragged(dim=dim)
    got = flat.fps(points.to(device), batch.to(device), 0.3, random_start=False)
    assert_same_bits(got, _expected(points, _counts(0.3)))


def test_every_way_to_tell_clouds_apart(device):
    points, batch = _ragged()
    wanted = _expected(points, _counts(0.4)).tolist()
    x, b = points.to(device), batch.to(device)
    ptr = torch.tensor(_ptr())
    for arguments in (
        {"batch": b},
        {"batch": b.int()},
        {"batch": b, "batch_size": 8},
        {"batch": b, "batch_size": 11},
        {"ptr": ptr.to(device)},
        {"ptr": ptr.int().to(device)},
        {"ptr": ptr.tolist()},
        {"ptr": tuple(ptr.tolist())},
    ):
        got = flat.fps(x, ratio=0.4, random_start=False, **arguments)
        assert got.tolist() == wanted, arguments


@pytest.mark.parametrize(
    ("size", "ratio", "count"),
    [
        (25, 0.6, 16),  # 15 in exact arithmetic
        (20000, 768 / 20000, 769),
        (732, 100 / 732, 101),
        (7, 1 / 7, 1),
        (1000, 0.001, 1),
        (10, None, 5),
        (10, 1, 10),
        (10, 0, 0),
    ],
)
def test_counts_are_those_of_torch_cluster(device, size, ratio, count):
    x = torch.zeros(size, 3, device=device)
    assert len(flat.fps(x, ratio=ratio)) == count
    batch = torch.zeros(size, dtype=torch.int64, device=device)
    assert len(flat.fps(x, batch, ratio)) == count


def test_ratio_tensors(device):
    points, batch = _ragged()
    x, b = points.to(device), batch.to(device)
    for ratio in (torch.tensor(0.4), torch.tensor([0.4])):
        got = flat.fps(x, b, ratio.to(device), random_start=False)
        assert_same_bits(got, _expected(points, _counts(0.4)))
    each = torch.linspace(0.1, 1.0, len(SIZES))
    wanted = [int(np.ceil(np.float32(n) * r)) for n, r in zip(SIZES, each.numpy(), strict=True)]
    for clouds in ({"batch": b}, {"ptr": _ptr()}, {"ptr": torch.tensor(_ptr(), device=device)}):
        got = flat.fps(x, ratio=each.to(device), random_start=False, **clouds)
        assert_same_bits(got, _expected(points, wanted))


def test_ratio_is_rounded_in_its_own_dtype(device):
    x = torch.zeros(2500, 3, device=device, dtype=torch.float16)
    exact = np.ceil(np.float16(2500) * np.float16(0.6))
    assert len(flat.fps(x, ratio=0.6)) == int(exact)


def test_random_start_follows_the_seed(device):
    points, batch = _ragged()
    x, b = points.to(device), batch.to(device)
    starts = set()
    for seed in range(12):
        torch.manual_seed(seed)
        first = flat.fps(x, b, 0.3)
        torch.manual_seed(seed)
        assert torch.equal(flat.fps(x, b, 0.3), first)
        starts.add(int(first[0]))
        assert 0 <= int(first[0]) < SIZES[0]
    assert len(starts) > 3


def test_one_cloud_equals_the_dense_call(device):
    x = cloud("lattice", 200).to(device)
    dense = mps_pointops.furthest_point_sample(x[None], 61)[0]  # ceil(200 * float32(0.3))
    assert_same_bits(flat.fps(x, ratio=0.3, random_start=False), dense.cpu())


def test_empty_input(device):
    x = torch.empty(0, 3, device=device)
    batch = torch.empty(0, dtype=torch.int64, device=device)
    for arguments in ({}, {"batch": batch}, {"ptr": [0]}, {"ptr": [0, 0]}):
        got = flat.fps(x, ratio=0.5, **arguments)
        assert got.shape == (0,)
        assert got.dtype == torch.int64


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"batch": [0, 0, 1, 0]}, ValueError, "batch must be sorted in ascending order"),
        ({"batch": [0, 0, 1, 0], "batch_size": 2}, ValueError, "batch must be sorted"),
        ({"batch": [-1, 0, 0, 0]}, ValueError, "batch must be cloud numbers from 0, got -1"),
        ({"batch": [0, 0, 1, 2], "batch_size": 2}, ValueError, r"below the number of clouds \(2\)"),
        ({"batch": [0, 0, 1]}, ValueError, r"batch must be of shape \[4\]"),
        ({"batch": [0.0, 0.0, 1.0, 1.0]}, TypeError, "batch must be int64 or int32"),
        ({"ptr": [0, 3]}, ValueError, r"ptr must be ascending from 0 to 4, got \[0, 3\]"),
        ({"ptr": [0, 3, 2, 4]}, ValueError, "ptr must be ascending"),
        ({"ptr": []}, ValueError, "ptr must be ascending"),
        ({"ptr": [0, 2.7, 4]}, TypeError, "ptr must be an integer, got float"),
        ({"ptr": 4}, TypeError, "ptr must be a tensor or a sequence of integers, got int"),
        ({"ptr": "04"}, TypeError, "ptr must be a tensor or a sequence of integers, got str"),
        ({"ptr": [0, 4], "batch": [0, 0, 0, 0]}, ValueError, "give one of them"),
        ({"batch_size": 2}, ValueError, "batch_size must be None without batch"),
        ({"ratio": 1e30}, ValueError, "ratio must be for at most 2147483647 picks in all"),
        ({"ratio": -0.5}, ValueError, "ratio must be finite and not negative, got -0.5"),
        ({"ratio": float("nan")}, ValueError, "ratio must be finite"),
        ({"ratio": "0.5"}, TypeError, "ratio must be a number, got str"),
    ],
)
def test_bad_arguments(device, arguments, error, text):
    x = torch.rand(4, 3, device=device)
    if "batch" in arguments:
        arguments = {**arguments, "batch": torch.tensor(arguments["batch"], device=device)}
    with pytest.raises(error, match=text):
        flat.fps(x, **arguments)


def test_bad_tensors(device):
    x = torch.rand(4, 3, device=device)
    for ptr in ([0, 3], [1, 4], [0, 3, 1, 4]):
        with pytest.raises(ValueError, match="ptr must be ascending from 0 to 4"):
            flat.fps(x, ptr=torch.tensor(ptr, device=device))
    for ratio in ([0.5, -0.5], [0.5, torch.nan], [0.5, torch.inf]):
        bad = torch.tensor(ratio, device=device)
        for clouds in ({"ptr": [0, 2, 4]}, {"ptr": torch.tensor([0, 2, 4], device=device)}):
            with pytest.raises(ValueError, match="ratio must be finite and not negative"):
                flat.fps(x, ratio=bad, **clouds)
    with pytest.raises(ValueError, match=r"ratio must be of shape \[\] or \[1\]"):
        flat.fps(x, ratio=torch.tensor([0.5, 0.5], device=device))
    with pytest.raises(TypeError, match="ratio must be a number or a float, int64"):
        flat.fps(x, ratio=torch.tensor(True, device=device))


def test_clouds_may_have_any_numbers(device):
    """Memory follows the points, not the largest number."""
    points, batch = _ragged()
    wanted = _expected(points, _counts(0.4))
    got = flat.fps(points.to(device), batch.to(device) * 2**40, 0.4, random_start=False)
    assert_same_bits(got, wanted)


def test_a_strided_ptr(device):
    x = cloud("random", 10).to(device)
    ptr = torch.tensor([0, 9, 5, 9, 10, 9], device=device)[::2]
    assert (
        flat.fps(x, ptr=ptr, ratio=0.4, random_start=False).tolist()
        == flat.fps(x, ptr=[0, 5, 10], ratio=0.4, random_start=False).tolist()
    )


def test_small_negative_ratios_are_refused(device):
    x = torch.rand(10, 3, device=device)
    for ratio in (torch.tensor(-0.05), torch.tensor([-0.04, 0.1])):
        for clouds in ({"ptr": [0, 5, 10]}, {"ptr": torch.tensor([0, 5, 10], device=device)}):
            with pytest.raises(ValueError, match="ratio must be finite and not negative"):
                flat.fps(x, ratio=ratio.to(device), **clouds)


def test_half_clouds_larger_than_half_can_count(device):
    x = torch.zeros(70_000, 3, dtype=torch.float16, device=device)
    ratio = torch.tensor(1e-4, dtype=torch.float16).float()
    assert len(flat.fps(x, ratio=1e-4)) == int(np.ceil(np.float32(70_000) * ratio.numpy()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_default_dtype_and_device_change_nothing(device, dtype):
    points, batch = _ragged()
    x, b = points.to(device), batch.to(device)
    wanted = flat.fps(x, b, 0.3, random_start=False)
    try:
        torch.set_default_dtype(dtype)
        torch.set_default_device("cpu" if device == "mps" else "mps")
        got = flat.fps(x, b, 0.3, random_start=False)
        assert len(flat.fps(x, b, 0.3)) == len(got)
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_ratios_of_the_host(device, dtype):
    """Of every dtype, whatever the points: the counts are those of its own arithmetic."""
    sizes = (25, 0, 3, 40)
    x = cloud("random", sum(sizes)).to(device)
    batch = torch.repeat_interleave(torch.arange(4), torch.tensor(sizes)).to(device)
    ptr = torch.tensor(_ptr(sizes), device=device)

    def counted(ratio, **clouds):
        picked = flat.fps(x, ratio=ratio, random_start=False, **clouds)
        counts = batch[picked].cpu().bincount(minlength=4).tolist()
        assert_same_bits(picked, _each(x.cpu(), sizes, counts))
        return counts

    each = torch.tensor([0.6, 0.5, 0.34, 0.1], dtype=dtype)
    product = torch.tensor(sizes, dtype=dtype) * each
    wanted = product.ceil().long().tolist()
    ways = ({"batch": batch}, {"batch": batch, "batch_size": 4}, {"ptr": ptr})
    for clouds in (*ways, {"ptr": _ptr(sizes)}):
        assert counted(each, **clouds) == wanted
    wanted = (torch.tensor(sizes, dtype=dtype) * each[:1]).ceil().long().tolist()
    for clouds in (*ways, {"ptr": _ptr(sizes)}):
        assert counted(each[0], **clouds) == counted(each[:1], **clouds) == wanted
    if dtype in (torch.float32, torch.float64):
        assert wanted[0] == (16 if dtype is torch.float32 else 15)


def _each(x, sizes, counts):
    begins = _ptr(sizes)
    picks = [
        reference(x[begin : begin + size], count) + begin
        for begin, size, count in zip(begins, sizes, counts, strict=False)
        if size
    ]
    return torch.cat(picks)
