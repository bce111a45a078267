"""What is undefined on a GPU ends with an error that names kernel and line."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from mps_emulator.shader import options


def refused(lib, *args, match, line, kernel="f", **kwargs):
    with pytest.raises(RuntimeError, match=match) as caught:
        getattr(lib, kernel)(*args, **kwargs)
    message = str(caught.value)
    assert f"kernel '{kernel}'" in message
    assert f"line {line}" in message
    return message


# ---- arguments


def test_wrong_argument_count(compiled):
    lib = compiled("\nkernel void f(device float* o, constant long& n) { o[0] = n; }")
    message = r"takes 2 buffer arguments \(0: o, 1: n\), got "
    refused(lib, torch.zeros(1), match=message + "1", line=4)
    refused(lib, torch.zeros(1), 1, 2, match=message + "3", line=4)


def test_gap_in_the_indices(compiled):
    lib = compiled("kernel void f(device float* o [[buffer(0)]], device float* b [[buffer(2)]]) {}")
    refused(lib, torch.zeros(1), torch.zeros(1), match="2: b", line=3)


@pytest.mark.parametrize(
    ("kind", "dtype", "fits"),
    [
        ("float", torch.float32, True),
        ("float", torch.float16, False),
        ("float", torch.int64, False),
        ("uint", torch.int32, True),
        ("uint", torch.float32, True),
        ("long", torch.int64, True),
        ("long", torch.int32, False),
        ("int", torch.int64, False),
        ("bool", torch.bool, True),
        ("uchar", torch.bool, True),
        ("uchar", torch.float32, False),
        ("half", torch.float16, True),
        ("bfloat", torch.bfloat16, True),
        ("half", torch.float32, False),
        ("float2", torch.complex64, True),
        ("float2", torch.float32, True),
        ("float4", torch.float32, True),
        ("float4", torch.float16, False),
        ("packed_float3", torch.float32, True),
        ("packed_float3", torch.float16, False),
        ("atomic_uint", torch.int32, True),
        ("atomic_uint", torch.int64, False),
        ("atomic_float", torch.float32, True),
        ("S", torch.float32, True),
        ("S", torch.int64, False),
        ("void", torch.float64, True),
    ],
)
def test_element_sizes(compiled, kind, dtype, fits):
    lib = compiled(f"struct S {{ float a, b, c; }};\nkernel void f(device {kind}* o) {{ }}")
    tensor = torch.zeros(16, dtype=dtype)
    if fits:
        lib.f(tensor, threads=1)
    else:
        message = rf"argument 0 for parameter 'o' has elements of {tensor.element_size()} bytes"
        refused(lib, tensor, match=message, line=4, threads=1)


def test_alignment_of_a_view(compiled):
    lib = compiled("kernel void f(device float4* o) { o[0] = 1; }")
    base = torch.zeros(16)
    lib.f(base[4:], threads=1)
    refused(lib, base[1:], match="starts at byte 4 .* alignment of 16", line=3, threads=1)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("constant int& v", 1, "has 8 bytes .int 1., the parameter expects signed integer of 4"),
        ("constant int& v", True, "has 8 bytes"),
        ("constant uint& v", 1, "declare it 'constant long& v' or use arg_casts"),
        ("constant bool& v", True, "has 8 bytes"),
        ("constant half& v", 1.0, "has 4 bytes"),
        ("constant long& v", 1.0, "has 4 bytes"),
        ("constant float& v", 1, "has 8 bytes"),
        ("constant int* v", [1, 2], "has 16 bytes"),
        ("constant float3& v", [1.0, 2.0, 3.0], "has 12 bytes"),
        ("constant float4& v", [1.0, 2.0, 3.0], "has 12 bytes"),
        ("constant int& v", 1.0, "sent as float bits"),
        ("constant float2& v", [1, 2], "has 16 bytes"),
        ("device float* v", 1.0, "is passed by value"),
        ("device const float* v", [1.0], "is passed by value"),
    ],
)
def test_scalar_sizes(compiled, parameter, value, message):
    lib = compiled(f"kernel void f(device float* o, {parameter}) {{ o[0] = 1; }}")
    refused(lib, torch.zeros(1), value, match=message, line=3)


def test_arg_casts_make_it_fit(compiled):
    lib = compiled("kernel void f(device float* o, constant uint& v) { o[0] = v; }")
    o = torch.zeros(1)
    lib.f(o, 7, arg_casts={1: "int32"})
    assert o.item() == 7
    refused(lib, o, 7, match="has 2 bytes", line=3, arg_casts={1: "int16"})


def test_fake_and_meta_tensors(compiled):
    lib = compiled("kernel void f(device float* o) { o[0] = 1; }")
    refused(lib, torch.zeros(1, device="meta"), match="device 'meta'", line=3)
    with FakeTensorMode():
        fake = torch.zeros(1)
        refused(lib, fake, match="no memory", line=3)


# ---- memory


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("o[n] = 1;", r"out-of-bounds write of 4 bytes at byte 32 of argument 0, 'o'"),
        ("o[0] = a[n];", r"out-of-bounds read of 4 bytes at byte 32 of argument 1, 'a'"),
        ("o[0] = a[-9];", r"out-of-bounds read"),
        ("((device float4*)o)[2] = 1;", r"out-of-bounds write of 16 bytes"),
        ("((device uchar*)o)[35] = 1;", r"out-of-bounds write of 1 bytes at byte 35"),
        ("((device ushort*)o)[17] = 1;", r"out-of-bounds write of 2 bytes at byte 34"),
        ("((device ulong*)o)[4] = 1;", r"out-of-bounds write of 8 bytes"),
        ("S s = ((device S*)a)[1]; o[0] = s.v[n];", r"out-of-bounds read"),
        ("((device S*)o)[1] = ((device S*)o)[0];", r"out-of-bounds write"),
        (
            "atomic_fetch_add_explicit((device atomic_uint*)o + n, 1u, memory_order_relaxed);",
            "out-",
        ),
        ("o[0] = (&n)[1];", r"out-of-bounds read of 8 bytes at byte 8 of argument 2, 'n'"),
        ("float t[4]; t[n] = 1; o[0] = t[n - 5];", r"index 8 is outside an array"),
        ("threadgroup float t[4]; t[n] = 1;", r"index 8 is outside an array"),
        ("threadgroup float t[4]; o[0] = t[n];", r"index 8 is outside an array"),
        ("int k = int(n) - 12; float t[4]; t[k] = 1; o[0] = t[k];", r"index -4 is outside"),
        ("*(device float*)(ulong(n) << 3) = 1;", r"out-of-bounds write .* which no argument holds"),
        ("o[0] = 1 / (int(n) - 8);", "integer division by zero"),
        ("o[0] = 7u % uint(n - 8);", "integer division by zero"),
        ("o[0] = (-2147483647 - 1) / (int(n) - 9);", "integer division by zero or overflow"),
        ("o[0] = 1 << (n + 24);", "shift by 32"),
        ("o[0] = 1u >> (n - 9);", "shift by -1"),
        ("((device float4*)(o + n - 7))[0] = 1;", "misaligned access"),
        ("o[0] = *(device float*)((device uchar*)o + n - 7);", "misaligned access"),
        ("*(device int*)(ulong(&table[0]) ^ ulong(n) ^ 8) = 1;", r"write to constant memory"),
    ],
)
def test_memory(compiled, statement, match):
    lib = compiled(f"""
