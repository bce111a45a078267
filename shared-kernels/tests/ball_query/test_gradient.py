"""Gradients of the squared distances, on both devices."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from mps_pointops import ball_query
from pointops_testing import assert_same_bits, cloud


def _by_hand(query, ref, index):
    """The chosen distances as plain torch, in float64 on the CPU."""
    query = query.detach().cpu().double().requires_grad_()
    ref = ref.detach().cpu().double().requires_grad_()
    hit = index.cpu() >= 0
    cloud_number = torch.arange(ref.shape[0])[:, None, None]
    chosen = ref[cloud_number, index.cpu().clamp(min=0)]
    d2 = torch.where(hit, (query.unsqueeze(2) - chosen).square().sum(-1), 0.0)
    return query, ref, d2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_against_plain_torch(device, dtype):
    query = cloud("random", 60, seed=1).view(3, 20, 3).to(device, dtype).requires_grad_()
    ref = cloud("random", 90).view(3, 30, 3).to(device, dtype).requires_grad_()
    d2, index = ball_query(query, ref, 1.0, 8)
    assert not index.requires_grad
    assert (index == -1).any()
    weight = torch.arange(d2.numel(), dtype=torch.float32).view(d2.shape)
    (d2 * weight.to(device)).sum().backward()
    query64, ref64, d264 = _by_hand(query, ref, index)
    (d264 * weight.double()).sum().backward()
    assert query.grad.dtype == ref.grad.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    for got, wanted in ((query.grad, query64.grad), (ref.grad, ref64.grad)):
        error = (got.cpu().double() - wanted).abs().max() / wanted.abs().max()
        assert error < tolerance


def test_sums_are_in_the_order_of_pairs(device):
    """Bit for bit, whatever the device: many queries pull at few points."""
    query, ref = cloud("random", 300, seed=1), cloud("random", 24)
    weight = torch.randn(2, 150, 16, generator=torch.Generator().manual_seed(0))
    for _ in range(2):
        q = query.view(2, 150, 3).to(device).requires_grad_()
        p = ref.view(2, 12, 3).to(device).requires_grad_()
        d2, index = ball_query(q, p, 2.0, 16)
        d2.backward(weight.to(device))
        grad_q, grad_p = torch.zeros(2, 150, 3), torch.zeros(2, 12, 3)
        hits = (index.cpu() >= 0).nonzero().tolist()
        assert 0 < len(hits) < index.numel()
        for b, i, k in hits:
            j = int(index[b, i, k])
            pull = 2.0 * weight[b, i, k] * (query.view(2, 150, 3)[b, i] - ref.view(2, 12, 3)[b, j])
            grad_q[b, i] += pull
            grad_p[b, j] += -pull
        assert_same_bits(q.grad, grad_q)
        assert_same_bits(p.grad, grad_p)


def test_gradcheck(device):
    """Points on a coarse grid, well inside or outside the ball, so that no choice flips."""
    query = torch.tensor([[[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]]], device=device)
    ref = torch.tensor([[[0.5, 0.5, 0.0], [4.0, 1.0, 0.5], [9.0, 9.0, 9.0], [0.0, 1.0, 0.25]]])
    inputs = (query.requires_grad_(), ref.to(device).requires_grad_())

    def distances(q, r):
        return ball_query(q, r, 2.0, 3)[0]

    # float32 only on MPS: wide steps, exact for a quadratic function
    options = {"eps": 2.0**-4, "atol": 1e-3, "rtol": 1e-3}
    with pytest.warns(UserWarning, match="not a double precision"):
        assert gradcheck(distances, inputs, **options)
    with pytest.warns(UserWarning, match="not a double precision"):
        assert gradgradcheck(distances, inputs, **options)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own use of it
def test_forward_mode_is_refused(device):
    points = torch.rand(1, 4, 3, device=device)
    with pytest.raises(NotImplementedError, match="no forward-mode derivative; use reverse mode"):
        torch.func.jvp(lambda q: ball_query(q, points, 1.0, 2)[0], (points,), (points,))


def test_only_one_side(device):
    query, ref = torch.rand(1, 4, 3, device=device), torch.rand(1, 6, 3, device=device)
    ball_query(query.requires_grad_(), ref, 1.0, 3)[0].sum().backward()
    assert query.grad is not None
    assert ref.grad is None
    ref.requires_grad_()
    ball_query(query.detach(), ref, 1.0, 3)[0].sum().backward()
    assert ref.grad is not None


def test_padding_does_not_spread_nan(device):
    """A padded slot points nowhere: a broken point must not reach a gradient."""
    query = torch.zeros(1, 1, 3, device=device, requires_grad=True)
    ref = torch.full((1, 3, 3), torch.nan)
    ref[0, 1] = 0.5
    ref = ref.to(device).requires_grad_()
    ball_query(query, ref, 2.0, 3)[0].sum().backward()
    assert torch.isfinite(query.grad).all()
    assert torch.isfinite(ref.grad).all()


def test_a_root_of_padding_does_not_spread_nan(device):
    """sqrt has an infinite slope at the zeros of padded slots."""
    query = torch.zeros(1, 1, 3, device=device, requires_grad=True)
    ref = torch.tensor([[[0.3, 0.0, 0.0], [9.0, 9.0, 9.0]]], device=device, requires_grad=True)
    d2, index = ball_query(query, ref, 1.0, 4)
    distance = torch.where(index >= 0, d2, 0).sqrt()
    distance[index >= 0].sum().backward()
    assert torch.isfinite(query.grad).all()
    assert torch.isfinite(ref.grad).all()


def test_second_order_of_padding(device):
    query = torch.zeros(1, 1, 3, device=device, requires_grad=True)
    ref = torch.tensor([[[torch.nan] * 3, [0.1, 0.2, 0.3], [9.0] * 3]], device=device)
    d2, _ = ball_query(query, ref, 1.0, 4)
    weight = torch.ones_like(d2, requires_grad=True)
    (first,) = torch.autograd.grad(d2, query, weight, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), weight)
    assert torch.isfinite(second).all()


def test_module_training_step(device):
    """A loss on distances moves the points together."""
    query = torch.tensor([[[0.0, 0.0, 0.0]]], device=device, requires_grad=True)
    ref = torch.tensor([[[0.3, 0.0, 0.0], [0.0, 0.4, 0.0]]], device=device)
    optimiser = torch.optim.SGD([query], lr=0.1)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = ball_query(query, ref, 1.0, 4)[0].sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
