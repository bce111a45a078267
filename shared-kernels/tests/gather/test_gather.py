"""Gather, group and scatter on both devices: bits, gradients, errors."""

import pytest
import torch

from mps_pointops import gather_points, group_points, scatter_points
from mps_pointops.ops.gather.reference import gather_reference, scatter_reference
from pointops_testing import assert_same_bits

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = ((1, 1, 1, 1), (2, 3, 31, 33), (1, 5, 255, 1025), (3, 2, 32, 7), (2, 4, 9, 600))


def _data(clouds, channels, size, count, dtype=torch.float32):
    rng = torch.Generator().manual_seed(size * count)
    features = torch.randn(clouds, channels, size, generator=rng).to(dtype)
    return features, torch.randint(size, (clouds, count), generator=rng)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_gather(device, shape, index_dtype, dtype):
    features, index = _data(*shape, dtype)
    got = gather_points(features.to(device), index.to(device, index_dtype))
    assert_same_bits(got, gather_reference(features, index))


@pytest.mark.parametrize("shape", SHAPES)
def test_scatter(device, shape):
    clouds, channels, size, count = shape
    _, index = _data(*shape)
    values = torch.randn(clouds, channels, count, generator=torch.Generator().manual_seed(1))
    got = scatter_points(values.to(device), index.to(device), size)
    assert_same_bits(got, scatter_reference(values, index, size))


def test_all_at_one_target(device):
    values = torch.randn(1, 2, 5000, generator=torch.Generator().manual_seed(1))
    index = torch.full((1, 5000), 3)
    got = scatter_points(values.to(device), index.to(device), 5)
    assert_same_bits(got, scatter_reference(values, index, 5))


def test_bits_are_copied(device):
    features = torch.tensor([[[float("nan"), -0.0, torch.inf, 2.0**-140]]])
    index = torch.tensor([[3, 2, 1, 0, 0]])
    got = gather_points(features.to(device), index.to(device))
    assert_same_bits(got, gather_reference(features, index))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_sums_are_rounded_once(device, dtype):
    values = torch.full((1, 1, 3000), 0.1, dtype=dtype)
    index = torch.zeros(1, 3000, dtype=torch.int64)
    got = scatter_points(values.to(device), index.to(device), 1)
    assert_same_bits(got, scatter_reference(values.float(), index, 1).to(dtype))


def test_float64_on_the_cpu():
    features, index = _data(2, 3, 9, 20, torch.float64)
    assert gather_points(features, index).dtype == torch.float64
    sums = scatter_points(gather_points(features, index), index, 9)
    wanted = torch.zeros_like(features)
    wanted.scatter_add_(2, index.unsqueeze(1).expand(2, 3, 20), gather_points(features, index))
    torch.testing.assert_close(sums, wanted)


def test_group_is_gather_of_the_flat_index(device):
    features, index = _data(2, 3, 40, 60)
    grouped = index.view(2, 12, 5).to(device)
    got = group_points(features.to(device), grouped)
    assert_same_bits(got, gather_reference(features, index).view(2, 3, 12, 5))
    sums = scatter_points(got, grouped, 40)
    assert_same_bits(sums, scatter_reference(gather_reference(features, index), index, 40))


def test_views(device):
    features, index = _data(2, 4, 30, 20)
    moved = features.to(device).transpose(1, 2).contiguous().transpose(1, 2)[:, 1:3]
    picked = index.to(device).repeat(1, 2)[:, ::2]
    got = gather_points(moved, picked)
    wanted = gather_reference(features[:, 1:3], index.repeat(1, 2)[:, ::2])
    assert_same_bits(got, wanted)


def test_gradients_are_the_adjoint_and_repeat(device):
    features, index = _data(2, 3, 12, 90)
    grad = torch.randn(2, 3, 90, generator=torch.Generator().manual_seed(2))
    wanted = scatter_reference(grad, index, 12)
    for _ in range(3):
        leaf = features.to(device).detach().requires_grad_()
        gather_points(leaf, index.to(device)).backward(grad.to(device))
        assert_same_bits(leaf.grad, wanted)
    leaf = grad.to(device).detach().requires_grad_()
    scatter_points(leaf, index.to(device), 12).backward(features.to(device))
    assert_same_bits(leaf.grad, gather_reference(features, index))


def test_second_order(device):
    features, index = _data(1, 2, 6, 10)
    leaf = features.to(device).detach().requires_grad_()
    out = gather_points(leaf, index.to(device))
    (first,) = torch.autograd.grad(out.pow(3).sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), leaf)
    counts = torch.bincount(index[0], minlength=6)
    torch.testing.assert_close(second.cpu(), 6 * features * counts)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own use of it
