"""`fps`."""

import math

import pytest
import torch

from torch_cluster import fps


def _list(picks):
    assert picks.dtype == torch.int64
    assert picks.dim() == 1
    assert picks.is_contiguous()
    assert not picks.requires_grad
    return picks.tolist()


@pytest.mark.parametrize("dim", [1, 3, 17])
def test_dtypes(device, dtype, exact, dim):
    x = exact.points(40, dim)
    wanted = exact.fps(x, 20)
    assert _list(fps(x.to(device, dtype), random_start=False)) == wanted
    assert fps(x.to(device, dtype)).device.type == device


def test_batches(device, exact):
    x = exact.points(40, 3, high=50)
    for batch in ([0] * 15 + [1] * 25, [0] * 15 + [3] * 25, [2] * 15 + [9] * 25):
        wanted = exact.fps(x[:15], 5) + [15 + i for i in exact.fps(x[15:], 9)]
        for dtype in (torch.int64, torch.int32):
            vector = torch.tensor(batch, device=device, dtype=dtype)
            points = x.float().to(device)
            assert _list(fps(points, vector, 1 / 3, False)) == wanted
            assert _list(fps(points, vector, 1 / 3, False, batch_size=12)) == wanted
            drawn = _list(fps(points, vector, 1 / 3, batch_size=12))
            assert [i < 15 for i in drawn] == [True] * 5 + [False] * 9


def test_ptr(device, exact):
    x = exact.points(40, 3, high=50)
    points = x.float().to(device)
    wanted = exact.fps(x[:15], 8) + [15 + i for i in exact.fps(x[15:], 13)]
    for ptr in ([0, 15, 40], [0, 0, 15, 15, 40, 40]):
        assert _list(fps(points, None, 0.5, False, None, ptr)) == wanted
        assert (
            _list(fps(points, random_start=False, ptr=torch.tensor(ptr, device=device))) == wanted
        )
    wrong = torch.zeros(7, dtype=torch.int64, device=device)  # ptr wins over batch
    assert _list(fps(points, wrong, random_start=False, ptr=[0, 15, 40])) == wanted


def test_ratios(device):
    x = torch.rand(25, 3, device=device)
    batch = torch.tensor([0] * 10 + [1] * 15, device=device)
    assert len(fps(x)) == 13
    assert len(fps(x, ratio=0.6)) == 16  # 25 times float32(0.6) is above 15
    assert len(fps(x, ratio=torch.tensor(0.6, device=device))) == 16
    assert len(fps(x, ratio=torch.tensor([0.6], device=device))) == 16
    assert len(fps(x, ratio=torch.tensor([0.6], dtype=torch.float64))) == 15
    assert len(fps(x, ratio=1)) == 25
    assert len(fps(x, ratio=torch.tensor(1, device=device))) == 25
    per_cloud = torch.tensor([0.2, 0.9], device=device)
    assert (fps(x, batch, per_cloud) >= 10).tolist() == [False] * 2 + [True] * 14
    assert len(fps(x, batch, 0.0)) == 0
    with pytest.raises(ValueError, match="ratio must be of shape"):
        fps(x, batch, torch.tensor([0.1, 0.2, 0.3], device=device), batch_size=2)
    with pytest.raises(ValueError, match=r"ratio must be finite and not negative, got -0\.5"):
        fps(x, ratio=-0.5)


def test_ratios_are_as_many_as_clouds(device):
    """As in the original, there are as many clouds as the last number says, with gaps."""
    x = torch.rand(9, 3, device=device)
    for dtype in (torch.float, torch.half, torch.double):
        for place in ("cpu", device):
            if dtype == torch.double and place == "mps":
                continue
            ratios = torch.tensor([0.5, 0.1, 0.3, 0.5], dtype=dtype, device=place)
            gaps = torch.tensor([0] * 4 + [3] * 5, device=device)
            assert len(fps(x, gaps, ratios)) == 5
            assert len(fps(x, gaps.int(), ratios, batch_size=4)) == 5
            for last, count in ((2, 3), (5, 6)):
                wrong = torch.where(gaps == 3, last, gaps)
                text = rf"ratio must be of shape \[\] or \[{count}\], got shape \[4\]"
                with pytest.raises(ValueError, match=text):
                    fps(x, wrong, ratios)
            with pytest.raises(ValueError, match="batch must be sorted"):
                fps(x, gaps.flip(0), ratios)


def test_ratio_above_one_repeats(device):
    picks = _list(fps(torch.rand(7, 3, device=device), ratio=2.0, random_start=False))
    assert len(picks) == 14
    assert sorted(picks[:7]) == list(range(7))
    assert set(picks[7:]) <= set(range(7))


