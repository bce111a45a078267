from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys

import pytest
import torch


def bytes_at(address: int, count: int) -> list[int]:
    return list((ctypes.c_ubyte * count).from_address(address))


@pytest.mark.parametrize("count", [1, 16, 1000, 5000, 100_000])
def test_fresh_memory_is_poisoned(count: int) -> None:
    for _ in range(2):  # the second one is memory used before
        x = torch.empty(count, dtype=torch.uint8, device="mps")
        assert x.tolist() == [0xA5] * count
        x.fill_(1)
        assert torch.empty_strided((count,), (1,), dtype=torch.uint8, device="mps")[0] == 0xA5
        del x


def test_results_lie_between_poison_too() -> None:
    x = torch.ones(5, dtype=torch.uint8, device="mps") + 1
    assert bytes_at(x.data_ptr() - 8, 8) == [0xA5] * 8
    assert bytes_at(x.data_ptr() + 5, 8) == [0xA5] * 8


def test_storages_are_far_apart() -> None:
    tensors = [torch.zeros(3, device="mps") + 1 for _ in range(50)]
    starts = sorted(t.data_ptr() for t in tensors)
    assert min(b - a for a, b in itertools.pairwise(starts)) >= 64 * 1024


def test_access_outside_faults() -> None:
    # beyond the rest of the last page, before the start: pages and, in large blocks, the round-up
    code = """
import ctypes, os, signal
import mps_emulator
mps_emulator.install()
import torch
for count, offset in [(4, 4 + 128), (4, -8192), (65536, 65536 + 128), (65536, -12288),
                      (3_000_001, 3_000_001 + 128), (3_000_001, -160_000), (4, 3)]:
    x = torch.zeros(count, dtype=torch.uint8, device="mps")
    child = os.fork()
    if child == 0:
        ctypes.c_ubyte.from_address(x.data_ptr() + offset).value
        os._exit(0)
    print(os.WIFSIGNALED(status := os.waitpid(child, 0)[1]) and os.WTERMSIG(status))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["11"] * 6 + ["False"], done.stderr


@pytest.mark.parametrize(("offset", "side"), [(12, "behind its end"), (-1, "before its start")])
def test_write_at_the_edge_is_found_when_the_buffer_is_freed(
    offset: int, side: str, capfd: pytest.CaptureFixture[str]
) -> None:
    x = torch.zeros(3, device="mps")
    ctypes.c_ubyte.from_address(x.data_ptr() + offset).value = 1
    del x
    (found,) = torch.ops.mps_emulator.take_overruns()
    assert found == f"a kernel wrote outside a device buffer of 12 bytes ({side})"
    assert found in capfd.readouterr().err
    assert torch.ops.mps_emulator.take_overruns() == []