def test_forward_mode_is_refused(device):
    """A derivative of zero, without a word, would be torch's own answer."""
    values, index = torch.rand(1, 2, 5, device=device), torch.zeros(1, 5, dtype=torch.int64)
    index = index.to(device)
    calls = {
        "gather_points": lambda v: gather_points(v, index),
        "group_points": lambda v: group_points(v, index.unsqueeze(2)),
        "scatter_points": lambda v: scatter_points(v, index, 3),
    }
    for name, call in calls.items():
        with pytest.raises(NotImplementedError, match=f"{name}: there is no forward-mode"):
            torch.func.jvp(call, (values,), (values,))
        with pytest.raises(NotImplementedError, match=f"{name}: there is no forward-mode"):
            torch.func.jacfwd(call)(values)


def test_index_out_of_range(device, monkeypatch):
    features, _ = _data(1, 2, 6, 10)
    moved = features.to(device)
    for bad in (6, -1, 2**31 - 1):
        index = torch.tensor([[0, bad, 5]], device=device)
        values = torch.ones(1, 2, 3, device=device)
        if device == "mps":
            got = gather_points(moved, index)
            assert torch.isnan(got[:, :, 1]).all()
            assert_same_bits(got[:, :, ::2], features[:, :, [0, 5]])
            assert scatter_points(values, index, 6).sum() == 4
            monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
        with pytest.raises(IndexError, match=f"index must be from 0 to 5, got {bad}"):
            gather_points(moved, index)
        with pytest.raises(IndexError, match=f"index must be from 0 to 5, got {bad}"):
            scatter_points(values, index, 6)
        monkeypatch.delenv("MPS_POINTOPS_CHECK_INDICES", raising=False)


def test_empty(device):
    index = torch.empty(2, 0, dtype=torch.int64, device=device)
    assert gather_points(torch.rand(2, 3, 5, device=device), index).shape == (2, 3, 0)
    sums = scatter_points(torch.rand(2, 3, 0, device=device), index, 5)
    assert sums.shape == (2, 3, 5)
    assert (sums == 0).all()
    none = torch.empty(0, 4, dtype=torch.int64, device=device)
    assert gather_points(torch.rand(0, 3, 5, device=device), none).shape == (0, 3, 4)
    assert scatter_points(torch.rand(0, 3, 4, device=device), none, 5).shape == (0, 3, 5)


@pytest.mark.parametrize(
    ("features", "index", "error", "text"),
    [
        (torch.rand(2, 3), torch.zeros(2, 4).long(), ValueError, "features must be a tensor of 3"),
        (
            torch.zeros(2, 3, 5).int(),
            torch.zeros(2, 4).long(),
            TypeError,
            "features must be a float",
        ),
        ([1.0], torch.zeros(2, 4).long(), TypeError, "features must be a torch.Tensor, got list"),
        (torch.rand(2, 3, 5), torch.zeros(2, 4), TypeError, "index must be int32 or int64"),
        (
            torch.rand(2, 3, 5),
            torch.zeros(2, 4, 1).long(),
            ValueError,
            "index must be a tensor of 2",
        ),
        (torch.rand(2, 3, 5), torch.zeros(3, 4).long(), ValueError, "batch size of features"),
    ],
)
def test_bad_arguments(device, features, index, error, text):
    if isinstance(features, torch.Tensor):
        features = features.to(device)
    with pytest.raises(error, match=text):
        gather_points(features, index.to(device))


def test_more_bad_arguments(device):
    values, index = torch.rand(2, 3, 5, device=device), torch.zeros(2, 4, device=device).long()
    with pytest.raises(ValueError, match=r"index must be of shape \[2, 5\], as values"):
        scatter_points(values, index, 7)
    with pytest.raises(ValueError, match="size must be at least 0"):
        scatter_points(values, index, -1)
    other = "cpu" if device == "mps" else "mps"
    with pytest.raises(ValueError, match="index must be on the device of features"):
        gather_points(values, index.to(other))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_torch(device):
    features, index = (t.to(device) for t in _data(2, 3, 9, 20))
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    ops = torch.ops.mps_pointops
    leaf = features.requires_grad_()
    torch.library.opcheck(ops.gather.default, (leaf, index), test_utils=checks)
    values = torch.rand(2, 3, 20, device=device, requires_grad=True)
    torch.library.opcheck(ops.scatter.default, (values, index, None, 9), test_utils=checks)

    def loss(f, i):
        return group_points(f, i.view(2, 5, 4)).square().sum()

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    (got,) = torch.autograd.grad(compiled(leaf, index), leaf)
    (wanted,) = torch.autograd.grad(loss(leaf, index), leaf)
    assert_same_bits(got, wanted.cpu())
