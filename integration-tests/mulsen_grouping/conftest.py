"""The scripts of this folder as modules."""

import importlib
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(params=["cpu", "mps"])
def device(request):
    """Both; `mps` is the real one on a Mac, emulated elsewhere."""
    return request.param


@pytest.fixture
def script(monkeypatch):
    """Imports a script of this folder, which finds the others beside it."""
    monkeypatch.syspath_prepend(str(HERE))
    return importlib.import_module


@pytest.fixture
def score_runs(script):
    return script("score_runs")
