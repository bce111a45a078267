"""Gather, group, three_nn and three_interpolate: values, gradients, padding."""

import numpy as np
import pytest
import torch

from pointnet2_ops import _ext, options
from pointnet2_ops import pointnet2_utils as pu
from pointops_testing import CLOUDS, assert_same_bits, cloud, oracles


def _float64_sums(grad, index, size, weight=None):
    """Sums of gradients (B, C, M) at targets (B, M), in float64."""
    parts = grad.detach().cpu().double()
    if weight is not None:
        parts = parts.unsqueeze(3) * weight.detach().cpu().double().unsqueeze(1)
    where = index.cpu().long().unsqueeze(1).expand(parts.shape)
    sums = torch.zeros(*parts.shape[:2], size, dtype=torch.float64)
    return sums.scatter_add(2, where.flatten(2), parts.flatten(2))


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_gather(device, random, integers, index_dtype):
    features, idx = random(2, 5, 40).requires_grad_(), integers(40, 2, 70, dtype=index_dtype)
    out = pu.gather_operation(features, idx)
    assert_same_bits(out, features.gather(2, idx.long().unsqueeze(1).expand(2, 5, 70)))
    grad = random(2, 5, 70, seed=1)
    out.backward(grad)
    wanted = _float64_sums(grad, idx, 40).float()
    torch.testing.assert_close(features.grad.cpu(), wanted, rtol=1e-6, atol=1e-6)  # float32 sums
    assert_same_bits(_ext.gather_points(features, idx), out)
    assert_same_bits(_ext.gather_points_grad(grad, idx, 40), features.grad)


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
def test_group(device, random, integers, index_dtype):
    features, idx = random(2, 5, 40).requires_grad_(), integers(40, 2, 9, 8, dtype=index_dtype)
    out = pu.grouping_operation(features, idx)
    flat = idx.flatten(1).long().unsqueeze(1).expand(2, 5, 72)
    assert_same_bits(out, features.gather(2, flat).view(2, 5, 9, 8))
    grad = random(2, 9, 5, 8, seed=1).transpose(1, 2)  # strided
    out.backward(grad)
    wanted = _float64_sums(grad, idx, 40).float()
    torch.testing.assert_close(features.grad.cpu(), wanted, rtol=1e-6, atol=1e-6)  # float32 sums
    assert_same_bits(_ext.group_points(features, idx), out)
    assert_same_bits(_ext.group_points_grad(grad.contiguous(), idx, 40), features.grad)


@pytest.mark.parametrize("name", CLOUDS)
def test_three_nn(device, name):
    unknown, known = cloud(name, 12, seed=1), cloud(name, 50)
    unknown[:4] = known[:4]
    distance, idx = pu.three_nn(unknown[None].to(device), known[None].to(device))
    squares, wanted = oracles.knn(unknown.numpy(), known.numpy(), 3, "fma_yxz")
    squares = np.array(squares, dtype=np.float32)
    assert_same_bits(idx[0], torch.tensor(wanted, dtype=torch.int32).clamp(min=0))
    assert_same_bits(distance[0], torch.from_numpy(np.sqrt(squares)))
    squared, idx = _ext.three_nn(unknown[None].to(device), known[None].to(device))
    assert_same_bits(idx[0], torch.tensor(wanted, dtype=torch.int32).clamp(min=0))
    assert_same_bits(squared[0], torch.from_numpy(squares))


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_three_nn_of_few(device, size):
    known = torch.tensor([[[1.0, 0, 0], [3, 0, 0], [2, 0, 0]]], device=device)[:, :size]
    unknown = torch.zeros(1, 2, 3, device=device)
    wanted = [[], [0], [0, 1], [0, 2, 1]][size]
    for result in (pu.three_nn(unknown, known), _ext.three_nn(unknown, known)):
        distance, idx = result
        assert idx.dtype == torch.int32
        assert idx[0, 1].tolist() == wanted + [0] * (3 - size)
        assert distance[0, 1, size:].tolist() == [np.inf] * (3 - size)
        assert bool(torch.isfinite(distance[0, 1, :size]).all())


def test_three_interpolate(device, random, integers):
    features, weight = random(2, 4, 9).requires_grad_(), random(2, 30, 3, seed=1)
    idx = integers(9, 2, 30, 3)
    out = pu.three_interpolate(features, idx, weight)
    picked = (
        features.detach()
        .cpu()
        .double()[
            torch.arange(2).view(2, 1, 1, 1), torch.arange(4).view(1, 4, 1, 1), idx.cpu()[:, None]
        ]
    )
    exact = (picked * weight.cpu().double()[:, None]).sum(3)
    torch.testing.assert_close(out.detach().cpu().double(), exact, rtol=1e-5, atol=1e-6)  # float32
    grad = random(2, 4, 30, seed=2)
    out.backward(grad)
    wanted = _float64_sums(grad, idx, 9, weight).float()
    torch.testing.assert_close(features.grad.cpu(), wanted, rtol=1e-5, atol=1e-5)  # float32 sums
    assert_same_bits(_ext.three_interpolate(features, idx, weight), out)
    assert_same_bits(_ext.three_interpolate_grad(grad, idx, weight, 9), features.grad)


