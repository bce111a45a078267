from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import mps_emulator


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x.to("cpu", non_blocking=True), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: torch.empty(4).copy_(x), 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x[x > 1], 1),
        (lambda x: x.masked_select(x > 1), 1),
        (lambda x: x.index_put_((x > 1,), torch.tensor(0.0)), 1),
        (lambda x: x.int().unique(), 1),
        (lambda x: torch.equal(x, x), 1),
        (lambda x: bool((x > 1).any()), 1),
        (lambda x: x.repeat_interleave(torch.tensor([1, 0, 2, 1], device="mps")), 1),
        (lambda x: x + 1, 0),
        (lambda x: x[1:].sum(), 0),
        (lambda x: x.masked_fill(x > 1, 0), 0),
        (lambda x: torch.where(x > 1, x, 0), 0),
        (lambda x: torch.ones(3).to("mps"), 0),
        (lambda x: x[torch.tensor([1, 2], device="mps")], 0),
    ],
)
def test_readbacks(call: Callable[[torch.Tensor], object], count: int) -> None:
    x = torch.arange(4.0, device="mps")
    with mps_emulator.count_readbacks() as reads:
        call(x)
    assert reads.count == count, reads.operators
    assert len(reads.operators) == count


def test_count_is_good_during_the_block_and_final_after_it() -> None:
    x = torch.ones(3, device="mps")
    with mps_emulator.count_readbacks() as reads:
        x.cpu()
        assert reads.count == 1
        x.cpu()
        assert reads.operators == ["aten::copy_(mps to cpu)"] * 2
    x.cpu()
    assert reads.count == 2


def test_blocks_nest() -> None:
    x = torch.ones(3, device="mps")
    with mps_emulator.count_readbacks() as outer:
        x.cpu()
        with mps_emulator.count_readbacks() as inner:
            x.sum().item()
        x.cpu()
    assert inner.operators == ["aten::_local_scalar_dense"]
    assert outer.count == 3


def test_operators() -> None:
    x = torch.ones(3, device="mps")
    with mps_emulator.count_operators() as calls:
        (x + 1)[1:].sum()
    assert [name.split(".")[0] for name in calls.operators] == ["aten::add", "aten::sum"]


def test_read_backs_in_backward_count() -> None:
    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            grad.sum().item()
            return grad

    y = Reads.apply(torch.ones(3, device="mps", requires_grad=True)).sum()
    with mps_emulator.count_readbacks() as reads:
        y.backward()
    assert reads.count == 1
