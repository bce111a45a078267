"""Fixtures of the kernel package."""

import pytest


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Every test of behaviour runs on both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param
