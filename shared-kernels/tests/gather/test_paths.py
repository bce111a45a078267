"""Every kernel of gather and scatter: rows in threadgroup memory and not, chunks, threads."""

import pytest
import torch

import mps_emulator
from mps_pointops import gather_points, scatter_points, three_interpolate, three_scatter
from mps_pointops._arithmetic import fma
from mps_pointops._metal import choices
from mps_pointops.ops.gather import mps
from mps_pointops.ops.gather.reference import gather_reference, scatter_reference
from mps_pointops.ops.interpolate import mps as interpolate_mps
from mps_pointops.ops.interpolate.reference import three_interpolate_reference
from pointops_testing import assert_same_bits


def _sums(values, index, size):
    """As the reference, a position of all clouds and channels at a time."""
    out = torch.zeros(*values.shape[:2], size)
    cloud = torch.arange(len(index))
    for m in range(index.shape[1]):
        out[cloud, :, index[:, m]] += values[:, :, m]
    return out


@pytest.fixture
def launched(monkeypatch):
    """Names of the kernels that were asked for."""
    names = []
    for source in (mps.SOURCE, mps.CHUNKS, mps.SUMS):
        kernel = source.kernel

        def noted(*values, kernel=kernel, name=None):
            names.append(name)
            return kernel(*values, name=name)

        monkeypatch.setattr(source, "kernel", noted)
    return names