struct S {{ float v[6]; }};
constant int table[3] = {{1, 2, 3}};
kernel void f(device float* o, device const float* a, constant long& n) {{
  o[0] = table[n - 8];
  {statement}
}}
""")
    refused(lib, torch.zeros(8), torch.zeros(8), 8, match=match, line=8, threads=1)


def test_writes_past_a_view_but_inside_its_storage(compiled):
    lib = compiled("kernel void f(device float* o) { o[3] = 1; o[-1] = 2; }")
    base = torch.zeros(8)
    lib.f(base[2:4], threads=1)  # a GPU does not know the view either
    assert base.tolist() == [0, 2, 0, 0, 0, 1, 0, 0]
    refused(lib, base[5:], match="out-of-bounds write", line=3, threads=1)


def test_empty_tensor_argument(compiled):
    lib = compiled("kernel void f(device float* o, device const float* a, constant long& n) {\n"
                   "  if (n) o[0] = a[0];\n}")  # fmt: skip
    lib.f(torch.zeros(1), torch.zeros(0), 0)
    refused(lib, torch.zeros(1), torch.zeros(0), 1, match="out-of-bounds read", line=4)


@pytest.mark.parametrize(
    "statement",
    [
        "o[0] = t[2];",
        "o[0] = s;",
        "o[0] = v[1].y;",
        "o[0] = p[1].x;",
        "o[0] = b[3];",
        "o[0] = h[1];",
        "packed_float3 q = p[1]; o[0] = q.z;",
        "o[0] = atomic_load_explicit(&c, memory_order_relaxed);",
        "atomic_fetch_add_explicit(&c, 1u, memory_order_relaxed);",
        "t[0] += 1;",
        "o[0] = o[1] > 5 ? t[1] : t[3];",
    ],
)
def test_uninitialised_threadgroup_memory(compiled, statement):
    lib = compiled(f"""
