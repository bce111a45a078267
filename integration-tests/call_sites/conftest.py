"""Fixtures of the call-site tests."""

import pytest
import torch


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param


@pytest.fixture
def scan(device):
    """Two clouds [2, 500, 3] that lie a few units from the origin."""
    rng = torch.Generator().manual_seed(0)
    return (torch.randn(2, 500, 3, generator=rng) * torch.tensor([1.0, 0.5, 0.3]) + 4).to(device)
