from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import mps_emulator
from mps_emulator.device._known_wrong import NAMES, KnownWrongOnMPSError


def on_device(values: list[float] | torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.as_tensor(values).to("mps", dtype)


def index() -> torch.Tensor:
    return torch.tensor([0, 1], device="mps")


def base() -> torch.Tensor:
    return torch.zeros(6, device="mps")


def cloud(count: int) -> torch.Tensor:
    return torch.rand(count, 3, device="mps")


def ones(count: int = 2, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(count, device="mps", dtype=dtype)


WRONG: list[tuple[str, Callable[[], object]]] = [
    ("sort.int64", lambda: torch.arange(257, device="mps").sort()),
    ("sort.int64", lambda: torch.arange(257, device="mps").argsort()),
    ("sort.int64", lambda: torch.arange(257, device="mps").argsort(stable=True)),
    ("sort.int64", lambda: torch.sort(torch.arange(257, device="mps"), stable=True)),
    ("sort.int64", lambda: torch.msort(torch.arange(257, device="mps"))),
    ("sort.strided", lambda: cloud(4).t().sort()),
    ("sort.strided", lambda: cloud(4)[:, 0].argsort()),
    ("sort.strided", lambda: torch.msort(cloud(4).t())),
    ("sort.long", lambda: torch.zeros(2**22 + 1, device="mps").sort(dim=0)),
    ("sort.small_types", lambda: ones(2, torch.bool).sort()),
    ("sort.small_types", lambda: ones(2, torch.int8).sort()),
    ("sort.small_types", lambda: ones(2, torch.uint8).argsort()),
    ("sort.small_types", lambda: ones(2, torch.float16).sort()),
    ("topk.integers", lambda: ones(4, torch.int32).topk(2)),
    ("topk.dimensions", lambda: torch.rand(1, 1, 1, 1, 4, device="mps").topk(2)),
    ("unique.inverse", lambda: on_device([1, 2**24 + 1]).unique(return_inverse=True)),
    ("unique.inverse", lambda: on_device([1, -(2**24) - 1]).unique(return_inverse=True)),
    (
        "unique.counts",
        lambda: torch.ones(2**16 + 1, device="mps").unique(return_counts=True),
    ),
    (
        "unique.counts",
        lambda: torch.ones(2**16 + 1, device="mps").unique_consecutive(return_counts=True),
    ),
    ("scatter.slice", lambda: base()[2:].scatter_add_(0, index(), ones())),
    ("scatter.slice", lambda: base()[::2].scatter_add_(0, index(), ones())),
    ("scatter.slice", lambda: base()[2:].scatter_(0, index(), ones())),
    ("scatter.slice", lambda: base()[2:].scatter_(0, index(), 1.0)),
    ("scatter.slice", lambda: base()[2:].scatter_reduce_(0, index(), ones(), "amax")),
    ("scatter.slice", lambda: torch.scatter(base(), 0, index(), ones(), out=ones(7)[1:])),
    (
        "scatter_reduce.integers",
        lambda: ones(2, torch.int32).scatter_reduce(0, index(), ones(2, torch.int32), "amin"),
    ),
    ("index_add.int64", lambda: ones(2, torch.int64).index_add_(0, index(), ones(2, torch.int64))),
    (
        "index_put.bool",
        lambda: ones(5, torch.bool)[1:].index_put_(
            (index(),), ones(2, torch.bool), accumulate=True
        ),
    ),
    ("amax.int64", lambda: on_device([-3, -5]).amax()),
    ("amax.int64", lambda: on_device([-3, -5]).max()),
    ("amax.int64", lambda: on_device([3, 5]).amin(dim=0)),
    ("amax.int64", lambda: on_device([3, 5]).min()),
    ("amax.int64", lambda: torch.aminmax(on_device([3, 5]))),
    ("division.integers", lambda: on_device([3, 2**24 + 1]) // 2),
    ("division.integers", lambda: on_device([3, 5], torch.int32) // on_device([1, 2**25])),
    ("division.integers", lambda: on_device([3, -(2**25)]) % 2),
    ("division.integers", lambda: torch.fmod(on_device([3, 2**25]), 2)),
    ("division.integers", lambda: on_device([2**25]).div(2, rounding_mode="trunc")),
    ("cdist.matmul", lambda: torch.cdist(cloud(26), cloud(3))),
    (
        "cdist.matmul",
        lambda: torch.cdist(cloud(3), cloud(3), compute_mode="use_mm_for_euclid_dist"),
    ),
]  # fmt: skip

FINE: list[Callable[[], object]] = [
    lambda: on_device([3, 5]).amax(),
    lambda: on_device([-3, 5]).amin(),
    lambda: on_device([3, 5], torch.int32).amin(),
    lambda: on_device([2**25, 5]) / 2,
    lambda: on_device([2**24, 5]) // 2,
    lambda: on_device([3.0, 5.0]) // 2,
    lambda: on_device([3.0, 5.0]) % 2,
    lambda: torch.arange(256, device="mps").sort(),
    lambda: torch.arange(300, dtype=torch.int32, device="mps").sort(),
    lambda: cloud(4).t().contiguous().sort(),
    lambda: cloud(300).sort(dim=0),
    lambda: on_device([1, 2, 3], torch.int8).sort(),
    lambda: on_device([1.0, 1.0]).topk(1),
    lambda: on_device([1, 2]).topk(1),
    lambda: on_device([1, 2**24]).unique(return_inverse=True),
    lambda: on_device([1, 2**30]).unique(),
    lambda: torch.ones(2**16, device="mps").unique(return_counts=True),
    lambda: on_device([1, 2**30], torch.int32).unique(return_inverse=True),
    lambda: base().scatter_add_(0, index(), ones()),
    lambda: base()[2:].scatter_add(0, index(), ones()),
    lambda: base().scatter_reduce_(0, index(), ones(), "amax"),
    lambda: ones(2, torch.int32).index_add_(0, index(), ones(2, torch.int32)),
    lambda: torch.cdist(cloud(25), cloud(25)),
    lambda: torch.cdist(cloud(40), cloud(40), compute_mode="donot_use_mm_for_euclid_dist"),
    lambda: torch.cdist(cloud(40), cloud(40), p=1.0),
]


@pytest.mark.parametrize(("name", "call"), WRONG)
def test_refused_by_name(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(KnownWrongOnMPSError) as error:
        call()
    text = str(error.value)
    assert text.startswith("aten::")
    assert f'mps_emulator.allow("{name}")' in text
    assert f'allow_wrong_on_mps("{name}")' in text
    with mps_emulator.allow(name):
        call()
    with pytest.raises(KnownWrongOnMPSError):
        call()


@pytest.mark.parametrize("call", FINE)
def test_neighbouring_calls_are_allowed(call: Callable[[], object]) -> None:
    call()


def test_every_entry_is_tested() -> None:
    assert {name for name, _ in WRONG} == set(NAMES) == set(mps_emulator.known_wrong())


def test_allowing_one_does_not_allow_another() -> None:
    with mps_emulator.allow("sort.long"), pytest.raises(KnownWrongOnMPSError):
        torch.arange(257, device="mps").sort()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \['sorting'\]; the names are sort.int64"):
        mps_emulator.allow("sorting").__enter__()


@pytest.mark.allow_wrong_on_mps("sort.int64", "unique.counts")
def test_marker() -> None:
    assert torch.arange(300, device="mps").sort().values[-1].item() == 299
    many = torch.ones(2**16 + 1, device="mps")
    assert many.unique(return_counts=True)[1].tolist() == [2**16 + 1]


def test_refusal_reaches_through_backward() -> None:
    class Sorts(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            torch.arange(300, device="mps").sort()
            return grad

    with pytest.raises(KnownWrongOnMPSError):
        Sorts.apply(ones().requires_grad_()).sum().backward()
