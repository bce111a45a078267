import itertools

import pytest
import torch

import mps_emulator


def leaves(*tensors):
    return [[t.clone().to(d).requires_grad_() for t in tensors] for d in ("cpu", "mps")]


def compare(outputs, inputs):
    """Results and gradients of both devices."""
    for out in outputs:
        weights = torch.arange(out.numel(), device=out.device).view(out.shape) % 5
        (out * weights).sum().backward()
    torch.testing.assert_close(outputs[1].detach().cpu(), outputs[0].detach())
    for wanted, got in zip(*inputs, strict=True):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad)


@pytest.mark.parametrize("ptr_on", ["cpu", "mps"])
def test_segment_matmul(pyg, ptr_on):
    torch.manual_seed(0)
    inputs = leaves(torch.randn(8, 4), torch.randn(3, 4, 5))
    ptr = torch.tensor([0, 5, 5, 8])
    x, w = inputs[0]
    wanted = torch.cat([x[:5] @ w[0], x[5:] @ w[2]])
    with mps_emulator.count_readbacks() as reads:
        got = pyg.segment_matmul(inputs[1][0], ptr.to(ptr_on), inputs[1][1])
    assert reads.count == (ptr_on == "mps")
    compare([wanted + 0 * w.sum(), got], inputs)


def test_segment_matmul_of_a_part_of_the_rows(pyg):
    x, w = torch.ones(4, 2, device="mps"), torch.ones(1, 2, 3, device="mps")
    got = pyg.segment_matmul(x, torch.tensor([1, 3], device="mps"), w)
    assert got[:, 0].tolist() == [0, 2, 2, 0]
    with pytest.raises(ValueError, match="ptr must be ascending from 0 to at most 4"):
        pyg.segment_matmul(x, torch.tensor([0, 5], device="mps"), w)
    with pytest.raises(ValueError, match=r"ptr must be of shape \[2\]"):
        pyg.segment_matmul(x, torch.tensor([0, 1, 4], device="mps"), w)
    with pytest.raises(ValueError, match="input and other must be"):
        pyg.segment_matmul(x, torch.tensor([0, 4], device="mps"), w[0])
    with pytest.raises(TypeError, match="ptr must be int64 or int32"):
        pyg.segment_matmul(x, torch.tensor([0, 4.0], device="mps"), w)


def test_products_under_autocast_are_in_its_dtype(pyg):
    x, w = torch.rand(4, 2, device="mps"), torch.rand(2, 2, 3, device="mps")
    with torch.autocast("mps", torch.float16):
        segments = pyg.segment_matmul(x, torch.tensor([0, 1, 3]), w)  # a row in no segment
        (group,) = pyg.grouped_matmul([x], [w[0]])
        assert segments.dtype == group.dtype == (x @ w[0]).dtype == torch.float16


def test_grouped_matmul(pyg):
    torch.manual_seed(1)
    inputs = leaves(torch.randn(5, 4), torch.randn(3, 2), torch.randn(4, 2), torch.randn(2, 6))
    outs = []
    for a, b, c, d in inputs:
        left, right = [a, b], [c, d]
        parts = [a @ c, b @ d] if a.device.type == "cpu" else pyg.grouped_matmul(left, right)
        assert [p.shape for p in parts] == [(5, 2), (3, 6)]
        outs.append(torch.cat([p.flatten() for p in parts]))
    compare(outs, inputs)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("which", ["left", "right", "both"])
def test_sampled_op(pyg, op, which):
    torch.manual_seed(2)
    index = torch.tensor([3, 0, 0, 2, 1, 3]), torch.tensor([1, 1, 4, 0, 2, 3])
    left = torch.rand(4 if which != "right" else 6, 3) + 1
    right = torch.rand(5 if which != "left" else 6, 3) + 1
    inputs = leaves(left, right)
    outs = []
    for a, b in inputs:
        given = [i.to(a.device) for i in index]
        given = [given[0] if which != "right" else None, given[1] if which != "left" else None]
        if a.device.type == "cpu":
            rows = [t if i is None else t[i] for t, i in zip((a, b), given, strict=True)]
            outs.append(getattr(torch, op)(*rows))
        else:
            outs.append(pyg.sampled_op(a, b, *given, op))
    compare(outs, inputs)


def test_sampled_op_refuses(pyg):
    x = torch.rand(4, 3, device="mps")
    with pytest.raises(ValueError, match="op must be one of add, sub, mul, div"):
        pyg.sampled_op(x, x, None, None, "pow")
    with pytest.raises(ValueError, match="left_index and its values"):
        pyg.sampled_op(x, x, torch.zeros(2, 2, dtype=torch.int64, device="mps"), None, "add")
    outside = pyg.sampled_op(x, x[:1], torch.tensor([4], device="mps"), None, "add")
    assert outside.isnan().all()