def test_three_interpolate_of_equal_places(device):
    """fma(p3, w3, fma(p1, w1, p2 * w2)): the order shows in the last bit."""
    features = torch.tensor([[[1.0, 2.0**-12 + 1.0, -1.0]]], device=device)
    idx = torch.tensor([[[0, 1, 2]]], dtype=torch.int32, device=device)
    weight = torch.tensor([[[2.0**-30, 2.0**-12 + 1.0, 1.0]]], device=device)
    product = np.float32((2.0**-12 + 1.0) ** 2)
    assert float(product) != (2.0**-12 + 1.0) ** 2  # rounded before it is added
    wanted = np.float32(np.float32(float(product) + 2.0**-30) - 1.0)
    assert pu.three_interpolate(features, idx, weight).item() == wanted


def test_weight_gradient_is_zero_unless_asked_for(device, random, integers, monkeypatch):
    features, idx = random(2, 4, 9).requires_grad_(), integers(9, 2, 30, 3)
    weight = random(2, 30, 3, seed=1).requires_grad_()
    pu.three_interpolate(features, idx, weight).square().sum().backward()
    assert_same_bits(weight.grad, torch.zeros(2, 30, 3))
    zero_mode = features.grad.clone()
    monkeypatch.setattr(options, "weight_gradient", True)
    features.grad = weight.grad = None
    pu.three_interpolate(features, idx, weight).square().sum().backward()
    assert_same_bits(features.grad, zero_mode)
    rows = features.detach().cpu().double().requires_grad_()
    w = weight.detach().cpu().double().requires_grad_()
    where = idx.cpu().long().unsqueeze(1).expand(2, 4, 30, 3).flatten(2)
    out = (rows.gather(2, where).view(2, 4, 30, 3) * w.unsqueeze(1)).sum(3)
    (wanted,) = torch.autograd.grad(out.square().sum(), w)
    torch.testing.assert_close(weight.grad.cpu().double(), wanted, rtol=1e-4, atol=1e-4)  # float32


def test_slopes_of_features_hold_weights_constant(device, random, integers, monkeypatch):
    """Weights have no gradient of second order either, unless it is asked for."""
    features, idx = random(1, 4, 9).requires_grad_(), integers(9, 1, 30, 3)
    weight = random(1, 30, 3, seed=1).requires_grad_()

    def second():
        out = pu.three_interpolate(features, idx, weight).square().sum()
        (slope,) = torch.autograd.grad(out, features, create_graph=True)
        (grad,) = torch.autograd.grad(slope.sum(), weight, allow_unused=True)
        return 0 if grad is None else int(grad.count_nonzero())

    assert second() == 0
    monkeypatch.setattr(options, "weight_gradient", True)
    assert second() > 0


@pytest.mark.parametrize("true_weight", [False, True])
def test_gradcheck(monkeypatch, true_weight):
    """float64 lives on the CPU only."""
    monkeypatch.setattr(options, "weight_gradient", true_weight)
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(2, 3, 6, generator=rng, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2, 4, 3, generator=rng, dtype=torch.float64, requires_grad=true_weight)
    three = torch.randint(6, (2, 4, 3), generator=rng)
    calls = [
        (pu.gather_operation, (features, three[:, :, 0].contiguous())),
        (pu.grouping_operation, (features, three)),
        (pu.three_interpolate, (features, three, weight)),
    ]
    for function, arguments in calls:
        assert function(*arguments).dtype == torch.float64
        assert torch.autograd.gradcheck(function, arguments)
        assert torch.autograd.gradgradcheck(function, arguments)


def test_sums_are_the_same_every_time_and_everywhere(random, integers, device):
    """Everything on few targets: the case where atomics differ from run to run."""
    features, idx = random(1, 3, 4).requires_grad_(), integers(4, 1, 500, 16)
    weight, three = random(1, 900, 3, seed=1), integers(3, 1, 900, 3)
    grad, grad3 = random(1, 3, 500, 16, seed=2), random(1, 3, 900, seed=3)

    def sums(d):
        f = features.detach().to(d).requires_grad_()
        group = pu.grouping_operation(f, idx.to(d))
        three_out = pu.three_interpolate(f, three.to(d), weight.to(d))
        return [
            *torch.autograd.grad(group, f, grad.to(d)),
            *torch.autograd.grad(three_out, f, grad3.to(d)),
        ]

    for again in (device, device, "cpu"):
        for got, wanted in zip(sums(again), sums(device), strict=True):
            assert_same_bits(got, wanted)


