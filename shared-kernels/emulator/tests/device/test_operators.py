from __future__ import annotations

import json
from importlib import resources

import pytest
import torch

from mps_emulator.device import _operators

TEXT = """
- func: made_of_others(Tensor self) -> Tensor
  variants: function

- func: explicit(Tensor self) -> Tensor
  dispatch:
    CompositeExplicitAutograd: explicit

- func: cpu_only.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    # a comment
    CPU, CUDA: cpu_only_out
  tags: core

- func: cpu_only(Tensor self) -> Tensor
  device_check: NoCheck   # TensorIterator
  structured_delegate: cpu_only.out

- func: everywhere.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  dispatch:
    CPU, CUDA, MPS: everywhere_out

- func: everywhere(Tensor self) -> Tensor
  structured_delegate: everywhere.out
  dispatch:
    SparseCPU: everywhere_sparse
"""


def test_reader() -> None:
    entries = _operators.parse(TEXT)
    assert _operators.without_mps_kernel(entries) == ["cpu_only", "cpu_only.out"]
    assert entries["cpu_only.out"].keys == ["CPU", "CUDA"]
    assert not entries["cpu_only"].device_check
    assert entries["cpu_only.out"].device_check


def test_installed_table_agrees_with_the_dispatcher() -> None:
    entries = _operators.installed_entries()
    assert len(entries) > 2500
    # every operator that the reader calls a CPU one has a CPU kernel in this very build
    checked = 0
    for name, entry in entries.items():
        if "CPU" in entry.keys:
            assert torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CPU"), name
            checked += 1
    assert checked > 600


def test_floor_is_the_oldest_supported_torch() -> None:
    assert _operators.FLOOR == "2.7.0"
    names = _operators.floor()
    assert len(names) == len(set(names)) == 473
    assert {"take", "_cdist_backward", "kthvalue.values"} <= set(names)
    assert "add.out" not in names
    data = resources.files("mps_emulator.device").joinpath("operators_2.7.0.json")
    assert "2.7.0" in json.loads(data.read_text())["about"]
    if torch.__version__.startswith("2.7.0"):
        assert names == _operators.without_mps_kernel(_operators.installed_entries())


def test_exceptions_have_reasons_and_are_needed() -> None:
    without_kernel = set(_operators.floor())
    without_kernel |= set(_operators.without_mps_kernel(_operators.installed_entries()))
    for name, reason in _operators.CPU_SIDE.items():
        assert len(reason) > 10, name
        assert name in without_kernel, f"{name} needs no exception"
    for name, reason in _operators.WHOLE.items():
        assert len(reason) > 10, name
        assert name in _operators.installed_entries()
    assert {"convolution", "_euclidean_dist"} <= set(_operators.whole())


@pytest.mark.parametrize(("value", "expected"), [(None, "installed"), ("2.7.0", "2.7.0")])
def test_choice_of_the_table(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: str
) -> None:
    monkeypatch.delenv("MPS_EMULATOR_OPERATORS", raising=False)
    if value is not None:
        monkeypatch.setenv("MPS_EMULATOR_OPERATORS", value)
    assert _operators.table_version() == expected


@pytest.mark.filterwarnings("ignore:`torch.jit:FutureWarning")
def test_indexing_in_torchscript():
    """Its list of indices has another type than that of eager calls."""

    def pick(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index, 1:] - x[None, index, 1:][0]

    x = torch.rand(5, 3, device="mps")
    index = torch.tensor([3, 1], device="mps")
    assert torch.jit.script(pick)(x, index).tolist() == [[0.0, 0.0]] * 2
