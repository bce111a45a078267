"""Memory accesses that are undefined on a GPU end the launch, naming kernel and line."""

from __future__ import annotations

import pytest
import torch


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
def test_memory(compiled, refused, statement, match):
    lib = compiled(f"""
struct S {{ float v[6]; }};
constant int table[3] = {{1, 2, 3}};
kernel void f(device float* o, device const float* a, constant long& n) {{
  o[0] = table[n - 8];
  {statement}
}}
""")
    refused(lib, torch.zeros(8), torch.zeros(8), 8, match=match, line=8, threads=1)


def test_writes_past_a_view_but_inside_its_storage(compiled, refused):
    lib = compiled("kernel void f(device float* o) { o[3] = 1; o[-1] = 2; }")
    base = torch.zeros(8)
    lib.f(base[2:4], threads=1)  # a GPU does not know the view either
    assert base.tolist() == [0, 2, 0, 0, 0, 1, 0, 0]
    refused(lib, base[5:], match="out-of-bounds write", line=3, threads=1)


def test_empty_tensor_argument(compiled, refused):
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
        "((threadgroup half*)k)[0] = 1.5h; half2 q = k[uint(o[1])]; o[0] = q.x;",
        "o[0] = o[1] > 5 ? t[1] : t[3];",
    ],
)
def test_uninitialised_threadgroup_memory(compiled, refused, statement):
    lib = compiled(f"""
kernel void f(device float* o) {{
  threadgroup float t[4]; threadgroup float s; threadgroup float3 v[2];
  threadgroup packed_float3 p[2]; threadgroup uchar b[4]; threadgroup half h[2];
  threadgroup atomic_uint c; threadgroup half2 k[2];
  t[1] = 1; v[0] = 1; p[0] = 1; b[0] = b[1] = b[2] = 1; h[0] = 1;
  {statement}
}}
""")
    match = "read of uninitialised threadgroup memory"
    refused(lib, torch.zeros(2), match=match, line=9, threads=1)


@pytest.mark.parametrize(
    ("declared", "written", "read"),
    [
        ("struct S { uchar a; ushort b; };", "s[i].a = 0; s[i].b = i;", "x.a + x.b"),
        ("struct S { half a; uchar b; };", "s[i].a = 0; s[i].b = i;", "x.a + half(x.b)"),
        ("struct S { bool a; ushort b; uint c; };", "s[i].a = s[i].b = 0; s[i].c = i;", "x.c"),
        ("struct S { uint a; uchar b; };", "s[i].a = i; s[i].b = 0;", "x.a + x.b"),
        ("struct A { uchar a; ushort b; }; struct S { A p; A q; };",
         "s[i].p.a = s[i].p.b = s[i].q.a = 0; s[i].q.b = i;", "x.q.b + x.p.a"),
        ("typedef bool3 S;", "s[i] = bool3(i & 1, i & 2, true);", "x.x + 2 * x.y + (i & 28 ^ 28)"),
        ("typedef uchar3 S;", "s[i] = uchar3(i);", "x.z"),
        ("typedef packed_uchar3 S;", "s[i] = packed_uchar3(uchar3(i));", "x.z"),
    ],
)  # fmt: skip
def test_padding_need_not_be_written(compiled, declared, written, read):
    lib = compiled(f"""
{declared}
kernel void f(device float* o, uint i [[thread_index_in_threadgroup]]) {{
  threadgroup S s[32];
  {written}
  threadgroup_barrier(mem_flags::mem_threadgroup);
  S x = s[31 - i];
  o[i] = {read};
}}
""")
    o = torch.zeros(32)
    lib.f(o)
    assert o.tolist() == list(range(31, -1, -1))


def test_a_group_does_not_see_the_last_one(compiled, refused):
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
