"""Three nearest neighbours on both devices."""

import pytest
import torch

from mps_pointops import three_nn
from mps_pointops._rules import Rule
from mps_pointops.ops.three_nn.reference import three_nn_reference
from pointops_testing import CLOUDS, assert_same_bits, cloud, root


@pytest.mark.parametrize("rule", ["separate", "fma_xyz", "fma_yxz"])
@pytest.mark.parametrize("name", CLOUDS)
def test_neighbours(device, name, rule):
    unknown, known = cloud(name, 40, seed=1), cloud(name, 300)
    unknown[:9] = known[:9]
    distance, index = three_nn(unknown[None].to(device), known[None].to(device), rule=rule)
    wanted = three_nn_reference(unknown, known, Rule[rule.upper()])
    assert_same_bits(index[0], wanted[1])
    assert_same_bits(distance[0], wanted[0])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4])
def test_fewer_than_three(device, size):
    unknown, known = cloud("random", 10), cloud("random", 5, seed=1)[:size]
    distance, index = three_nn(
        unknown.expand(2, 10, 3).to(device), known.expand(2, size, 3).to(device)
    )
    wanted = three_nn_reference(unknown, known)
    for b in range(2):
        assert_same_bits(index[b], wanted[1])
        assert_same_bits(distance[b], wanted[0])
    if size:
        weight = 1 / (distance + 1e-8)
        assert torch.isfinite(weight / weight.sum(dim=2, keepdim=True)).all()


def test_squared(device):
    unknown, known = (
        cloud("random", 50, seed=1)[None].to(device),
        cloud("random", 9)[None].to(device),
    )
    distance, index = three_nn(unknown, known)
    squares, same = three_nn(unknown, known, squared=True)
    assert_same_bits(same, index.cpu())
    assert_same_bits(distance, root(squares.cpu()))
    assert (squares != distance).any()


def test_empty(device):
    distance, index = three_nn(
        torch.rand(2, 0, 3, device=device), torch.rand(2, 5, 3, device=device)
    )
    assert distance.shape == index.shape == (2, 0, 3)
    assert index.dtype == torch.int64


@pytest.mark.parametrize(
    ("unknown", "known", "error", "text"),
    [
        (
            torch.rand(1, 4, 2),
            torch.rand(1, 4, 3),
            ValueError,
            r"unknown must be of shape \(B, N, 3\)",
        ),
        (torch.rand(1, 4, 3), torch.rand(2, 4, 3), ValueError, "batch size of unknown"),
        (torch.rand(1, 4, 3), torch.zeros(1, 4, 3).int(), TypeError, "known must be float32"),
    ],
)
def test_bad_arguments(device, unknown, known, error, text):
    with pytest.raises(error, match=text):
        three_nn(unknown.to(device), known.to(device))


def test_no_gradient(device):
    points = torch.rand(1, 4, 3, device=device, requires_grad=True)
    assert not three_nn(points, points)[0].requires_grad


def test_many_known(device, monkeypatch):
    """More than are looked at one by one."""
    monkeypatch.setattr("mps_pointops.ops.knn.few.FEW_POINTS", 50)
    for name in ("lattice", "not_finite"):
        unknown, known = cloud(name, 30, seed=1), cloud(name, 200)
        unknown[:9] = known[:9]
        distance, index = three_nn(unknown[None].to(device), known[None].to(device))
        wanted = three_nn_reference(unknown, known)
        assert_same_bits(index[0], wanted[1])
        assert_same_bits(distance[0], wanted[0])


@pytest.mark.parametrize("rows", [1, 255, 257])
def test_batches(device, rows):
    unknown, known = (
        cloud("lattice", 3 * rows).view(3, rows, 3),
        cloud("lattice", 120).view(3, 40, 3),
    )
    distance, index = three_nn(unknown.to(device), known.to(device), squared=True)
    for b in range(3):
        check = slice(0, None, max(1, rows // 40))
        wanted = three_nn_reference(unknown[b, check], known[b])
        assert_same_bits(index[b, check], wanted[1])
        assert_same_bits(root(distance[b, check].cpu()), wanted[0])


def test_operator(device):
    points = cloud("random", 40).to(device)
    torch.library.opcheck(
        torch.ops.mps_pointops.three_nn.default, (points, points[:20], 2, True, 1)
    )