def spline_reference(pseudo, sizes, is_open, degree):
    """B-splines of a point by the recursion of de Boor on uniform knots."""

    def b(i, d, v):  # piece i of degree d over knots i ... i + d + 1
        if d == 0:
            return 1.0 if i <= v < i + 1 else 0.0
        return (v - i) / d * b(i, d - 1, v) + (i + d + 1 - v) / d * b(i + 1, d - 1, v)

    weights, numbers = [], []
    for point in pseudo.tolist():
        row_w, row_n = [], []
        for step in itertools.product(range(degree + 1), repeat=len(sizes)):
            weight, number, stride = 1.0, 0, 1
            for d, k in enumerate(reversed(step)):
                v = point[d] * (sizes[d] - degree * is_open[d])
                weight *= b(int(v) + k - degree, degree, v)
                number += (int(v) + k) % sizes[d] * stride
                stride *= sizes[d]
            row_w.append(weight)
            row_n.append(number)
        weights.append(row_w)
        numbers.append(row_n)
    return torch.tensor(weights), torch.tensor(numbers)


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_spline_basis(pyg, degree, dim):
    torch.manual_seed(degree)
    pseudo = torch.rand(7, dim) * 0.99
    sizes, is_open = [5, 4, 6][:dim], [1, 0, 1][:dim]
    wanted = spline_reference(pseudo, sizes, is_open, degree)
    leaf = pseudo.to("mps").requires_grad_()
    given = torch.tensor(sizes, device="mps"), torch.tensor(is_open, device="mps").to(torch.uint8)
    basis, number = pyg.spline_basis(leaf, *given, degree)
    torch.testing.assert_close(basis.detach().cpu(), wanted[0], rtol=1e-4, atol=1e-5)
    assert torch.equal(number.cpu(), wanted[1])
    torch.testing.assert_close(basis.sum(1).detach().cpu(), torch.ones(7))
    grads = torch.randn(basis.shape)
    basis.backward(grads.to("mps"))
    step = 1e-3
    for d in range(dim):
        ends = []
        for sign in (1, -1):
            moved = pseudo.double()
            moved[:, d] += sign * step
            ends.append(spline_reference(moved, sizes, is_open, degree))
        inside = (ends[0][1] == ends[1][1]).all(1)  # no knot between
        slope = ((ends[0][0] - ends[1][0]) * grads).sum(1) / (2 * step)
        torch.testing.assert_close(
            leaf.grad[:, d].cpu()[inside], slope[inside], rtol=0.02, atol=0.02
        )
    direct = pyg.spline_basis_backward(grads.to("mps"), leaf.detach(), *given, degree)
    torch.testing.assert_close(direct, leaf.grad)
    with pytest.raises(ValueError, match="degree must be 1, 2 or 3"):
        pyg.spline_basis(leaf, *given, 4)


def test_spline_weighting(pyg):
    torch.manual_seed(3)
    number = torch.randint(0, 6, (9, 4))
    number[number == 2] = 3  # a kernel that nothing uses
    inputs = leaves(torch.randn(9, 3), torch.randn(6, 3, 5), torch.rand(9, 4))
    x, w, b = inputs[0]
    wanted = torch.einsum("es,em,esmn->en", b, x, w[number])
    with mps_emulator.count_readbacks() as reads:
        got = pyg.spline_weighting(*inputs[1], number.to("mps"))
    assert reads.count == 1
    compare([wanted, got], inputs)
    x, w, b = (t.detach() for t in inputs[1])
    grad = (torch.arange(45, device="mps") % 5).view(9, 5).float()
    number = number.to("mps")
    for got, leaf in (
        (pyg.spline_weighting_backward_x(grad, w, b, number), inputs[1][0]),
        (pyg.spline_weighting_backward_weight(grad, x, b, number, 6), inputs[1][1]),
        (pyg.spline_weighting_backward_basis(grad, x, w, number), inputs[1][2]),
    ):
        torch.testing.assert_close(got, leaf.grad)
    assert pyg.spline_weighting(x, w[:0], b, number).tolist() == [[0] * 5] * 9
    leaf = x[:0].clone().requires_grad_()
    nothing = pyg.spline_weighting(leaf, w, b[:0], number[:0])
    assert nothing.shape == (0, 5)
    nothing.sum().backward()
    with pytest.raises(TypeError, match="weight_index must be int64 or int32"):
        pyg.spline_weighting(x, w, b, b)
