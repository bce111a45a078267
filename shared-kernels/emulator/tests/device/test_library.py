from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

SUBSET = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")  # what torch has for MPS

library = torch.library.Library("emulator_tests", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.define("into(Tensor x, Tensor(a!) out) -> ()")
library.define("large(Tensor x, float limit) -> Tensor")


def _twice(x: torch.Tensor) -> torch.Tensor:
    assert x.is_mps
    assert not isinstance(x, FakeTensor)
    return torch.empty_like(x).copy_(x.detach() * 2)


def _into(x: torch.Tensor, out: torch.Tensor) -> None:
    assert out.is_mps
    out.copy_(x)


library.impl("twice", _twice, "MPS")
library.impl("into", _into, "MPS")
library.impl("large", lambda x, limit: (x > limit).nonzero().flatten(), "MPS")


@torch.library.register_fake("emulator_tests::twice")
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.register_fake("emulator_tests::large")
def _(x: torch.Tensor, limit: float) -> torch.Tensor:
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(size, dtype=torch.int64)


torch.library.register_autograd("emulator_tests::twice", lambda ctx, grad: grad * 2)


@torch.library.custom_op("emulator_tests::thrice", mutates_args=(), device_types="mps")
def thrice(x: torch.Tensor) -> torch.Tensor:
    assert x.is_mps
    return x * 3


@thrice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


thrice.register_autograd(lambda ctx, grad: grad * 3)
AUTOCAST = not torch.__version__.startswith("2.7.")  # which knows of no autocast rule for MPS
if AUTOCAST:
    torch.library.register_autocast("emulator_tests::thrice", "mps", torch.float16)

twice = torch.ops.emulator_tests.twice
large = torch.ops.emulator_tests.large


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_kernels_are_dispatched_by_device() -> None:
    assert twice(torch.ones(2, device="mps")).tolist() == [2, 2]
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        twice(torch.ones(2))
    out = torch.zeros(2, device="mps")
    torch.ops.emulator_tests.into(torch.ones(2, device="mps"), out)
    assert out.tolist() == [1, 1]


@pytest.mark.parametrize(("op", "factor"), [(twice, 2), (thrice, 3)])
def test_registered_gradients(op: Any, factor: int) -> None:
    x = torch.ones(3, device="mps", requires_grad=True)
    (op(x) * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2 * factor] * 3


@pytest.mark.skipif(not AUTOCAST, reason="torch 2.7 takes no autocast rule for MPS")
def test_registered_autocast() -> None:
    with torch.autocast("mps", dtype=torch.float16):
        assert thrice(torch.ones(2, device="mps")).dtype == torch.float16


@pytest.mark.parametrize("op", [twice.default, thrice])
def test_opcheck(op: Any) -> None:
    x = torch.randn(3, device="mps", requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = torch.library.opcheck(op, (x,), test_utils=SUBSET)
    assert set(result.values()) == {"SUCCESS"}


def test_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        x = torch.empty(4, 3, device="mps")
        y = twice(x) @ x.t()
        assert isinstance(y, FakeTensor)
        assert y.shape == (4, 4)
        assert y.device.type == "mps"
        assert x.to("cpu").device.type == "cpu"
        assert mode.from_tensor is not None
    real = torch.ones(2, device="mps")
    fake = FakeTensorMode().from_tensor(real)
    assert fake.device.type == "mps"


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="aot_eager", fullgraph=True, **options)


def test_compile() -> None:
    x = torch.arange(4.0, device="mps")
    function = compiled(lambda a: (thrice(twice(a)) + 1).sin())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(x)
    assert result.is_mps
    assert torch.equal(result, (x * 6 + 1).sin())


def test_compile_with_gradients() -> None:
    x = torch.ones(3, device="mps", requires_grad=True)
    model = torch.nn.Linear(3, 2).to("mps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(lambda a: model(twice(a)).sum())(x).backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, 2 * model.weight.detach().sum(0))
    assert model.weight.grad is not None


def test_compile_with_data_dependent_size() -> None:
    x = torch.tensor([0.0, 3.0, 5.0], device="mps")
    captured = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
    with warnings.catch_warnings(), captured:
        warnings.simplefilter("ignore")
        assert compiled(lambda a: large(a, 1.0) + 1, dynamic=True)(x).tolist() == [2, 3]


def test_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twice(x) + 1

    x = torch.ones(2, device="mps")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(Model(), (x,))
    assert exported.module()(x).tolist() == [3, 3]
    assert any("twice" in str(node.target) for node in exported.graph.nodes)


def test_dispatch_modes_see_the_operator_once() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, device="mps")
    with Log():
        x.add(1).mul(2)
    assert seen == ["aten.add.Tensor", "aten.mul.Tensor"]


def test_profiler() -> None:
    x = torch.ones(2, device="mps")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x.add(1)
    assert "aten::add" in {event.key for event in profile.key_averages()}
