"""Bad input gets a clear error before any launch."""

import numpy as np
import pytest
import torch

from mps_pointops import knn


@pytest.fixture
def pair(device):
    return torch.rand(2, 5, 3, device=device), torch.rand(2, 8, 3, device=device)


@pytest.mark.parametrize(
    ("change", "k", "error", "text"),
    [
        (lambda q, r: (q[0], r), 2, ValueError, r"query must be of shape \(B, N, D\)"),
        (lambda q, r: (q, r[0]), 2, ValueError, "ref must be of shape"),
        (
            lambda q, r: (q[..., :2], r),
            2,
            ValueError,
            r"ref must be of the dimension D of query \(2\)",
        ),
        (lambda q, r: (q[..., :0], r[..., :0]), 2, ValueError, "D >= 1"),
        (
            lambda q, r: (q[:1], r),
            2,
            ValueError,
            r"ref must be of the batch size of query \(1\), got 2",
        ),
        (lambda q, r: (q.int(), r), 2, TypeError, "query must be float32"),
        (lambda q, r: (q, r.int()), 2, TypeError, "ref must be float32"),
        (lambda q, r: (None, r), 2, TypeError, "query must be a torch.Tensor, got NoneType"),
        (
            lambda q, r: (q, r),
            9,
            ValueError,
            r"k must be at most the number of reference points \(8\), got 9",
        ),
        (lambda q, r: (q, r), -1, ValueError, "k must be at least 0"),
        (lambda q, r: (q, r), 2.0, TypeError, "k must be an integer, got float"),
        (lambda q, r: (q, r), "2", TypeError, "k must be an integer, got str"),
    ],
)
def test_bad_arguments(pair, change, k, error, text):
    with pytest.raises(error, match=text):
        knn(*change(*pair), k)


def test_mixed_devices(pair):
    query, ref = pair
    other = "cpu" if ref.device.type == "mps" else "mps"
    with pytest.raises(ValueError, match=r"ref must be on the device of query .*move one of them"):
        knn(query, ref.to(other), 2)


@pytest.mark.parametrize("k", [3, np.int32(3), torch.tensor(3)])
def test_integers_of_every_kind(pair, k):
    assert knn(*pair, k)[1].shape == (2, 5, 3)


def test_empty_results(device):
    for b, m, n, k in ((0, 5, 8, 3), (2, 0, 8, 3), (2, 5, 8, 0), (2, 5, 0, 0), (2, 0, 0, 0)):
        distance, index = knn(
            torch.rand(b, m, 3, device=device), torch.rand(b, n, 3, device=device), k
        )
        assert distance.shape == index.shape == (b, m, k)
        assert (distance.dtype, index.dtype) == (torch.float32, torch.int64)
        assert distance.device.type == index.device.type == device


def test_no_gradient(pair):
    query = pair[0].requires_grad_()
    distance, index = knn(query, pair[1], 2)
    assert not distance.requires_grad
    assert not index.requires_grad
