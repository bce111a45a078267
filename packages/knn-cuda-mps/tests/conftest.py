"""Fixtures of the KNN_CUDA stand-in."""

import pytest


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Every test of behaviour runs on both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param
