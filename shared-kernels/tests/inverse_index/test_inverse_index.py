"""The stable order and what is made of it, on both devices."""

import pytest
import torch

from mps_pointops.ops.inverse_index.inverse_index import positions_of, stable_order
from mps_pointops.ops.inverse_index.reference import positions_of_reference
from pointops_testing import assert_same_bits

SIZES = (0, 1, 31, 32, 33, 255, 1023, 1024, 1025, 3000, 20000)


@pytest.mark.parametrize("highest", [0, 1, 200, 255, 256, 70_000, 2**24 + 5, 2**31 - 1])
@pytest.mark.parametrize("size", SIZES)
def test_stable_order(device, size, highest):
    rng = torch.Generator().manual_seed(size)
    keys = torch.randint(highest + 1, (size,), generator=rng, dtype=torch.int64)
    if size > 2:
        keys[0], keys[-1] = highest, highest
    ordered, order = torch.sort(keys, stable=True)
    got = stable_order(keys.to(torch.int32).to(device), highest)
    assert_same_bits(got[0], ordered.to(torch.int32))
    assert_same_bits(got[1], order.to(torch.int32))


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
