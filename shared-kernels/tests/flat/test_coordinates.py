"""Coordinates of every dtype and rank."""

import pytest
import torch

from mps_pointops import flat
from pointops_testing import assert_same_bits, cloud

OPS = torch.ops.mps_pointops
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def _batch(size, device):
    return (torch.arange(size, device=device) >= size // 3).long()


def _calls(x, y, bx, by):
    return [
        flat.knn(x, y, 3, bx, by),
        flat.radius(x, y, 9.5, bx, by, 4),
        flat.fps(x, bx, 0.3, random_start=False),
    ]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_exact(device, dtype):
    rng = torch.Generator().manual_seed(0)
    low, high = (0, 100) if dtype is torch.uint8 else (-60, 60)
    x = torch.randint(low, high, (40, 3), generator=rng)
    y = torch.randint(low, high, (15, 3), generator=rng)
    bx, by = _batch(40, device), _batch(15, device)
    wanted = _calls(x.float().to(device), y.float().to(device), bx, by)
    got = _calls(x.to(device, dtype), y.to(device, dtype), bx, by)
    for one, other in zip(got, wanted, strict=True):
        assert_same_bits(one, other.cpu())
        assert one.device.type == device
    # far from the origin, where float32 has no such integers
    if dtype in (torch.int32, torch.int64):
        far = torch.tensor([2**30, -(2**30), 2**29 + 1])
        far = far * 2**30 if dtype is torch.int64 else far
        moved = _calls((x + far).to(device, dtype), (y + far).to(device, dtype), bx, by)
        for one, other in zip(moved, wanted, strict=True):
            assert_same_bits(one, other.cpu())


def test_the_smallest_values_of_both_sets(device):
    """A query below every point would be far from the origin of a shift by the points alone."""
    x = torch.tensor([[2**30], [2**30 + 5]], dtype=torch.int64, device=device)
    y = torch.tensor([[2**30 - 3]], dtype=torch.int64, device=device)
    assert flat.radius(x, y, 3.5).tolist() == [[0], [0]]
    assert flat.radius(y, x, 3.5).tolist() == [[0], [0]]


def test_the_widest_integers_do_not_wrap_around(device):
    x = torch.tensor([[-(2**63)], [0], [2**63 - 1]], dtype=torch.int64, device=device)
    assert flat.knn(x, x, 3).tolist()[1] == [0, 1, 2, 1, 0, 2, 2, 1, 0]
    assert flat.fps(x, ratio=1.0, random_start=False).tolist() == [0, 2, 1]


def test_integers_need_integers(device):
    x = torch.zeros(3, 2, dtype=torch.int32, device=device)
    for y in (x.float(), x.bool()):
        with pytest.raises(TypeError, match=r"y must be of the kind of x \(torch.int32\)"):
            flat.knn(x, y, 1)
    assert flat.knn(x, x.to(torch.uint8), 1).shape == (2, 3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_is_widened(device, dtype):
    x, y = cloud("random", 40).to(device, dtype), cloud("random", 15, seed=1).to(device, dtype)
    bx, by = _batch(40, device), _batch(15, device)
    wanted = [
        flat.knn(x.float(), y.float(), 3, bx, by),
        flat.radius(x.float(), y.float(), 0.9, bx, by),
    ]
    got = [flat.knn(x, y.float(), 3, bx, by), flat.radius(x, y, 0.9, bx, by)]
    for one, other in zip(got, wanted, strict=True):
        assert torch.equal(one, other)


def test_one_axis_is_a_column(device):
    x, y = cloud("lattice", 40, 1).to(device), cloud("lattice", 15, 1, seed=1).to(device)
    bx, by = _batch(40, device), _batch(15, device)
    wanted = _calls(x, y, bx, by)
    for one, other in zip(_calls(x[:, 0], y[:, 0], bx, by), wanted, strict=True):
        assert torch.equal(one, other)
    for one, other in zip(_calls(x[:, 0], y, bx, by), wanted, strict=True):
        assert torch.equal(one, other)


def test_sampling_joins_axes(device):
    x = cloud("random", 24, 6).to(device)
    wanted = flat.fps(x, ratio=0.5, random_start=False)
    for shape in ((24, 2, 3), (24, 1, 6, 1)):
        assert torch.equal(flat.fps(x.view(shape), ratio=0.5, random_start=False), wanted)
    strided = x.view(24, 2, 3).transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(flat.fps(strided, ratio=0.5, random_start=False), wanted)
    assert flat.fps(x[:0].view(0, 2, 3)).shape == (0,)


def test_strided_views(device):
    x, y = cloud("random", 40, 6).to(device), cloud("random", 15, 6, seed=1).to(device)
    bx, by = _batch(40, device), _batch(15, device)
    views = (x[:, ::2], y.flip(1)[:, ::2], torch.stack((bx, -bx), 1)[:, 0], by.flip(0).flip(0))
    assert not views[0].is_contiguous()
    assert not views[2].is_contiguous()
    wanted = _calls(*(v.contiguous() for v in views))
    for one, other in zip(_calls(*views), wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        (torch.zeros(()), ValueError, r"x must be of shape \(N, D\) or \(N,\), got shape \[\]"),
        (torch.zeros(2, 3, 4), ValueError, r"x must be of shape \(N, D\) or \(N,\)"),
        (torch.zeros(2, 0), ValueError, "with D >= 1"),
        (torch.zeros(2, 3).bool(), TypeError, "x must be .*got torch.bool"),
        (torch.zeros(2, 3, dtype=torch.complex64), TypeError, "x must be .*got torch.complex64"),
        (torch.zeros(2, 3).to_sparse(), TypeError, "x must be a dense"),
        ([[0.0]], TypeError, "x must be a torch.Tensor, got list"),
    ],
)
def test_bad_points(x, error, text):
    for call in (lambda: flat.knn(x, x, 1), lambda: flat.radius(x, x, 1.0)):
        with pytest.raises(error, match=text):
            call()


def test_bad_points_of_sampling(device):
    with pytest.raises(ValueError, match=r"x must be of shape \(N, ...\), got shape \[\]"):
        flat.fps(torch.zeros((), device=device))
    with pytest.raises(TypeError, match=r"x must be .*got torch.bool"):
        flat.fps(torch.zeros(3, 2, device=device).bool())
    with pytest.raises(TypeError, match=r"x must be a torch.Tensor, got list"):
        flat.fps([[0.0]], ptr=[0, 1])


def test_two_devices_are_refused():
    x = torch.zeros(2, 3)
    for call in (
        lambda: flat.knn(x, x.to("mps"), 1),
        lambda: flat.radius(x.to("mps"), x, 1.0),
        lambda: flat.knn(x, x, 1, torch.zeros(2, device="mps").long()),
        lambda: flat.fps(x, torch.zeros(2, device="mps").long()),
        lambda: flat.fps(x, ratio=torch.tensor(0.5, device="mps")),
        lambda: flat.fps(x.to("mps"), ptr=torch.tensor([0, 2])),
    ):
        with pytest.raises(ValueError, match="must be on the device of"):
            call()
