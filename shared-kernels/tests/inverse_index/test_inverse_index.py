"""The stable order and what is made of it, on both devices."""

import pytest
import torch

import mps_emulator
from mps_pointops.ops.inverse_index import mps as room
from mps_pointops.ops.inverse_index.inverse_index import positions_of, stable_order
from mps_pointops.ops.inverse_index.reference import positions_of_reference
from pointops_testing import assert_same_bits

SIZES = (0, 1, 31, 32, 33, 255, 1023, 1024, 1025, 4095, 4096, 4097, 20000)


def check(device, keys, highest):
    ordered, order = torch.sort(keys, stable=True)
    got = stable_order(keys.to(torch.int32).to(device), highest)
    assert_same_bits(got[0], ordered.to(torch.int32))
    assert_same_bits(got[1], order.to(torch.int32))


@pytest.mark.parametrize("highest", [0, 1, 200, 255, 256, 70_000, 2**24 + 5, 2**31 - 1])
@pytest.mark.parametrize("size", SIZES)
def test_stable_order(device, size, highest):
    rng = torch.Generator().manual_seed(size)
    keys = torch.randint(highest + 1, (size,), generator=rng, dtype=torch.int64)
    if size > 2:
        keys[0], keys[-1] = highest, highest
    check(device, keys, highest)


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("long", [0, 2**31])
@pytest.mark.parametrize("highest", [1, 1023, 1024, 2**31 - 1])
def test_kinds_of_tiles(monkeypatch, few, long, highest):
    monkeypatch.setattr(room, "SORT_FEW_TILES", few)
    monkeypatch.setattr(room, "SORT_LONG_TILES", long)
    keys = torch.randint(highest + 1, (30_000,), generator=torch.Generator().manual_seed(5))
    check("mps", keys, highest)
    check("mps", torch.full((9_000,), highest), highest)


@pytest.mark.slow
def test_many_tiles():
    keys = torch.randint(2**20, (270_000,), generator=torch.Generator().manual_seed(6))
    check("mps", keys, 2**20 - 1)


@pytest.mark.skipif(not mps_emulator.is_installed(), reason="a real GPU cannot be told its order")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_order_of_threads(monkeypatch, seed):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "seed", seed)
    for few in (0, 64):
        monkeypatch.setattr(room, "SORT_FEW_TILES", few)
        keys = torch.randint(3000, (9_000,), generator=torch.Generator().manual_seed(seed))
        check("mps", keys, 2999)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(
    "index",
    [
        torch.randint(7, (3, 50), generator=torch.Generator().manual_seed(0)),
        torch.zeros(2, 3000, dtype=torch.int64),  # all at one target
        torch.tensor([[0, 6, -1, 7, 3, 2**30, -(2**30)]]),  # some point nowhere
        torch.empty(2, 0, dtype=torch.int64),
        torch.empty(0, 5, dtype=torch.int64),
    ],
)
def test_positions(device, index, dtype):
    order, first = positions_of(index.to(device, dtype), 7)
    wanted = positions_of_reference(index, 7)
    bounds = first.tolist()
    assert len(bounds) == len(index) * 7 + 1
    for b, targets in enumerate(wanted):
        for n, positions in enumerate(targets):
            begin, end = bounds[b * 7 + n], bounds[b * 7 + n + 1]
            assert order[begin:end].tolist() == positions


def test_opcheck(device):
    keys = torch.tensor([3, 1, 3, 0], dtype=torch.int32, device=device)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    op = torch.ops.mps_pointops.stable_order.default
    torch.library.opcheck(op, (keys, 3), test_utils=checks)
