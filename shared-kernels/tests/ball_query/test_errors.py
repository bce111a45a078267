"""Bad input gets a clear error before any launch."""

import numpy as np
import pytest
import torch

from mps_pointops import ball_query


@pytest.fixture
def pair(device):
    return torch.rand(2, 5, 3, device=device), torch.rand(2, 8, 3, device=device)


def _same(query, ref):
    return query, ref


@pytest.mark.parametrize(
    ("change", "radius", "K", "error", "text"),
    [
        (lambda q, r: (q[0], r), 1.0, 2, ValueError, r"query must be of shape \(B, N, D\)"),
        (lambda q, r: (q, r[0]), 1.0, 2, ValueError, "ref must be of shape"),
        (lambda q, r: (q[..., :2], r), 1.0, 2, ValueError, "dimension D of query"),
        (lambda q, r: (q[:1], r), 1.0, 2, ValueError, r"batch size of query \(1\), got 2"),
        (lambda q, r: (q.int(), r), 1.0, 2, TypeError, "query must be float32"),
        (_same, -0.1, 2, ValueError, r"radius must be finite and not negative, got -0.1"),
        (_same, float("nan"), 2, ValueError, "radius must be finite"),
        (_same, float("inf"), 2, ValueError, "radius must be finite"),
        (_same, "1", 2, TypeError, "radius must be a number, got str"),
        (_same, None, 2, TypeError, "radius must be a number, got NoneType"),
        (
            _same,
            torch.ones(2),
            2,
            TypeError,
            r"radius must be a number, got a tensor of .*shape \[2\]",
        ),
        (_same, 1.0, -1, ValueError, "K must be at least 0"),
        (_same, 1.0, 2**31, ValueError, "K must be at most 2147483647, got 2147483648"),
        (_same, 1.0, 2.5, TypeError, "K must be an integer, got float"),
    ],
)
def test_bad_arguments(pair, change, radius, K, error, text):
    with pytest.raises(error, match=text):
        ball_query(*change(*pair), radius, K)


def test_mixed_devices(pair):
    query, ref = pair
    other = "cpu" if ref.device.type == "mps" else "mps"
    with pytest.raises(ValueError, match=r"ref must be on the device of query"):
        ball_query(query, ref.to(other), 1.0, 2)


@pytest.mark.parametrize("radius", [1, 1.0, np.float32(1), np.int64(1), torch.tensor(1.0)])
@pytest.mark.parametrize("K", [3, np.int32(3), torch.tensor(3)])
def test_numbers_of_every_kind(pair, radius, K):
    wanted = ball_query(*pair, 1.0, 3)[1]
    assert torch.equal(ball_query(*pair, radius, K)[1], wanted)


def test_empty_results(device):
    for b, m, n, K in ((0, 5, 8, 3), (2, 0, 8, 3), (2, 5, 8, 0), (2, 5, 0, 4), (2, 0, 0, 0)):
        query = torch.rand(b, m, 3, device=device, requires_grad=True)
        ref = torch.rand(b, n, 3, device=device, requires_grad=True)
        distance, index = ball_query(query, ref, 1.0, K)
        assert distance.shape == index.shape == (b, m, K)
        assert (distance.dtype, index.dtype) == (torch.float32, torch.int64)
        assert distance.device.type == index.device.type == device
        distance.sum().backward()
        assert (query.grad == 0).all()
        assert (ref.grad == 0).all()
    assert (ball_query(torch.rand(1, 2, 3), torch.rand(1, 0, 3), 1.0, 4)[1] == -1).all()
