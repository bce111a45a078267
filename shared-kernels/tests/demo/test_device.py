from __future__ import annotations

import sys

import pytest
import torch

from mps_pointops.demo import device
from mps_pointops.demo.errors import DemoError


def no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    # None makes the import fail, as where it is not installed
    monkeypatch.setitem(sys.modules, "mps_emulator", None)


@pytest.mark.parametrize("available", [True, False])
def test_the_default_device(monkeypatch: pytest.MonkeyPatch, available: bool) -> None:
    no_emulator(monkeypatch)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: available)
    target = device.pick_device(None, emulated=False)
    assert target.device == ("mps" if available else "cpu")
    assert not target.emulated
    assert any("no Apple GPU" in note for note in target.notes) is not available


def test_mps_without_an_apple_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    no_emulator(monkeypatch)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DemoError, match="no Apple GPU here; use --device cpu, or --emulated"):
        device.pick_device("mps", emulated=False)


def test_emulated_outside_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    no_emulator(monkeypatch)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(DemoError, match="part of the source checkout"):
        device.pick_device(None, emulated=True)


def test_emulated_is_ignored_where_mps_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    no_emulator(monkeypatch)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    target = device.pick_device(None, emulated=True)
    assert (target.device, target.emulated) == ("mps", False)
    assert "ignored" in target.notes[0]
