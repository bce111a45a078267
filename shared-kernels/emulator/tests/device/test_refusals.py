from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from mps_emulator.device import _operators, _runtime

FLOAT64 = (
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64"
)
TWO_DEVICES = "on the same device, but found at least two devices|to be in the same device, but got"


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, dtype=torch.float64, device="mps"),
        lambda: torch.ones(2, device="mps").double(),
        lambda: torch.ones(2, dtype=torch.float64).to("mps"),
        lambda: torch.empty_strided((2,), (1,), dtype=torch.float64, device="mps"),
        lambda: torch.ones(2, device="mps").sum(dtype=torch.float64),
        lambda: (
            torch.ones(2, device="mps") + torch.ones(2, dtype=torch.int64, device="mps").double()
        ),
        lambda: torch.nn.Linear(2, 2).double().to("mps"),
    ],
)
def test_float64(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=re.escape(FLOAT64)):
        make()


def test_complex128() -> None:
    with pytest.raises(TypeError, match="doesn't support float64"):
        torch.ones(2, dtype=torch.complex128, device="mps")


def test_python_floats_stay_float32() -> None:
    assert (torch.ones(2, dtype=torch.int64, device="mps") * 2.5).dtype == torch.float32


X = torch.ones(3, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d + X,
        lambda d: X + d,
        lambda d: d @ X,
        lambda d: d.add_(X),
        lambda d: X.add_(d),
        lambda d: torch.cat([d, X]),
        lambda d: torch.where(d > 0, d, X),
        lambda d: torch.add(d, d, out=torch.empty(3, 3)),
        lambda d: d.gather(0, torch.zeros(1, 3, dtype=torch.long)),
        lambda d: d.index_select(0, torch.tensor([1])),
        lambda d: d.index_put((torch.tensor([1], device="mps"),), torch.ones(1, 3)),
        lambda d: torch.nn.functional.linear(d, X),
        lambda d: torch.nn.functional.embedding(torch.tensor([1]), d),
        lambda d: d.index_add_(0, torch.tensor([1]), d[:1].clone()),
    ],
)
def test_mixed_devices(call: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(RuntimeError, match=TWO_DEVICES):
        call(torch.ones(3, 3, device="mps"))


def test_indexing_a_cpu_tensor_by_a_device_tensor() -> None:
    with pytest.raises(RuntimeError):
        X[torch.tensor([1], device="mps")]


def test_zero_dim_cpu_tensors_are_numbers_where_torch_says_so() -> None:
    d = torch.ones(3, 3, device="mps")
    assert (d + torch.tensor(2.0)).sum().item() == 27
    assert torch.where(d > 0, d, torch.tensor(0.0)).is_mps
    with pytest.raises(RuntimeError, match=TWO_DEVICES):
        torch.dot(d[0], torch.tensor(1.0))


def refused() -> list[str]:
    return _operators.missing()


def test_missing_operator_has_torchs_error() -> None:
    assert "mode" in refused()
    with pytest.raises(NotImplementedError) as error:
        torch.mode(torch.ones(3, device="mps"))
    text = str(error.value)
    assert text.startswith(
        "The operator 'aten::mode' is not currently implemented for the MPS device."
    )
    assert "PYTORCH_ENABLE_MPS_FALLBACK=1" in text


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("mode", torch.mode),
        ("native_norm", torch.native_norm),
        ("special_airy_ai.out", torch.special.airy_ai),
        ("special_ndtri.out", torch.special.ndtri),
        ("_pdist_forward", lambda x: torch.pdist(x.reshape(3, 1))),
        ("var.correction_out", lambda x: torch.var(x, 0, out=torch.empty((), device="mps"))),
        ("heaviside.out", lambda x: torch.heaviside(x, x)),
        ("frexp.Tensor_out", torch.frexp),
        ("logspace.out", lambda x: torch.logspace(0, 1, 3, device="mps")),
        ("put_", lambda x: x.put_(torch.tensor([0], device="mps"), x[:1].clone())),
        ("take", lambda x: x.take(torch.tensor([0], device="mps"))),
    ],
)
def test_missing_operators(name: str, call: Callable[[torch.Tensor], object]) -> None:
    x = torch.ones(3, device="mps")
    if name in _operators.missing():
        with pytest.raises(NotImplementedError, match=f"'aten::{name}' is not currently"):
            call(x)
    else:  # a later release has it
        assert "MPS" in _operators.installed_entries()[name].keys
        call(x)


def test_custom_operator_without_an_mps_kernel() -> None:
    library = torch.library.Library("emulator_refusals", "DEF")
    library.define("cpu_only(Tensor x) -> Tensor")
    library.impl("cpu_only", lambda x: x * 2, "CPU")
    assert torch.ops.emulator_refusals.cpu_only(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="'emulator_refusals::cpu_only' is not currently"):
        torch.ops.emulator_refusals.cpu_only(torch.ones(2, device="mps"))


def test_sparse_tensors_are_not_emulated() -> None:
    with pytest.raises(NotImplementedError):
        torch.ones(2, 2, device="mps").to_sparse()


def test_operators_that_a_mac_runs_on_the_cpu() -> None:
    table = torch.ones(3, 2, device="mps")
    with pytest.warns(UserWarning, match="'aten::embedding_renorm_' is not currently supported"):
        torch.embedding_renorm_(table, torch.tensor([1], device="mps"), 0.5, 2.0)
    assert table[1].norm().item() == pytest.approx(0.5, rel=1e-3)


def test_pinned_device_memory() -> None:
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(2, device="mps", pin_memory=True)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import mps_emulator; mps_emulator.install()\n" + code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_fallback_runs_on_the_cpu_with_one_warning() -> None:
    code = """
import torch, warnings
library = torch.library.Library("emulator_fallback", "DEF")
library.define("cpu_only(Tensor x) -> Tensor")
library.impl("cpu_only", lambda x: x * 2, "CPU")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    x = torch.tensor([3., 1., 3.], device="mps")
    y = torch.mode(x).values
    z = torch.ops.emulator_fallback.cpu_only(x)
    torch.mode(x)
print(y.is_mps, y.item(), z.is_mps, z.tolist())
print([str(w.message).splitlines()[0] for w in caught])
"""
    done = run(code, PYTORCH_ENABLE_MPS_FALLBACK="1")
    values, warned = done.stdout.splitlines()
    assert values == "True 3.0 True [6.0, 2.0, 6.0]"
    assert warned.count("fall back to run on the CPU") == 1
    assert "'aten::mode'" in warned


def test_floor_of_the_oldest_torch() -> None:
    code = """
import torch
from mps_emulator.device import _operators, _runtime
print(len(_operators.floor()), "kthvalue.values" in _operators.missing())
torch.kthvalue(torch.ones(3, device="mps"), 1)
"""
    done = run(code, MPS_EMULATOR_OPERATORS="2.7.0")
    assert done.stdout.split() == ["473", "True"]
    assert "NotImplementedError: The operator 'aten::kthvalue" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("MPS_EMULATOR_OPERATORS", "2.6", _operators.table_version),
        ("PYTORCH_ENABLE_MPS_FALLBACK", "yes", _runtime.cpu_fallback_wanted),
    ],
)
def test_bad_settings_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, read: Callable[[], object]
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} must be .* got '{value}'"):
        read()
