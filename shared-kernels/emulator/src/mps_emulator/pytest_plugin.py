"""Installs the emulated device for a test run where no Apple GPU is."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Gives the run its ``mps`` device."""
    import mps_emulator

    mps_emulator.install(strict=True)
