"""Fixtures of the comparison with CUDA."""

import pytest


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param