def test_what_has_no_gradient(device, random):
    xyz = (random(1, 30, 3) + 3).requires_grad_()
    outs = [
        pu.furthest_point_sample(xyz, 5),
        pu.ball_query(1.0, 4, xyz, xyz),
        *pu.three_nn(xyz, xyz),
        _ext.furthest_point_sampling(xyz, 5),
        _ext.ball_query(xyz, xyz, 1.0, 4),
        *_ext.three_nn(xyz, xyz),
        _ext.gather_points(xyz, torch.zeros(1, 2, dtype=torch.int32, device=device)),
    ]
    assert not any(out.requires_grad for out in outs)


def test_coordinates_have_a_gradient_through_gather_and_group(device, random):
    xyz = (random(1, 30, 3) + 3).requires_grad_()
    columns = xyz.transpose(1, 2).contiguous()
    idx = pu.furthest_point_sample(xyz, 5)
    centres = pu.gather_operation(columns, idx)
    groups = pu.grouping_operation(columns, pu.ball_query(1.0, 4, xyz, xyz))
    (grad,) = torch.autograd.grad(centres.sum() + groups.sum(), xyz)
    assert grad.sum().item() == 3 * (5 + 30 * 4)


def test_results_may_be_written_to(device, random):
    """`grouped -= centres` is how code for the original centres its groups."""
    xyz, features = random(1, 30, 3).requires_grad_(), random(1, 4, 30).requires_grad_()
    columns = xyz.transpose(1, 2).contiguous()
    index = pu.ball_query(1.0, 4, xyz, xyz + 0)
    grouped = pu.grouping_operation(columns, index)
    centred = grouped - columns.unsqueeze(3)
    grouped -= columns.unsqueeze(3)
    assert_same_bits(grouped, centred)
    (wanted,) = torch.autograd.grad(centred.pow(3).sum(), xyz, retain_graph=True)
    (got,) = torch.autograd.grad(grouped.pow(3).sum(), xyz)
    assert_same_bits(got, wanted)

    distance, near = pu.three_nn(xyz, xyz + 1)
    for out in (
        pu.gather_operation(features, index[:, :, 0].contiguous()),
        pu.three_interpolate(features, near, distance),
        pu.QueryAndGroup(1.0, 4, use_xyz=False)(xyz, xyz + 0, features),
        pu.QueryAndGroup(1.0, 4)(xyz, xyz + 0),
    ):
        out *= 2.0
        out.sum().backward()
    for out in (distance, near, index, pu.furthest_point_sample(xyz, 3)):
        out += 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_dtype(device, random, integers, dtype):
    features, weight = random(1, 4, 20).to(dtype).requires_grad_(), random(1, 12, 3, seed=1)
    idx = integers(20, 1, 12, 3)
    with torch.autocast(device, dtype=dtype):
        group = pu.grouping_operation(features, idx)
        out = pu.three_interpolate(features, idx, weight)
        distance, _ = pu.three_nn(weight.to(dtype), weight.to(dtype))
    assert distance.dtype == torch.float32
    wide = features.detach().float()
    assert_same_bits(group, pu.grouping_operation(wide, idx).to(dtype))
    assert_same_bits(out, pu.three_interpolate(wide, idx, weight).to(dtype))
    (group.sum() + out.sum()).backward()
    assert features.grad.dtype == dtype


@pytest.mark.parametrize("bad", [10, -1, 2**31 - 1])
def test_index_out_of_range(device, random, bad, monkeypatch):
    features = random(1, 2, 10).requires_grad_()
    idx = torch.tensor([[0, bad]], dtype=torch.int32, device=device)
    three = torch.tensor([[[0, 1, bad]]], dtype=torch.int32, device=device)
    weight = torch.ones(1, 1, 3, device=device)
    calls = [
        lambda: pu.gather_operation(features, idx),
        lambda: pu.grouping_operation(features, idx.unsqueeze(1)),
        lambda: pu.three_interpolate(features, three, weight),
    ]
    if device == "mps":  # nothing is read back: NaN there, and nothing foreign is touched
        for call in calls:
            out = call().flatten(2)
            assert bool(torch.isnan(out[:, :, -1]).all())
            (grad,) = torch.autograd.grad(out, features, torch.ones_like(out))
            assert grad[:, :, 2:].count_nonzero() == 0
        monkeypatch.setenv("MPS_POINTOPS_CHECK_INDICES", "1")
    for call in calls:
        with pytest.raises(IndexError, match=f"must be from 0 to 9, got {bad}"):
            call()


def test_empty(device, random, integers):
    features = random(2, 3, 5)
    none = integers(5, 2, 0)
    assert pu.gather_operation(features, none).shape == (2, 3, 0)
    assert pu.grouping_operation(features, none.view(2, 0, 4)).shape == (2, 3, 0, 4)
    assert pu.three_interpolate(features, none.view(2, 0, 3), random(2, 0, 3)).shape == (2, 3, 0)
    assert pu.gather_operation(features[:0], none[:0]).shape == (0, 3, 0)
    assert (
        _ext.gather_points_grad(features[:, :, :0].contiguous(), none, 4).tolist()
        == [[[0.0] * 4] * 3] * 2
    )