@pytest.mark.parametrize("ratio", [None, 0.3])
def test_integers_have_a_ratio(device, ratio):
    """The original turns it to an integer, 0, and crashes."""
    x = torch.arange(12, device=device).view(6, 2)
    assert _list(fps(x, ratio=ratio, random_start=False)) == [0, 5, 2][: 3 if ratio is None else 2]


def test_far_points_are_ordered(device):
    """The CUDA kernel takes all squared distances from 5e4 on for equal."""
    x = torch.tensor([[0.0], [300.0], [900.0], [500.0]], device=device)
    assert _list(fps(x, ratio=1.0, random_start=False)) == [0, 2, 3, 1]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_not_finite_points_stay_in_their_cloud(device, exact, bad):
    x = exact.points(40, 3, high=50)
    points = x.float().to(device)
    points[5, 1] = bad
    batch = torch.tensor([0] * 15 + [1] * 25, device=device)
    picks = _list(fps(points, batch, 0.5, False))
    assert 5 not in picks[:8]
    assert picks[8:] == [15 + i for i in exact.fps(x[15:], 13)]


def test_shapes(device, exact):
    x = exact.points(12, 4, high=50)
    wanted = exact.fps(x, 6)
    points = x.float().to(device)
    assert _list(fps(points.view(12, 2, 2), random_start=False)) == wanted
    assert _list(fps(torch.stack((points, points), 2)[..., 0], random_start=False)) == wanted
    assert _list(fps(points[:, 0].contiguous(), random_start=False)) == exact.fps(x[:, :1], 6)
    for rows in (0, 1):
        assert _list(fps(points[:rows])) == [0] * rows


def test_seeds(device):
    x = torch.rand(50, 3, device=device)
    batch = torch.tensor([0] * 20 + [1] * 30, device=device)
    drawn = []
    for seed in (1, 1, 2, 3, 4, 5):
        torch.manual_seed(seed)
        drawn.append(_list(fps(x, batch)))
    assert drawn[0] == drawn[1]
    assert len({tuple(picks) for picks in drawn}) > 1
    assert all(0 <= p[0] < 20 <= p[10] < 50 for p in drawn)


def test_starts_are_uniform(device):
    torch.manual_seed(0)
    x = torch.arange(4.0, device=device).view(4, 1)
    batch = torch.zeros(4, dtype=torch.int64, device=device)
    x, batch = x.repeat(1000, 1), torch.arange(1000, device=device).repeat_interleave(4)
    starts = (fps(x, batch, 0.25) % 4).bincount(minlength=4).tolist()
    # four standard deviations of a binomial
    assert all(abs(count - 250) < 4 * math.sqrt(1000 * 3 / 16) for count in starts)


def test_errors(device):
    x = torch.rand(4, 3, device=device)
    with pytest.raises(AssertionError, match="batch must have one cloud number a row"):
        fps(x, torch.tensor([0, 1], device=device))
    with pytest.raises(ValueError, match="sorted"):
        fps(x, torch.tensor([0, 1, 0, 1], device=device))
    with pytest.raises(ValueError, match="number of clouds"):
        fps(x, torch.tensor([0, 0, 1, 1], device=device), batch_size=1)
    with pytest.raises(ValueError, match="ptr must be ascending from 0 to 4"):
        fps(x, ptr=[0, 3])
    with pytest.raises(TypeError, match="ptr must be int64 or int32"):
        fps(x, ptr=[0, 2.5, 4])
    with pytest.raises(ValueError, match="ptr must be ascending from 0 to 4"):
        fps(x, ptr=torch.tensor([0, 3, 2, 4], device=device))


def test_needs_no_gradient(device):
    x = torch.rand(5, 3, device=device, requires_grad=True)
    assert len(_list(fps(x * 1, ratio=torch.tensor(0.5, requires_grad=True)))) == 3


@pytest.mark.parametrize("given", [{}, {"ptr": [0, 4]}])
def test_one_cloud_starts_at_random(device, given):
    x = torch.arange(4.0).view(4, 1).to(device)
    seen = set()
    for seed in range(40):
        torch.manual_seed(seed)
        seen.add(int(fps(x, ratio=0.25, **given)))
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize(("dtype", "picks"), [(torch.float32, 16), (torch.float64, 15)])
def test_a_ratio_is_rounded_as_the_points(dtype, picks):
    """0.6 in float32 is more than 0.6, and 25 times that more than 15."""
    assert len(fps(torch.rand(25, 2, dtype=dtype), ratio=0.6)) == picks
