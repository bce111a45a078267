"""Fixtures of the pointnet2_ops stand-in."""

import pytest
import torch

from pointnet2_ops import options


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Every test of behaviour runs on both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param


@pytest.fixture(autouse=True)
def default_options(monkeypatch):
    """Tests may assign to the options."""
    monkeypatch.setattr(options, "skip_near_origin", True)
    monkeypatch.setattr(options, "weight_gradient", False)


@pytest.fixture
def random(device):
    """Seeded normal numbers on the device."""

    def make(*shape, seed=0):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)

    return make


@pytest.fixture
def integers(device):
    """Seeded int32 indices on the device."""

    def make(size, *shape, seed=0, dtype=torch.int32):
        rng = torch.Generator().manual_seed(seed)
        return torch.randint(size, shape, generator=rng, dtype=dtype).to(device)

    return make
