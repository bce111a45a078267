"""`pyg::spline_basis` and `pyg::spline_weighting`: B-splines of torch's own operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mps_pointops._integers import floor_divide, quotients
from pyg_lib_mps_plugin._ops import segments as core
from pyg_lib_mps_plugin._ops.dense import segment_matmul
from pyg_lib_mps_plugin._ops.sizes import check_index, fail


def _pieces(t: Tensor, degree: int) -> list[Tensor]:
    """The degree + 1 B-spline pieces over a knot interval, at `t` from 0 to 1."""
    if degree == 1:
        return [1 - t, t]
    if degree == 2:
        return [0.5 * (1 - t) ** 2, 0.5 + t * (1 - t), 0.5 * t**2]
    rest = 1 - t
    inner = [(4 - 6 * u**2 + 3 * u**3) / 6 for u in (t, rest)]
    return [rest**3 / 6, *inner, t**3 / 6]


def spline_basis(
    pseudo: Tensor, kernel_size: Tensor, is_open_spline: Tensor, degree: int = 1
) -> tuple[Tensor, Tensor]:
    """`pyg::spline_basis`: weights [E, S] and kernel numbers [E, S], S = (degree + 1)^D."""
    op = "spline_basis"
    if degree not in (1, 2, 3):
        fail(op, "degree", "1, 2 or 3", str(degree))
    if pseudo.dim() != 2 or {kernel_size.shape, is_open_spline.shape} != {pseudo.shape[1:]}:
        shapes = [list(t.shape) for t in (pseudo, kernel_size, is_open_spline)]
        fail(op, "the arguments", "of shapes [E, D], [D] and [D]", f"shapes {shapes}")
    edges, dim = pseudo.shape
    knots = kernel_size.to(torch.int32)
    position = pseudo * (knots - degree * is_open_spline.to(torch.int32)).to(pseudo.dtype)
    cell = position.detach().trunc().to(torch.int32)
    weights = pseudo.new_ones((edges, 1))
    number = torch.zeros((edges, 1), dtype=torch.int64, device=pseudo.device)
    stride = torch.ones((), dtype=torch.int64, device=pseudo.device)
    for d in range(dim):  # the first dimension varies fastest
        t = position[:, d] - position[:, d].detach().floor()
        piece = torch.stack(_pieces(t, degree), dim=1)
        steps = torch.arange(degree + 1, dtype=torch.int32, device=pseudo.device)
        knot = (cell[:, d : d + 1] + steps).to(torch.int64)
        knot = knot - floor_divide(knot, knots[d].to(torch.int64)) * knots[d]
        weights = (piece.unsqueeze(2) * weights.unsqueeze(1)).flatten(1)
        number = ((knot * stride).unsqueeze(2) + number.unsqueeze(1)).flatten(1)
        stride = stride * knots[d]
    return weights, number.to(kernel_size.dtype)


def spline_weighting(x: Tensor, weight: Tensor, basis: Tensor, weight_index: Tensor) -> Tensor:
    """`pyg::spline_weighting`: the sum over s of basis[e, s] * x[e] @ weight[weight_index[e, s]].

    Pairs (e, s) are put in the order of their kernel, so that each kernel is one matrix product of
    its own rows; one read-back, of how many these are.
    """
    op = "spline_weighting"
    if x.dim() != 2 or weight.dim() != 3 or x.shape[1] != weight.shape[1]:
        got = f"shapes {list(x.shape)} and {list(weight.shape)}"
        fail(op, "x and weight", "of shapes [E, M] and [K, M, N]", got)
    if basis.shape != weight_index.shape or basis.dim() != 2 or len(basis) != len(x):
        got = f"shapes {list(basis.shape)} and {list(weight_index.shape)}"
        fail(op, "basis and weight_index", f"of one shape [{len(x)}, S]", got)
    check_index(op, "weight_index", weight_index, x)
    edges, places = basis.shape
    if weight.shape[0] == 0:
        return x.new_zeros((edges, weight.shape[2]))
    if edges * places == 0:
        return (x @ weight[0]) * basis.sum(1, keepdim=True)  # nothing, but a part of the graph
    kernels = core.of_index(weight_index.reshape(1, -1), weight.shape[0])
    assert kernels.order is not None
    order = kernels.order.to(torch.int64)
    edge = quotients(edges, places, x.device)
    rows = core.pick(x, edge[order].unsqueeze(0), edges)
    ptr = torch.cat((kernels.begin, kernels.end[-1:]))
    products = segment_matmul(rows, ptr, weight)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), dtype=order.dtype, device=order.device)
    products = core.pick(products, back.unsqueeze(0), len(order))
    products = products.view(edges, places, weight.shape[2])
    return (products * basis.unsqueeze(2)).sum(dim=1)


def _gradient(
    function: Callable[..., Any], arguments: tuple[Any, ...], which: int, grad: Tensor
) -> Tensor:
    """Gradient of one argument, by running the function once more."""
    with torch.enable_grad():
        wanted = arguments[which].detach().requires_grad_()
        fixed = [t.detach() if isinstance(t, Tensor) else t for t in arguments]
        out = function(*fixed[:which], wanted, *fixed[which + 1 :])
        out = out[0] if isinstance(out, tuple) else out
        found: Tensor = torch.autograd.grad(out, wanted, grad)[0]
    return found


def spline_basis_backward(
    grad_basis: Tensor,
    pseudo: Tensor,
    kernel_size: Tensor,
    is_open_spline: Tensor,
    degree: int = 1,
) -> Tensor:
    """`pyg::spline_basis_backward`."""
    arguments = (pseudo, kernel_size, is_open_spline, degree)
    return _gradient(spline_basis, arguments, 0, grad_basis)


def spline_weighting_backward_x(
    grad_out: Tensor, weight: Tensor, basis: Tensor, weight_index: Tensor
) -> Tensor:
    """`pyg::spline_weighting_backward_x`."""
    return spline_weighting(grad_out, weight.transpose(1, 2), basis, weight_index)


def spline_weighting_backward_weight(
    grad_out: Tensor, x: Tensor, basis: Tensor, weight_index: Tensor, kernel_size: int
) -> Tensor:
    """`pyg::spline_weighting_backward_weight`."""
    weight = x.new_zeros((kernel_size, x.shape[1], grad_out.shape[1]))
    return _gradient(spline_weighting, (x, weight, basis, weight_index), 1, grad_out)


def spline_weighting_backward_basis(
    grad_out: Tensor, x: Tensor, weight: Tensor, weight_index: Tensor
) -> Tensor:
    """`pyg::spline_weighting_backward_basis`."""
    basis = x.new_zeros(weight_index.shape)
    return _gradient(spline_weighting, (x, weight, basis, weight_index), 2, grad_out)
