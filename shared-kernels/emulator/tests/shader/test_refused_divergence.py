"""Divergent simdgroup functions and barriers, wrong lanes, endless loops."""

from __future__ import annotations

import pytest
import torch

from mps_emulator.shader import options

BARRIER = "threadgroup_barrier(mem_flags::mem_none);"
SIMD_BARRIER = "simdgroup_barrier(mem_flags::mem_none);"

BARRIER = "threadgroup_barrier(mem_flags::mem_none);"
SIMD_BARRIER = "simdgroup_barrier(mem_flags::mem_none);"


@pytest.mark.parametrize(
    ("body", "match", "line"),
    [
        (f"if (i < 5) simd_sum(1);\n {SIMD_BARRIER}", "divergent simdgroup", 4),
        ("if (i < 5) o[i] = simd_sum(1);\n else o[i] = simd_sum(2);", "divergent simdgroup", 4),
        (f"if (i < 5) o[i] = simd_sum(1);\n {BARRIER}", "divergent simdgroup", 4),
        ("for (uint k = 0; k <= i; ++k) o[i] = simd_sum(1);\n simd_max(2);", "divergent simd", 4),
        (f"if (i < 5) {BARRIER}", "unequal barrier", 4),
        (f"if (i >= 5) return;\n {BARRIER}", "thread 5 has ended", 5),
        (f"if (i < 40) {BARRIER}\n else {BARRIER}", "divergent barrier", 4),
        (f"for (uint k = 0; k < i / 32; ++k)\n {BARRIER}", "unequal", 5),
        ("if (i < 5) o[i] = twice(1);\n else o[i] = twice(2);", "divergent simdgroup", 3),
    ],
)
def test_divergence(compiled, refused, body, match, line):
    lib = compiled(
        "__attribute__((noinline)) int twice(int a) { return simd_sum(a) * 2; } kernel void f("
        "device int* o, uint i [[thread_index_in_threadgroup]]) {\n"
        f"{body}\n}}"
    )
    o = torch.zeros(64, dtype=torch.int32)
    refused(lib, o, match=match, line=line)


def test_message_names_the_other_lane(compiled, refused):
    lib = compiled("""
kernel void f(device int* o, uint i [[thread_index_in_threadgroup]]) {
  if (i == 3)
    o[i] = simd_sum(1);
  threadgroup_barrier(mem_flags::mem_none);
}
""")
    message = refused(lib, torch.zeros(32, dtype=torch.int32), match="divergent", line=6)
    assert "thread 0 at threadgroup_barrier, line 7" in message
    assert "(thread 3 of threadgroup (0, 0, 0))" in message


def test_ended_threads_can_be_let_pass(compiled, monkeypatch):
    monkeypatch.setattr(options, "ended_threads_pass_barriers", True)
    lib = compiled("""
kernel void f(device int* o, uint i [[thread_index_in_threadgroup]]) {
  if (i >= 40) return;
  threadgroup_barrier(mem_flags::mem_none);
  o[i] = 1;
}
""")
    o = torch.zeros(64, dtype=torch.int32)
    lib.f(o)
    assert o.sum() == 40


@pytest.mark.parametrize(
    ("expression", "n", "match"),
    [
        ("simd_shuffle(i, ushort(20))", 20, "simd_shuffle reads lane 20, which is not active"),
        ("simd_shuffle(i, ushort(32))", 32, "reads lane 32"),
        ("simd_shuffle_down(i, 1)", 20, "simd_shuffle_down reads lane 20"),
        ("simd_shuffle_xor(i, 1)", 31, "simd_shuffle_xor reads lane 31"),
        ("simd_broadcast(i, 31)", 31, "simd_broadcast reads lane 31"),
        ("simd_shuffle_rotate_down(i, 1)", 31, "reads lane 31"),
        ("simd_shuffle_xor(i, ushort(i & 1))", 32, "same lane argument"),
        ("simd_broadcast(i, ushort(i))", 32, "same lane argument"),
    ],
)
def test_lanes(compiled, refused, expression, n, match):
    lib = compiled(
        "kernel void f(device uint* o, uint i [[thread_index_in_simdgroup]]) {\n"
        f"  o[i] = {expression};\n}}"
    )
    refused(lib, torch.zeros(32, dtype=torch.int32), match=match, line=4, threads=n)


def test_endless_loop(compiled, monkeypatch):
    monkeypatch.setattr(options, "time_limit", 0.3)
    lib = compiled("""
kernel void f(device int* o) { int k = 0; while (o[0] == 0) k++; o[1] = k; }
kernel void g(device int* o) { for (;;) threadgroup_barrier(mem_flags::mem_none); }
kernel void h(device int* o) { volatile int k = 1; while (k) { } o[0] = k; }
""")
    for kernel, line in (("f", 4), ("g", 5), ("h", 6)):
        o = torch.zeros(2, dtype=torch.int32)
        with pytest.raises(
            RuntimeError, match=f"kernel '{kernel}', line {line}: stopped after 0.3 s"
        ):
            getattr(lib, kernel)(o, threads=2)


def test_without_checks_faults_still_end_the_launch_only(compiled, monkeypatch):
    monkeypatch.setattr(options, "checks", False)
    lib = compiled("kernel void f(device float* o) {\n  o[1l << 40] = 1;\n}")
    with pytest.raises(RuntimeError, match="line 4: access to invalid address"):
        lib.f(torch.zeros(1))
