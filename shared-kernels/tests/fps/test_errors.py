"""Bad input gets a clear error before any launch."""

import numpy as np
import pytest
import torch

from mps_pointops import furthest_point_sample as fps


@pytest.fixture
def xyz(device):
    return torch.rand(2, 10, 3, device=device)


@pytest.mark.parametrize(
    ("change", "arguments", "error", "text"),
    [
        (
            lambda x: x[0],
            (4,),
            ValueError,
            r"xyz must be of shape \(B, N, 3\), got shape \[10, 3\]",
        ),
        (lambda x: x[..., :2], (4,), ValueError, "xyz must be of shape"),
        (lambda x: x.long(), (4,), TypeError, r"xyz must be float32.*int64; convert"),
        (lambda x: x.to(torch.complex64), (4,), TypeError, "xyz must be float32"),
        (lambda x: x.to(torch.bool), (4,), TypeError, "xyz must be float32"),
        (lambda x: x.tolist(), (4,), TypeError, "xyz must be a torch.Tensor, got list"),
        (lambda x: x, (-1,), ValueError, "npoint must be at least 0, got -1"),
        (lambda x: x, (4.0,), TypeError, "npoint must be an integer, got float"),
        (lambda x: x, (True,), TypeError, "npoint must be an integer, got a bool"),
        (lambda x: x, (4, 10), IndexError, r"start_idx must be below N \(10\), got 10"),
        (lambda x: x, (4, -1), ValueError, "start_idx must be at least 0"),
        (lambda x: x[:, :0], (1,), ValueError, "at least one point"),
    ],
)
def test_bad_arguments(xyz, change, arguments, error, text):
    with pytest.raises(error, match=text):
        fps(change(xyz), *arguments)


def test_float64_is_refused_on_the_cpu_too():
    with pytest.raises(TypeError, match=r"float64; convert it with .float\(\)"):
        fps(torch.rand(1, 5, 3, dtype=torch.float64), 2)


def test_bad_options(xyz):
    with pytest.raises(ValueError, match="rule must be 'separate', 'fma_xyz' or 'fma_yxz'"):
        fps(xyz, 2, rule="fast")
    with pytest.raises(ValueError, match="ties must be 'lowest_index' or 'bit_reversed'"):
        fps(xyz, 2, ties="any")


@pytest.mark.parametrize("npoint", [3, np.int64(3), torch.tensor(3)])
def test_integers_of_every_kind(xyz, npoint):
    assert fps(xyz, npoint).shape == (2, 3)


def test_empty_results(device):
    assert fps(torch.rand(0, 10, 3, device=device), 4).shape == (0, 4)
    assert fps(torch.rand(2, 10, 3, device=device), 0).shape == (2, 0)
    empty = fps(torch.rand(2, 0, 3, device=device), 0)
    assert empty.shape == (2, 0)
    assert empty.dtype == torch.int64
    assert empty.device.type == device


def test_no_gradient(device):
    xyz = torch.rand(1, 10, 3, device=device, requires_grad=True)
    assert not fps(xyz, 4).requires_grad