# (clouds, channels, size, count, kernel): rows that fit in 16 and 32 KiB, that do not, that are
# read less than it costs to bring them; more channels than a threadgroup takes
@pytest.mark.parametrize(
    ("clouds", "channels", "size", "count", "kernel"),
    [
        (2, 3, 100, 2100, "gather_held"),
        (70, 9, 33, 40, "gather_held"),
        (1, 5, 4096, 2300, "gather_held"),
        (1, 2, 8192, 4097, "gather_held"),
        (1, 19, 8193, 300, "gather"),
        (2, 11, 700, 300, "gather"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gather(clouds, channels, size, count, kernel, dtype, launched):
    rng = torch.Generator().manual_seed(size)
    features = torch.randn(clouds, channels, size, generator=rng).to(dtype)
    index = torch.randint(size, (clouds, count), generator=rng)
    wanted = gather_reference(features, index)
    for kind in (torch.int32, torch.int64):
        wrong = index.to(kind)
        wrong[0, 1] = -1
        wrong[0, 2] = size
        got = gather_points(features.to("mps"), wrong.to("mps")).cpu()
        assert torch.isnan(got[0, :, 1:3]).all()
        got[0, :, 1:3] = wanted[0, :, 1:3]
        assert_same_bits(got, wanted)
    wrong[0, 1:3] = torch.tensor([2**32, -(2**32)])  # in range if the upper half is not looked at
    assert torch.isnan(gather_points(features.to("mps"), wrong.to("mps"))[0, :, 1:3]).all()
    if dtype == torch.float32 or kernel == "gather_held":
        assert set(launched) == {kernel}


# targets that are met once, some times, and always; as many as a chunk has positions and one more
@pytest.mark.parametrize("kind", ["spread", "padded", "one", "none"])
@pytest.mark.parametrize(
    ("clouds", "channels", "size", "count", "kernel"),
    [
        (2, 3, 5000, 1024, "add_chunks"),  # one row in 32 KiB
        (2, 7, 40, 1025, "add_chunks"),  # two rows and an odd one
        (1, 2, 7000, 2048, "add_far_chunks"),
        (2, 4, 6200, 33, "add_far_chunks"),  # two rows of sums in device memory
        (1, 2, 300, 2100, "add_positions"),
    ],
)
def test_scatter(clouds, channels, size, count, kernel, kind, launched, monkeypatch):
    monkeypatch.setattr(choices, "GATHER_GROUPS", 4)  # rows are shared though they are few
    rng = torch.Generator().manual_seed(count)
    values = torch.randn(clouds, channels, count, generator=rng)
    index = torch.randint(size, (clouds, count), generator=rng)
    if kind == "padded":
        index = index[:, torch.arange(count) // 32 * 32 + (torch.arange(count) % 32).clamp(max=12)]
    elif kind != "spread":
        index[:] = size - 1 if kind == "one" else -1
    missing = torch.rand(clouds, count, generator=rng) < 0.1
    wanted = _sums(torch.where(missing.unsqueeze(1), -0.0, values), index.clamp(min=0), size)
    if kind == "none":
        wanted = torch.zeros_like(wanted)
    index[missing] = size
    for dtype in (torch.int32, torch.int64):
        got = scatter_points(values.to("mps"), index.to("mps", dtype), size)
        assert_same_bits(got, wanted)
    assert kernel in launched


def test_sums_of_one_target_are_the_references():
    values = torch.randn(1, 2, 1500, generator=torch.Generator().manual_seed(0))
    index = torch.arange(1500).unsqueeze(0) % 3
    assert_same_bits(_sums(values, index, 3), scatter_reference(values, index, 3))


@pytest.mark.parametrize(
    ("clouds", "channels", "size", "count"),
    [(2, 3, 100, 700), (2, 5, 33, 40), (1, 3, 8192, 1400), (1, 9, 8200, 300), (1, 2, 5000, 30)],
)
def test_interpolation(clouds, channels, size, count, monkeypatch):
    monkeypatch.setattr(choices, "GATHER_GROUPS", 4)
    rng = torch.Generator().manual_seed(size)
    features = torch.randn(clouds, channels, size, generator=rng)
    index = torch.randint(size, (clouds, count, 3), generator=rng)
    weight = torch.rand(clouds, count, 3, generator=rng)
    moved = [tensor.to("mps") for tensor in (features, index, weight)]
    got = three_interpolate(*moved)
    assert_same_bits(got, three_interpolate_reference(features, index, weight))
    values = torch.randn(clouds, channels, count, generator=rng)
    parts = (values.unsqueeze(3) * weight.unsqueeze(1)).flatten(2)
    got = three_scatter(values.to("mps"), moved[1], moved[2], size)
    assert_same_bits(got, _sums(parts, index.flatten(1), size))


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a GPU cannot be told how to run")
@pytest.mark.parametrize("way", ["fast math", 1, 2])
def test_math_modes_and_orders_of_threads(way, monkeypatch):
    from mps_emulator.shader import options

    if way == "fast math":
        monkeypatch.setattr(options, "fast_math", True)
        for source in (mps.SOURCE, mps.CHUNKS, mps.SUMS, interpolate_mps.SOURCE):
            monkeypatch.setattr(source, "_kernels", {})
    else:
        monkeypatch.setattr(options, "seed", way)
    monkeypatch.setattr(choices, "GATHER_GROUPS", 4)
    rng = torch.Generator().manual_seed(5)
    for clouds, channels, size, count in ((2, 5, 40, 1100), (1, 3, 6200, 2050)):
        values = torch.randn(clouds, channels, count, generator=rng)
        index = torch.randint(size, (clouds, count), generator=rng)
        index[:, 100:140] = index[:, 100:101]
        moved, where = values.to("mps"), index.to("mps")
        sums = scatter_points(moved, where, size)
        wanted = _sums(values, index, size)
        assert_same_bits(sums, wanted)
        assert_same_bits(gather_points(sums, where), gather_reference(wanted, index))
        three, weight = index[:, :1050].unflatten(1, (350, 3)), torch.rand(clouds, 350, 3)
        got = three_interpolate(sums, three.to("mps"), weight.to("mps"))
        picked = gather_reference(wanted, three.flatten(1)).unflatten(2, (350, 3))
        parts, w = picked.unbind(3), weight.unsqueeze(1).unbind(3)
        assert_same_bits(got, fma(parts[2], w[2], fma(parts[0], w[0], parts[1] * w[1])))