kernel void f(device float* o) {{
  threadgroup float t[4]; threadgroup float s; threadgroup float3 v[2];
  threadgroup packed_float3 p[2]; threadgroup uchar b[4]; threadgroup half h[2];
  threadgroup atomic_uint c;
  t[1] = 1; v[0] = 1; p[0] = 1; b[0] = b[1] = b[2] = 1; h[0] = 1;
  {statement}
}}
""")
    match = "read of uninitialised threadgroup memory"
    refused(lib, torch.zeros(2), match=match, line=9, threads=1)


def test_a_group_does_not_see_the_last_one(compiled):
    lib = compiled("""
kernel void f(device float* o, uint g [[threadgroup_position_in_grid]]) {
  threadgroup float t;
  if (g == 0) t = 1;
  o[g] = t;
}
""")
    refused(lib, torch.zeros(2), match="uninitialised", line=7, threads=2, group_size=1)


def test_guarded_reads_are_not_hoisted(compiled):
    lib = compiled("""
kernel void f(device float* o, uint i [[thread_index_in_threadgroup]]) {
  threadgroup float t[64];
  if (i < 3) t[i] = i;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  o[i] = i < 3 ? t[i] : 0.0;
  if (i == 2) o[i] = t[0] + t[1];
}
""")
    o = torch.zeros(64)
    lib.f(o)
    assert o[:4].tolist() == [0, 1, 1, 0]


def test_padding_of_structs_may_be_copied(compiled):
    lib = compiled("""
struct P { float d; ushort i; };
struct Q { float4 v; uint i; };
kernel void f(device float* o, uint i [[thread_index_in_threadgroup]]) {
  threadgroup P p[32]; threadgroup Q q[32];
  p[i].d = i; p[i].i = i; q[i].v = 1; q[i].i = 2;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  P x = p[31 - i]; Q y = q[31 - i];
  o[i] = x.d + x.i + y.v.x + y.i;
}
""")
    o = torch.zeros(32)
    lib.f(o)
    assert o.tolist() == [2 * (31 - i) + 3 for i in range(32)]


def test_threadgroup_memory_over_32_kb(compiled):
    text = """
kernel void f(device float* o, uint i [[thread_position_in_grid]]) {{
  threadgroup float t[{}];
  t[i] = 1;
  o[0] = t[i];
}}
"""
    assert compiled(text.format(8192)).f.static_thread_group_memory_length == 32768
    lib = compiled(text.format(8193))
    with pytest.raises(RuntimeError, match=r"kernel 'f' \(line 4\): Threadgroup memory size"):
        _ = lib.f


def test_stack_overflow(compiled):
    lib = compiled("""
int deep(device float* o, int n) {
  int a[64];
  for (int i = 0; i < 64; ++i) a[i] = n + i;
  int r = o[0] < n ? 0 : deep(o, n + 1);
  return r + a[(r + n) & 63];
}
kernel void f(device float* o) { o[1] = deep(o, 1); }
""")
    with pytest.raises(RuntimeError, match="thread memory exhausted"):
        lib.f(torch.tensor([1e9, 0]), threads=1)


# ---- divergence

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
def test_divergence(compiled, body, match, line):
    lib = compiled(
        "__attribute__((noinline)) int twice(int a) { return simd_sum(a) * 2; } kernel void f("
        "device int* o, uint i [[thread_index_in_threadgroup]]) {\n"
        f"{body}\n}}"
    )
    o = torch.zeros(64, dtype=torch.int32)
    refused(lib, o, match=match, line=line)


def test_message_names_the_other_lane(compiled):
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
def test_lanes(compiled, expression, n, match):
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
