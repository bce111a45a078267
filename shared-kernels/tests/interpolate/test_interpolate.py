"""Interpolation and its adjoint on both devices: bits, gradients, errors."""

import pytest
import torch

from mps_pointops import three_interpolate, three_scatter
from mps_pointops.ops.gather.reference import scatter_reference
from mps_pointops.ops.interpolate.reference import three_interpolate_reference
from pointops_testing import assert_same_bits, oracles

SHAPES = ((1, 1, 1, 1), (2, 3, 31, 33), (1, 4, 255, 1025), (3, 2, 3, 70))


def _data(clouds, channels, known, unknown, dtype=torch.float32):
    rng = torch.Generator().manual_seed(known * unknown)
    features = torch.randn(clouds, channels, known, generator=rng).to(dtype)
    index = torch.randint(known, (clouds, unknown, 3), generator=rng)
    weight = torch.rand(clouds, unknown, 3, generator=rng)
    return features, index, weight / weight.sum(dim=2, keepdim=True)


def test_reference_is_fused_as_written():
    features, index, weight = _data(1, 2, 20, 15)
    got = three_interpolate_reference(features, index, weight)
    exact = lambda x: oracles.Fraction(float(x))  # noqa: E731
    for c in range(2):
        for n in range(15):
            p, w = features[0, c, index[0, n]], weight[0, n]
            second = oracles.round32(exact(p[1]) * exact(w[1]))
            both = oracles.round32(exact(p[0]) * exact(w[0]) + exact(second))
            wanted = oracles.round32(exact(p[2]) * exact(w[2]) + exact(both))
            assert got[0, c, n].item() == wanted


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", SHAPES)
def test_interpolate(device, shape, index_dtype):
    features, index, weight = _data(*shape)
    moved = features.to(device), index.to(device, index_dtype), weight.to(device)
    assert_same_bits(
        three_interpolate(*moved), three_interpolate_reference(features, index, weight)
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_scatter(device, shape):
    clouds, channels, known, unknown = shape
    _, index, weight = _data(*shape)
    values = torch.randn(clouds, channels, unknown, generator=torch.Generator().manual_seed(1))
    got = three_scatter(values.to(device), index.to(device), weight.to(device), known)
    wanted = scatter_reference(values, index.flatten(1), known, weight.flatten(1))
    assert_same_bits(got, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(device, dtype):
    features, index, weight = _data(2, 3, 31, 33, dtype)
    got = three_interpolate(features.to(device), index.to(device), weight.to(device))
    wanted = three_interpolate_reference(features.float(), index, weight).to(dtype)
    assert_same_bits(got, wanted)


def test_gradients(device):
    features, index, weight = _data(2, 3, 12, 40)
    grad = torch.randn(2, 3, 40, generator=torch.Generator().manual_seed(2))
    leaves = [t.to(device).detach().requires_grad_() for t in (features, weight)]
    three_interpolate(leaves[0], index.to(device), leaves[1]).backward(grad.to(device))
    wanted = scatter_reference(grad, index.flatten(1), 12, weight.flatten(1))
    assert_same_bits(leaves[0].grad, wanted)
    picked = torch.stack(
        [f[:, i.flatten()].view(3, 40, 3) for f, i in zip(features, index, strict=True)]
    )
    torch.testing.assert_close(leaves[1].grad.cpu(), (picked * grad.unsqueeze(3)).sum(1))


def test_gradcheck_in_float64():
    features, index, weight = _data(1, 2, 6, 5)
    inputs = (features.double().requires_grad_(), weight.double().requires_grad_())
    interpolate = lambda f, w: three_interpolate(f, index, w)  # noqa: E731
    assert torch.autograd.gradcheck(interpolate, inputs)
    assert torch.autograd.gradgradcheck(interpolate, inputs)
    values = torch.rand(1, 2, 5, dtype=torch.float64, requires_grad=True)
    scatter = lambda v, w: three_scatter(v, index, w, 6)  # noqa: E731
    assert torch.autograd.gradcheck(scatter, (values, inputs[1]))
    assert torch.autograd.gradgradcheck(scatter, (values, inputs[1]))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own use of it
def test_forward_mode_is_refused(device):
    values, weight = torch.rand(1, 2, 5, device=device), torch.rand(1, 5, 3, device=device)
    index = torch.zeros(1, 5, 3, dtype=torch.int64, device=device)
    for call, name in (
        (lambda v, w: three_interpolate(v, index, w), "three_interpolate"),
        (lambda v, w: three_scatter(v, index, w, 4), "three_scatter"),
    ):
        for only in (0, 1):
            primals = [values, weight]
            given = [primals[only]]

            def one(x, call=call, only=only, primals=primals):
                return call(*(x if side == only else primals[side] for side in (0, 1)))

            with pytest.raises(NotImplementedError, match=f"{name}: there is no forward-mode"):
                torch.func.jvp(one, tuple(given), tuple(given))


def test_index_out_of_range(device, monkeypatch):
    features, index, weight = _data(1, 2, 6, 4)
    index[0, 1, 2] = 6
    moved = features.to(device), index.to(device), weight.to(device)
    if device == "mps":
        got = three_interpolate(*moved)
        assert torch.isnan(got).sum() == 2
        assert torch.isnan(got[:, :, 1]).all()
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    with pytest.raises(IndexError, match="index must be from 0 to 5, got 6"):
        three_interpolate(*moved)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"index": torch.zeros(1, 4, 2).long()}, ValueError, r"index must be of shape \(B, n, 3\)"),
        ({"index": torch.zeros(1, 4, 3)}, TypeError, "index must be int32 or int64"),
        ({"weight": torch.zeros(1, 4, 2)}, ValueError, r"weight must be of shape \[1, 4, 3\]"),
        ({"weight": torch.zeros(1, 4, 3).int()}, TypeError, "weight must be a float tensor"),
        ({"features": torch.zeros(1, 4)}, ValueError, "features must be a tensor of 3 axes"),
    ],
)
def test_bad_arguments(device, change, error, text):
    features, index, weight = _data(1, 2, 6, 4)
    arguments = {"features": features, "index": index, "weight": weight, **change}
    with pytest.raises(error, match=text):
        three_interpolate(**{name: value.to(device) for name, value in arguments.items()})


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_torch(device):
    features, index, weight = (t.to(device) for t in _data(2, 3, 9, 20))
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    ops = torch.ops.mps_pointops
    leaves = features.requires_grad_(), index, weight.requires_grad_()
    torch.library.opcheck(ops.interpolate.default, leaves, test_utils=checks)
    values = torch.rand(2, 3, 20, device=device, requires_grad=True)
    arguments = (values, index.flatten(1), weight.detach().flatten(1), 9)
    torch.library.opcheck(ops.scatter.default, arguments, test_utils=checks)
