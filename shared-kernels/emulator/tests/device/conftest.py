from __future__ import annotations

import pytest

import mps_emulator


@pytest.fixture(autouse=True)
def _emulated_only() -> None:
    if not mps_emulator.is_installed():
        pytest.skip("these tests are about the emulated device; this machine has a real one")
