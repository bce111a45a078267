from __future__ import annotations

import pytest
import torch


def test_device_atomics(compiled):
    lib = compiled("""
kernel void f(device atomic_uint* u, device atomic_int* s, device atomic_float* f,
    device uint* plain, uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&u[0], 1u, memory_order_relaxed);
  atomic_fetch_max_explicit(&u[1], i, memory_order_relaxed);
  atomic_fetch_or_explicit(&u[2], 1u << (i % 8), memory_order_relaxed);
  atomic_fetch_xor_explicit(&u[3], i, memory_order_relaxed);
  atomic_fetch_min_explicit(&s[0], -int(i), memory_order_relaxed);
  atomic_fetch_sub_explicit(&s[1], 2, memory_order_relaxed);
  atomic_fetch_and_explicit(&s[2], int(i) | 8, memory_order_relaxed);
  atomic_fetch_add_explicit(&f[0], 0.5f, memory_order_relaxed);
  atomic_fetch_sub_explicit(&f[1], 0.25f, memory_order_relaxed);
  atomic_fetch_add_explicit((device atomic_uint*)&plain[1], 2u, memory_order_relaxed);
}
""")
    n = 200
    u, s = torch.zeros(4, dtype=torch.int32), torch.tensor([0, 0, -1], dtype=torch.int32)
    f, plain = torch.zeros(2), torch.zeros(2, dtype=torch.int32)
    lib.f(u, s, f, plain, threads=n, group_size=64)
    xor = 0
    for i in range(n):
        xor ^= i
    assert u.tolist() == [n, n - 1, 255, xor]
    assert s.tolist() == [-(n - 1), -2 * n, 8]
    assert f.tolist() == [n / 2, -n / 4]
    assert plain.tolist() == [0, 2 * n]


def test_threadgroup_atomics_and_order(compiled):
    lib = compiled("""
kernel void f(device uint* o, uint i [[thread_index_in_threadgroup]]) {
  threadgroup atomic_uint count;
  threadgroup uint lowest;
  if (i == 0) { atomic_store_explicit(&count, 0u, memory_order_relaxed); lowest = UINT_MAX; }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint at = atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);
  atomic_fetch_min_explicit((threadgroup atomic_uint*)&lowest, i + 5, memory_order_relaxed);
  o[at] = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) o[100] = atomic_load_explicit(&count, memory_order_relaxed) * 1000 + lowest;
}
""")
    o = torch.zeros(101, dtype=torch.int32)
    lib.f(o, threads=100, group_size=100)
    assert o.tolist() == [1] * 100 + [100005]


def test_exchange_and_compare(values):
    body = """
threadgroup atomic_int a;
atomic_store_explicit(&a, 3, memory_order_relaxed);
o[0] = atomic_exchange_explicit(&a, 4, memory_order_relaxed);
int e = 9;
o[1] = atomic_compare_exchange_weak_explicit(&a, &e, 5, memory_order_relaxed, memory_order_relaxed);
o[2] = e;
o[3] = atomic_compare_exchange_weak_explicit(&a, &e, 5, memory_order_relaxed, memory_order_relaxed);
o[4] = atomic_load_explicit(&a, memory_order_relaxed);
threadgroup atomic_bool b;
atomic_store_explicit(&b, true, memory_order_relaxed);
o[5] = atomic_load_explicit(&b, memory_order_relaxed) + sizeof(atomic_bool);
"""
    assert values(body, 6, "int") == [3, 0, 4, 1, 5, 5]


def test_64_bit_maximum(compiled):
    lib = compiled("""
kernel void f(device atomic_ulong* a, uint i [[thread_position_in_grid]]) {
  atomic_max_explicit(&a[0], ulong(i) << 32, memory_order_relaxed);
  atomic_min_explicit(&a[1], ulong(i) << 32, memory_order_relaxed);
}
""")
    a = torch.tensor([0, 1 << 60])
    lib.f(a, threads=50)
    assert a.tolist() == [49 << 32, 0]


@pytest.mark.parametrize(
    "call",
    [
        "atomic_fetch_min_explicit(f, 1.0f, memory_order_relaxed)",
        "atomic_fetch_max_explicit(f, 1.0f, memory_order_relaxed)",
        "atomic_fetch_or_explicit(f, 1.0f, memory_order_relaxed)",
        "atomic_fetch_add_explicit(l, 1ul, memory_order_relaxed)",
        "atomic_fetch_max_explicit(l, 1ul, memory_order_relaxed)",
        "atomic_fetch_add_explicit(plain, 1u, memory_order_relaxed)",
        "atomic_fetch_add_explicit(u, 1u, memory_order_acquire)",
        "atomic_fetch_add_explicit(u, 1u, memory_order_seq_cst)",
        "atomic_fetch_add_explicit(u, 1u)",
    ],
)
def test_operations_that_do_not_exist(compiled, call):
    with pytest.raises(SyntaxError, match=r"program_source:5:\d+: error"):
        compiled(
            "kernel void f(device atomic_float* f, device atomic_ulong* l, device uint* plain,\n"
            "    device atomic_uint* u) {\n"
            f"  {call};\n}}"
        )


def test_order_of_metal_32(compiled, monkeypatch):
    from mps_emulator.shader import options

    monkeypatch.setattr(options, "metal_version", 320)
    text = "kernel void f(device atomic_uint* u) {{\n {}\n}}"
    fence = "atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);"
    compiled(text.format(fence))
    with pytest.raises(SyntaxError, match="memory_order_relaxed only"):
        compiled(text.format("atomic_fetch_add_explicit(u, 1u, memory_order_seq_cst);"))


def test_float_atomics_in_threadgroup_memory(values):
    body = """
threadgroup atomic_float a;
atomic_store_explicit(&a, 1.0f, memory_order_relaxed);
atomic_fetch_add_explicit(&a, 1.0f, memory_order_relaxed);
"""
    with pytest.raises(RuntimeError, match="line 8: float atomics exist in device memory only"):
        values(body)
