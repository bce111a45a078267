"""Gradients against plain torch and finite differences; the same bits on both devices and runs."""

import pytest
import torch

from mps_pointops.pytorch3d import (
    ball_query,
    knn_gather,
    knn_points,
    masked_gather,
    sample_farthest_points,
)
from pointops_testing import assert_same_bits, cloud

L1, L2 = torch.tensor([6, 4]), torch.tensor([9, 5])


def pair(device, dtype=torch.float32):
    p1 = torch.stack([cloud("random", 6, seed=s) for s in (1, 2)])
    p2 = torch.stack([cloud("random", 9, seed=s) for s in (3, 4)])
    p1[0, 0] = p2[0, 3]  # a difference of zero
    return (t.to(device, dtype).requires_grad_() for t in (p1, p2))


def plain(p1, p2, idx, hit, norm):
    """Distances of the chosen pairs, zero elsewhere, by plain torch."""
    chosen = torch.stack([b[i.clamp(min=0)] for b, i in zip(p2, idx, strict=True)])
    difference = p1[:, :, None] - chosen
    if norm == 2:
        distance = difference.square()
    else:  # the sign of 0 is -1
        distance = torch.where(difference > 0, difference, -difference)
    return torch.where(hit, distance.sum(3), 0.0)


CALLS = {
    "knn": (lambda a, b: knn_points(a, b, K=4), 2),
    "knn of lengths": (lambda a, b: knn_points(a, b, L1.to(a.device), L2.to(a.device), K=7), 2),
    "knn of norm 1": (lambda a, b: knn_points(a, b, K=4, norm=1), 1),
    "knn of lengths and norm 1": (
        lambda a, b: knn_points(a, b, L1.to(a.device), L2.to(a.device), 1, 7),
        1,
    ),
    "ball": (lambda a, b: ball_query(a, b, K=4, radius=1.5), 2),
    "ball of lengths": (
        lambda a, b: ball_query(a, b, L1.to(a.device), L2.to(a.device), K=7, radius=1.5),
        2,
    ),
}


def valid(name, found):
    if name.startswith("ball"):
        return found.idx >= 0
    row, slot = torch.arange(6)[:, None], torch.arange(found.idx.shape[2])
    if "lengths" not in name:
        return torch.ones(found.idx.shape, dtype=torch.bool, device=found.idx.device)
    return ((row < L1[:, None, None]) & (slot < L2[:, None, None])).to(found.idx.device)


@pytest.mark.parametrize("name", CALLS)
def test_distances(device, name):
    call, norm = CALLS[name]
    p1, p2 = pair(device)
    found = call(p1, p2)
    assert not found.idx.requires_grad
    upstream = torch.randn(found.dists.shape, generator=torch.Generator().manual_seed(1))
    upstream = upstream.to(device)
    expected = plain(p1, p2, found.idx, valid(name, found), norm)
    torch.testing.assert_close(found.dists, expected)
    got = torch.autograd.grad(found.dists, (p1, p2), upstream)
    wanted = torch.autograd.grad(expected, (p1, p2), upstream)
    for x, y in zip(got, wanted, strict=True):
        torch.testing.assert_close(x, y)
    for x, y in zip(torch.autograd.grad(call(p1, p2).dists, (p1, p2), upstream), got, strict=True):
        assert_same_bits(x, y)


@pytest.mark.parametrize("name", CALLS)
def test_both_devices_have_the_same_bits(name):
    grads = []
    for device in ("cpu", "mps"):
        p1, p2 = pair(device)
        dists = CALLS[name][0](p1, p2).dists
        grads.append(torch.autograd.grad((dists * dists.detach().cos()).sum(), (p1, p2)))
    for x, y in zip(*grads, strict=True):
        torch.testing.assert_close(x, y.cpu(), rtol=1e-6, atol=1e-6)  # the cosine may differ
    grads = []
    for device in ("cpu", "mps"):
        p1, p2 = pair(device)
        dists = CALLS[name][0](p1, p2).dists
        grads.append(torch.autograd.grad(dists.sum(), (p1, p2)))
    for x, y in zip(*grads, strict=True):
        assert_same_bits(x, y)


@pytest.mark.parametrize("name", [name for name in CALLS if "norm 1" not in name])
def test_any_order_by_finite_differences(name):
    p1, p2 = pair("cpu", torch.float64)

    def distances(a, b):
        return CALLS[name][0](a, b).dists

    assert torch.autograd.gradcheck(distances, (p1, p2), fast_mode=True)
    assert torch.autograd.gradgradcheck(distances, (p1, p2), fast_mode=True)


def test_sign_of_zero_is_minus_one(device):
    p1 = torch.tensor([[[1.0, 2.0, 3.0]]], device=device, requires_grad=True)
    p2 = torch.tensor([[[1.0, 1.0, 4.0]]], device=device, requires_grad=True)
    dists = knn_points(p1, p2, norm=1).dists
    grads = torch.autograd.grad(dists.sum(), (p1, p2))
    assert [g.flatten().tolist() for g in grads] == [[-1.0, 1.0, -1.0], [1.0, -1.0, 1.0]]


