from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


def test_manual_seed_seeds_the_device() -> None:
    torch.manual_seed(5)
    first = torch.rand(4, device="mps")
    second = torch.rand(4, device="mps")
    torch.manual_seed(5)
    assert torch.equal(torch.rand(4, device="mps"), first)
    assert torch.equal(torch.rand(4, device="mps"), second)
    assert not torch.equal(first, second)


def test_device_numbers_are_not_the_cpu_numbers() -> None:
    torch.manual_seed(5)
    host, device = torch.rand(4), torch.rand(4, device="mps")
    assert not torch.equal(host, device.cpu())


def test_device_draws_leave_the_cpu_generator_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(4)
    torch.manual_seed(5)
    torch.rand(9, device="mps")
    torch.nn.functional.dropout(torch.ones(9, device="mps"))
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.rand(8, device="mps", generator=g),
        lambda g: torch.randn(8, device="mps", generator=g),
        lambda g: torch.randint(0, 100, (8,), device="mps", generator=g),
        lambda g: torch.randperm(8, device="mps", generator=g),
        lambda g: torch.zeros(8, device="mps").uniform_(generator=g),
        lambda g: torch.zeros(8, device="mps").normal_(generator=g),
        lambda g: torch.bernoulli(torch.full((32,), 0.5, device="mps"), generator=g),
        lambda g: torch.multinomial(torch.ones(32, device="mps"), 8, generator=g),
    ],
)
def test_generator(draw: Callable[[torch.Generator], torch.Tensor]) -> None:
    generator = torch.Generator(device="mps").manual_seed(3)
    assert generator.device.type == "mps"
    assert generator.initial_seed() == 3
    first, second = draw(generator), draw(generator)
    assert first.is_mps
    assert not torch.equal(first, second)
    assert torch.equal(draw(torch.Generator("mps").manual_seed(3)), first)


def test_state() -> None:
    generator = torch.Generator("mps")
    state = generator.get_state()
    first = torch.rand(3, device="mps", generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.rand(3, device="mps", generator=generator), first)
    whole = torch.mps.get_rng_state()
    first = torch.rand(3, device="mps")
    torch.mps.set_rng_state(whole)
    assert torch.equal(torch.rand(3, device="mps"), first)
    torch.mps.manual_seed(9)
    first = torch.nn.functional.dropout(torch.ones(64, device="mps"))
    torch.mps.manual_seed(9)
    assert torch.equal(torch.nn.functional.dropout(torch.ones(64, device="mps")), first)
    torch.mps.seed()
    assert not torch.equal(torch.nn.functional.dropout(torch.ones(64, device="mps")), first)


def test_generator_of_another_device_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected a 'mps' device type for generator"):
        torch.rand(3, device="mps", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator"):
        torch.rand(3, generator=torch.Generator("mps"))
