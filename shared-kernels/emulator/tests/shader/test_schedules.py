"""Orders of lanes, simdgroups and threadgroups."""

from __future__ import annotations

import threading

import pytest
import torch

from mps_emulator.shader import options

RACY = """
kernel void shift(device float* o, uint i [[thread_index_in_threadgroup]],
    uint n [[threads_per_threadgroup]]) {{
  threadgroup float t[256];
  t[i] = i;
  {barrier}
  o[i] = t[n - 1 - i];
}}
kernel void carry(device float* o, uint i [[thread_index_in_threadgroup]],
    uint group [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {{
  threadgroup float best;
  if (i == 0) best = 5;
  {barrier}
  float now = best;
  {barrier}
  if (group == 7 && lane == 0) best = 9;
  {barrier}
  o[i] = now + best;
}}
"""
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"


def results(lib, kernel, seeds):
    found = []
    for seed in seeds:
        options.seed = seed
        o = torch.zeros(256)
        try:
            getattr(lib, kernel)(o)
            found.append(tuple(o.tolist()))
        except RuntimeError as error:
            found.append("uninitialised" if "uninitialised" in str(error) else str(error))
    return found


@pytest.mark.parametrize("kernel", ["shift", "carry"])
def test_missing_barrier_is_caught_by_some_seed(compiled, kernel):
    right = compiled(RACY.format(barrier=BARRIER))
    wrong = compiled(RACY.format(barrier=""))
    seeds = range(8)
    good = results(right, kernel, seeds)
    assert len(set(good)) == 1
    assert any(result != good[0] for result in results(wrong, kernel, seeds))


def test_race_that_the_natural_order_hides(compiled):
    """One simdgroup writes, a later one reads: right in order, wrong in some other."""
    lib = compiled("""
kernel void f(device float* o, uint i [[thread_index_in_threadgroup]],
    uint group [[simdgroup_index_in_threadgroup]]) {
  threadgroup float t[32];
  if (group == 0) t[i] = 1;
  if (group == 1) o[i] = t[i - 32];
}
""")
    outcomes = results(lib, "f", range(10))
    assert outcomes[0] != "uninitialised"
    assert "uninitialised" in outcomes


def orders(compiled, seed):
    lib = compiled("""
kernel void f(device atomic_uint* count, device uint* when, uint i [[thread_position_in_grid]]) {
  when[i] = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
}
""")
    options.seed = seed
    when = torch.zeros(1000, dtype=torch.int32)
    lib.f(torch.zeros(1, dtype=torch.int32), when, threads=1000, group_size=96)
    return when.tolist()


def test_natural_order(compiled):
    assert orders(compiled, 0) == list(range(1000))


@pytest.mark.parametrize("seed", [1, 2, 12345, 2**40])
def test_seeded_orders_are_permutations(compiled, seed):
    order = orders(compiled, seed)
    assert sorted(order) == list(range(1000))
    assert order != list(range(1000))
    assert order == orders(compiled, seed)
    groups = [min(order[g * 96 : g * 96 + 96]) for g in range(11)]
    assert groups != sorted(groups)  # threadgroups
    inside = order[:96]
    assert inside[:32] != sorted(inside[:32])  # lanes
    simdgroups = [min(inside[s * 32 : s * 32 + 32]) for s in range(3)]
    assert all(max(inside[s * 32 : s * 32 + 32]) - simdgroups[s] == 31 for s in range(3))


def test_seeds_differ(compiled):
    assert len({tuple(orders(compiled, seed)) for seed in range(6)}) == 6


def test_order_changes_between_barriers(compiled):
    lib = compiled("""
kernel void f(device uint* o, uint i [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint c[2];
  if (i == 0) for (uint k = 0; k < 2; ++k) atomic_store_explicit(&c[k], 0u, memory_order_relaxed);
  for (uint k = 0; k < 2; ++k) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    o[k * 256 + i] = atomic_fetch_add_explicit(&c[k], 1u, memory_order_relaxed);
  }
}
""")
    options.seed = 3
    o = torch.zeros(512, dtype=torch.int32)
    lib.f(o, threads=256)
    assert sorted(o[:256].tolist()) == sorted(o[256:].tolist()) == list(range(256))
    assert o[:256].tolist() != o[256:].tolist()


def test_usable_after_an_error(compiled):
    lib = compiled("""
kernel void bad(device float* o, uint i [[thread_index_in_threadgroup]]) {
  threadgroup_barrier(mem_flags::mem_none);
  if (i == 100) o[1 << 20] = 1;
  threadgroup_barrier(mem_flags::mem_none);
}
kernel void good(device float* o, uint i [[thread_index_in_threadgroup]]) {
  threadgroup_barrier(mem_flags::mem_none);
  o[i] = simd_sum(1);
}
""")
    for _ in range(50):
        o = torch.zeros(256)
        with pytest.raises(RuntimeError, match="thread 100 of"):
            lib.bad(o)
        lib.good(o)
        assert o.tolist() == [32] * 256


def test_threads_of_the_process_take_turns(compiled):
    lib = compiled("""
kernel void f(device float* o, constant long& n, uint i [[thread_index_in_threadgroup]]) {
  threadgroup float t[64];
  for (long k = 0; k < n; ++k) {
    t[i] = k + i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    o[i] += t[63 - i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}
""")
    outputs = [torch.zeros(64) for _ in range(4)]

    def work(o):
        for _ in range(20):
            lib.f(o, 10)

    workers = [threading.Thread(target=work, args=(o,)) for o in outputs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = [20 * (45.0 + 10 * (63 - i)) for i in range(64)]
    assert all(o.tolist() == expected for o in outputs)
