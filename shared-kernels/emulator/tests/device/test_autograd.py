from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, device="mps", requires_grad=True)


def test_backward() -> None:
    x, w = leaf(1, 2, 3), leaf(4, 5, 6)
    ((x * w).relu().sum() + x.pow(2).sum()).backward()
    assert x.grad is not None
    assert x.grad.is_mps
    assert x.grad.tolist() == [6, 9, 12]
    assert w.grad is not None
    assert w.grad.tolist() == [1, 2, 3]


def test_gradients_equal_those_of_the_cpu() -> None:
    torch.manual_seed(0)
    host = [torch.rand(6, 4, requires_grad=True), torch.rand(4, 3, requires_grad=True)]
    device = [t.detach().to("mps").requires_grad_() for t in host]

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.layer_norm((x @ w).softmax(-1), (3,))
        index = torch.tensor([0, 2, 2], device=x.device)
        return (y[index].cumsum(0).max(dim=1).values * y.std()).sum()

    loss(*host).backward()
    loss(*device).backward()
    for expected, got in zip(host, device, strict=True):
        assert got.grad is not None
        torch.testing.assert_close(got.grad.cpu(), expected.grad)


def test_backward_crosses_devices() -> None:
    host = torch.ones(3, requires_grad=True)
    (host.to("mps") * 2).cpu().sum().backward()
    assert host.grad is not None
    assert host.grad.tolist() == [2, 2, 2]


def test_double_backward() -> None:
    x = leaf(1, 2, 3)
    (first,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 12, 18]


def test_accumulation_and_hooks() -> None:
    x = leaf(1, 2)
    seen: list[torch.Tensor] = []
    x.register_hook(lambda grad: seen.append(grad) or grad * 10)  # type: ignore[func-returns-value]
    for _ in range(2):
        (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [60, 60]
    assert [g.tolist() for g in seen] == [[3, 3]] * 2
    assert all(g.is_mps for g in seen)


class Double(torch.autograd.Function):
    """Twice its input, by a kernel that autograd cannot see into."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.detach() * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        assert x.is_mps
        return grad * 2 * torch.ones_like(x)


def test_function() -> None:
    x = leaf(1, 2)
    y = Double.apply(x)
    y.sum().backward()
    assert y.tolist() == [2, 4]
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]


def test_gradcheck_in_single_precision() -> None:
    x = torch.rand(3, device="mps", requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wants float64, which the device lacks
        assert torch.autograd.gradcheck(lambda a: (a * a).sin(), (x,), eps=1e-2, atol=1e-2)


def test_in_place_changes_of_saved_tensors_are_found() -> None:
    x = leaf(1, 2)
    y = x.exp()  # its gradient needs the result
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_no_grad_and_inference_mode() -> None:
    x = leaf(1, 2)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = torch.ones(2, device="mps") * 2
        y[0] = 5
        assert y.is_inference()
        assert y.sort().values.tolist() == [2, 5]


def test_checkpoint() -> None:
    x = leaf(1, 2)
    checkpoint(lambda a: (a * a).sin().cos(), x, use_reentrant=False).sum().backward()
    assert x.grad is not None


def test_autocast() -> None:
    x = torch.rand(4, 4, device="mps", requires_grad=True)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("mps", dtype=dtype):
            assert torch.is_autocast_enabled("mps")
            product = x @ x
            assert product.dtype == dtype
            assert torch.nn.functional.linear(x, x).dtype == dtype
    assert not torch.is_autocast_enabled("mps")
    product.float().sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float32


def test_cpu_autocast_does_not_reach_the_device() -> None:
    x = torch.rand(4, 4, device="mps")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32


def test_transforms() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="mps")
    assert torch.func.grad(lambda a: (a**2).sum())(x).tolist() == [[2, 4], [6, 8]]
    mapped = torch.func.vmap(torch.func.grad(lambda a: (a**3).sum()))(x)
    assert mapped.is_mps
    assert mapped.tolist() == [[3, 12], [27, 48]]
    assert torch.func.jacrev(lambda a: a * 2)(x[0]).tolist() == [[2, 0], [0, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own TorchScript
        value, tangent = torch.func.jvp(lambda a: a * a, (x,), (torch.ones_like(x),))
    assert tangent.tolist() == [[2, 4], [6, 8]]
    assert value.is_mps


END = """
import atexit, threading, time
main, held, freed = threading.get_ident(), threading.Event(), threading.Event()
atexit.register(lambda: print(held.is_set(), freed.is_set()))  # the last to run
import mps_emulator
mps_emulator.install()
import torch

class Slow:
    def __call__(self, tensor):
        return tensor

    def __del__(self):
        if threading.get_ident() != main:
            held.set()
            time.sleep(0.3)
            freed.set()

x = torch.ones(3, device="mps", requires_grad=True)
while not held.wait(0.01):  # until the worker, not this thread, is the last to let go
    with torch.autograd.graph.saved_tensors_hooks(Slow(), Slow()):
        x.neg().sum().backward()
"""


def test_the_worker_is_at_rest_when_python_ends() -> None:
    """Otherwise it may need Python when there is none, and the process is aborted."""
    command = [sys.executable, "-c", END]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")
