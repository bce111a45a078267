"""Fixtures of the kernel package."""

import pytest

from pointops_testing.releases import captured_sizes


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Every test of behaviour runs on both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param


@pytest.fixture(autouse=True)
def _whole_graphs():
    with captured_sizes():
        yield