@pytest.mark.parametrize("needs", [(True, False), (False, True)])
@pytest.mark.parametrize("name", CALLS)
def test_one_side_only(device, name, needs):
    p1, p2 = pair(device)
    both = torch.autograd.grad(CALLS[name][0](p1, p2).dists.sum(), (p1, p2))
    p1, p2 = p1.detach().requires_grad_(needs[0]), p2.detach().requires_grad_(needs[1])
    (got,) = torch.autograd.grad(CALLS[name][0](p1, p2).dists.sum(), p1 if needs[0] else p2)
    assert_same_bits(got, both[0] if needs[0] else both[1])


def test_points_that_are_not_finite_give_no_gradient(device):
    p1, p2 = (t.detach().clone() for t in pair(device))
    p2[0, :7] = torch.nan  # two are left, so slots stay open
    p1[1, 2] = torch.inf
    p1.requires_grad_()
    p2.requires_grad_()
    for norm in (1, 2):
        found = knn_points(p1, p2, K=4, norm=norm)
        assert bool((found.dists == torch.inf).any())
        grads = torch.autograd.grad(found.dists.sum(), (p1, p2))
        assert all(bool(torch.isfinite(g).all()) for g in grads)
        assert bool((grads[1][0, :7] == 0).all())
        assert bool((grads[0][1, 2] == 0).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_have_the_dtype_of_the_points(device, dtype):
    p1, p2 = pair(device, dtype)
    found = knn_points(p1, p2, K=3, return_nn=True)
    assert found.dists.dtype == torch.float32
    grads = torch.autograd.grad(found.dists.sum() + found.knn.sum(), (p1, p2))
    assert all(g.dtype == dtype for g in grads)


@pytest.mark.parametrize("name", ["knn", "ball"])
def test_points_of_the_result_lead_to_p2_only(device, name):
    p1, p2 = pair(device)
    found = (
        knn_points(p1, p2, K=3, return_nn=True)
        if name == "knn"
        else ball_query(p1, p2, K=3, radius=1.5)
    )
    grad1, grad2 = torch.autograd.grad(found.knn.sum(), (p1, p2), allow_unused=True)
    assert grad1 is None
    count = torch.zeros(2, 9)
    for n in range(2):
        for j in found.idx[n].flatten().tolist():
            count[n, j] += j >= 0
    assert_same_bits(grad2, count[:, :, None].expand(2, 9, 3).contiguous())


@pytest.mark.parametrize("name", CALLS)
def test_distances_may_be_written_to(device, name):
    call, _ = CALLS[name]
    p1, p2 = pair(device)
    wanted = torch.autograd.grad((2 * call(p1, p2).dists).sum(), (p1, p2))
    dists = call(p1, p2).dists
    dists *= 2
    for got, other in zip(torch.autograd.grad(dists.sum(), (p1, p2)), wanted, strict=True):
        assert_same_bits(got, other)


def test_gathers_and_sample(device):
    x = torch.randn(2, 9, 3, device=device, requires_grad=True)
    idx = torch.tensor([[[0, 0, 8]], [[1, 2, 2]]], device=device)
    lengths = torch.tensor([9, 2], device=device)
    (grad,) = torch.autograd.grad(knn_gather(x, idx, lengths).sum(), x)
    wanted = torch.zeros(2, 9, 3)
    wanted[0, 0], wanted[0, 8], wanted[1, 1], wanted[1, 2] = 2, 1, 1, 1
    assert_same_bits(grad, wanted)
    (grad,) = torch.autograd.grad(masked_gather(x, idx - 1).sum(), x)
    wanted = torch.zeros(2, 9, 3)
    wanted[0, 7], wanted[1, 0], wanted[1, 1] = 1, 1, 2
    assert_same_bits(grad, wanted)
    picked, chosen = sample_farthest_points(x, torch.tensor([9, 2]), K=4)
    assert not chosen.requires_grad
    (grad,) = torch.autograd.grad(picked.sum(), x)
    assert float(grad.sum()) == (4 + 2) * 3
    assert float(grad.max()) == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own use of it
@pytest.mark.parametrize("name", ["knn_points", "ball_query", "knn_gather", "masked_gather"])
def test_forward_mode_is_refused(device, name):
    points = torch.rand(1, 4, 3, device=device)
    idx = torch.zeros(1, 2, 3, dtype=torch.int64, device=device)
    calls = {
        "knn_points": lambda p: knn_points(p, points, K=2).dists,
        "ball_query": lambda p: ball_query(p, points, K=2).dists,
        "knn_gather": lambda p: knn_gather(p, idx),
        "masked_gather": lambda p: masked_gather(p, idx),
    }
    with pytest.raises(NotImplementedError):
        torch.func.jvp(calls[name], (points,), (points,))


def test_gathers_by_finite_differences():
    x = torch.randn(2, 9, 3, dtype=torch.float64, requires_grad=True)
    idx = torch.tensor([[[0, 0, 8]], [[1, 2, 2]]])
    assert torch.autograd.gradcheck(lambda t: knn_gather(t, idx), x)
    assert torch.autograd.gradcheck(lambda t: masked_gather(t, idx - 1), x)
