"""Types, constructors, functions of the standard library."""

from __future__ import annotations

import math

import pytest
import torch

CONSTRUCTED = [
    ("float3(1, 2, 3).z", 3),
    ("float3(4).y", 4),
    ("float4(float3(1, 2, 3), 4).w", 4),
    ("float4(1, float2(2, 3), 4).z", 3),
    ("float3(int3(1, -2, 3)).y", -2),
    ("float(int3(2.9f).x)", 2),
    ("float2(uint2(7, 8)).y", 8),
    ("((float3)int3(1, 2, 3)).zyx.x", 3),
    ("((float3)(int3(5))).x * 2", 10),
    ("(-(float3)int3(4)).x", -4),
    ("float3{1, 2, 3}.y", 2),
    ("float3(packed_float3(1, 2, 3)).z", 3),
    ("float4(packed_float3(1, 2, 3), 9).w", 9),
    ("float3(bool3(true, false, true)).z", 1),
    ("float3(float3(1, 2, 3) < float3(2)).x", 1),
    ("float(int3(float3(1, 2, 3) == float3(1)).x)", 1),
    ("float(uint2(isnan(float2(NAN, 1))).x)", 1),
    ("(float3(1, 2, 3) > 1).y + 5", 6),
    ("float((float3(1, 2, 3) < 2)[0])", 1),
    ("((int3)(float3(1, 2, 3) < 2)).x", 1),
    ("((float3)(float3(1, 2, 3) < 2 && float3(1) < 3)).x", 1),
    ("(-(int3)(float3(1, 2, 3) < 2)).x", -1),
    ("((int3)(float3(1, 2, 3))).y", 2),
    ("((float3)(as_type<int3>(float3(1, 2, 3)))).x", 0x3F800000),
    ("float3(as_type<int3>(float3(1, 2, 3))).x", 0x3F800000),
    ("as01<float3>(float3(1, 2, 3) < 2)[0] + as01<float3>(float3(1, 2, 3) < 2).x", 2),
    ("float3(max<int3>(int3(6), int3(5))).x", 6),
    ("float3(max<int3>(int3(6), int3(5)))[2]", 6),
    ("metal::float3(1, 2, 3).x", 1),
    ("vec<float, 3>(1).z", 1),
    ("float4(1, 2, 3, 4).wzyx.x", 4),
    ("float4(1, 2, 3, 4).rgba.b", 3),
    ("float4(1, 2, 3, 4).xyz.zx.y", 1),
    ("1.5 + 0x1p2 + 1e1 + .5", 16),
    ("1.0h + half(2)", 3),
    ("float(1.5bf)", 1.5),
    ("3 / 2", 1),
    ("3 / 2.0", 1.5),
    ("sizeof(float3)", 16),
    ("sizeof(packed_float3)", 12),
    ("sizeof(bool3)", 4),
    ("sizeof(half4)", 8),
    ("alignof(float4)", 16),
    ("alignof(packed_float4)", 4),
    ("sizeof(size_t) + sizeof(long)", 16),
    ("as_type<float>(0x40000000u)", 2),
    ("as_type<int2>(0x0000000200000001l).y", 2),
    ("float(as_type<uint>(1.0f) >> 23)", 127),
]


def check(values, cases, **tolerance):
    """Evaluates all expressions in one kernel."""
    body = "\n".join(f"o[{i}] = {expression};" for i, (expression, _) in enumerate(cases))
    before = "template <typename T> T as01(bool3 m) { return T(m); }"
    got = values(body, n=len(cases), before=before)
    for (expression, expected), value in zip(cases, got, strict=True):
        assert value == pytest.approx(expected, **tolerance), expression


AUTO = [
    ("auto m = v < 2", "float3(m).x + int(m.x) * 10 + (m[0] ? 100 : 0)", 111),
    ("auto m = v < 2 && v > 0", "int3(m).x", 1),
    ("const auto m = !(v < 2)", "float3(m).y + float3(!m).x", 2),
    ("auto m = v.x < 2", "m + m", 2),
    ("auto m = as_type<int3>(v)", "m.x == 0x3f800000", 1),
    ("auto m = (v < 2).x, k = !m", "m * 2 + k", 2),
    ("auto m = int3(v) << 1", "m.y", 4),
    ("auto m = any(v < 2) ? v * 3 : v", "m.y", 6),
]


@pytest.mark.parametrize(("declared", "expression", "expected"), AUTO)
def test_auto_of_comparisons(values, declared, expression, expected):
    body = f"float3 v = float3(o[0] + 1, 2, 3); {declared}; o[0] = {expression};"
    assert values(body) == [expected]


def test_constructors_and_literals(values):
    check(values, CONSTRUCTED, rel=0, abs=0)


STATEMENTS = [
    ("float4 v = 0; v.xz = float2(1, 2); o[0] = v.x + 10 * v.z;", 21),
    ("float3 v = float3(1, 2, 3); v.xy = v.yx; o[0] = v.x * 10 + v.y;", 21),
    ("float3 v = 1; v.y += 4; v *= 2; o[0] = v.x + v.y;", 12),
    ("float3 v = 0; v[2] = 5; for (int i = 0; i < 3; ++i) o[0] += v[i];", 5),
    ("float3 a = float3(1, 5, 2); bool3 m = a > 1; o[0] = m.x * 100 + m.y * 10 + m.z;", 11),
    ("bool3 m = bool3(true, false, true); o[0] = any(m) * 10 + all(m);", 10),
    ("float3 a = 1; o[0] = all(a == 1) * 10 + any(a != 1);", 10),
    ("float3 a = 1; o[0] = all(!(a != 1) && isfinite(a));", 1),
    ("packed_float3 p = float3(1, 2, 3); p += float3(1); p[2] = 7; o[0] = p.x + p.z;", 9),
    ("packed_float3 p = 2; float3 q = p * 3 - p; o[0] = q.y;", 4),
    ("packed_int3 p = packed_int3(1, 2, 3); o[0] = int3(p).z;", 3),
    ("array<float, 4> a; a[0] = 1; a[3] = 2; o[0] = a[0] + a[3] + a.size();", 7),
    ("struct S { float a; int b; }; S s = {1, 2}; S t = s; o[0] = t.a + t.b;", 3),
    ("int3 a = 7; a = (a << 1) | 1; a %= 4; o[0] = a.x;", 3),
    ("uint2 a = ~uint2(0); o[0] = a.x == UINT_MAX;", 1),
    ("long a = 1l << 40; o[0] = float(a >> 38);", 4),
    ("float m[2][3]; for (int i = 0; i < 6; ++i) m[i / 3][i % 3] = i; o[0] = m[1][1];", 4),
    ("float a = 1; thread float* p = &a; *p = 6; o[0] = a;", 6),
]


def test_statements(values):
    body = "".join(
        f"{{ device float* r = o + {i}; {text.replace('o[0]', 'r[0]')} }}\n"
        for i, (text, _) in enumerate(STATEMENTS)
    )
    got = values(body, n=len(STATEMENTS))
    for (text, expected), value in zip(STATEMENTS, got, strict=True):
        assert value == expected, text


FUNCTIONS = [
    ("min(3, -2)", -2),
    ("max(3u, 7u)", 7),
    ("min(1.0f, NAN)", 1),
    ("max(NAN, 2.0f)", 2),
    ("fmax(NAN, 3.0f)", 3),
    ("float(signbit(max(-0.0f, 0.0f)))", 1),
    ("float(signbit(min(0.0f, -0.0f)))", 0),
    ("fmin(2.0, 1)", 1),
    ("max(float3(1, 5, 2), float3(3)).y", 5),
    ("max(float3(1, 5, 2), 3.0f).x", 3),
    ("clamp(5, 0, 3)", 3),
    ("clamp(float3(-1, 2, 9), 0.0f, 4.0f).z", 4),
    ("saturate(1.5f)", 1),
    ("select(1.0f, 2.0f, true)", 2),
    ("select(float3(1), float3(2), bool3(false, true, false)).y", 2),
    ("select(float3(1), float3(2), float3(1, 2, 3) > 2).z", 2),
    ("fma(2.0f, 3.0f, 4.0f)", 10),
    ("fma(float3(2), float3(3), float3(4)).x", 10),
    ("sqrt(9.0f)", 3),
    ("sqrt(float2(16, 25)).y", 5),
    ("rsqrt(4.0f)", 0.5),
    ("floor(-1.5f)", -2),
    ("ceil(-1.5f)", -1),
    ("trunc(-1.5f)", -1),
    ("round(2.5f)", 3),
    ("rint(2.5f)", 2),
    ("fract(2.25f)", 0.25),
    ("abs(-3)", 3),
    ("abs(-3.5f)", 3.5),
    ("fabs(float2(-1, 2)).x", 1),
    ("sign(-4.0f)", -1),
    ("mix(1.0f, 3.0f, 0.5f)", 2),
    ("step(1.0f, 2.0f)", 1),
    ("smoothstep(0.0f, 1.0f, 0.5f)", 0.5),
    ("copysign(2.0f, -1.0f)", -2),
    ("fmod(5.5f, 2.0f)", 1.5),
    ("pow(2.0f, 3)", 8),
    ("exp2(3.0f) + log2(8.0f)", 11),
    ("ldexp(1.5f, 3)", 12),
    ("nextafter(1.0f, 2.0f) - 1.0f", 2**-23),
    ("dot(float3(1, 2, 3), float3(4, 5, 6))", 32),
    ("length(float2(3, 4))", 5),
    ("distance(float3(1, 2, 2), float3(0))", 3),
    ("distance_squared(float3(1, 2, 2), float3(0))", 9),
    ("cross(float3(1, 0, 0), float3(0, 1, 0)).z", 1),
    ("normalize(float2(0, 2)).y", 1),
    ("min3(3, 1, 2) + max3(3, 1, 2) * 10 + median3(3, 1, 2) * 100", 231),
    ("precise::sqrt(4.0f) + fast::sqrt(4.0f) + precise::divide(1.0f, 2.0f)", 4.5),
    ("isinf(INFINITY) + isnan(NAN) + isfinite(1.0f) + isnormal(1.0f)", 4),
    ("clz(1u)", 31),
    ("clz(0)", 32),
    ("clz(ushort(1))", 15),
    ("clz(1ul)", 63),
    ("ctz(8u)", 3),
    ("ctz(0u)", 32),
    ("ctz(1ul << 40)", 40),
    ("popcount(0xffu)", 8),
    ("popcount(-1l)", 64),
    ("reverse_bits(1u) == 0x80000000u", 1),
    ("rotate(0x80000001u, 4u)", 24),
    ("extract_bits(0xabcdu, 4, 8)", 0xBC),
    ("extract_bits(int(0x80), 4, 4)", -8),
    ("extract_bits(7u, 0, 0)", 0),
    ("insert_bits(0u, 0xfu, 4, 2)", 48),
    ("mulhi(0x80000000u, 4u)", 2),
    ("mulhi(-1, 2)", -1),
    ("addsat(uchar(250), uchar(10))", 255),
    ("subsat(3u, 5u)", 0),
    ("absdiff(-3, 4)", 7),
    ("hadd(3u, 6u) + rhadd(3u, 6u)", 9),
    ("mad24(2, 3, 4)", 10),
    ("float(numeric_limits<uint>::max() == UINT_MAX)", 1),
    ("numeric_limits<float>::lowest() == -FLT_MAX", 1),
    ("numeric_limits<int>::min() == INT_MIN", 1),
    ("float(numeric_limits<half>::max())", 65504),
    ("isinf(numeric_limits<float>::infinity())", 1),
    ("numeric_limits<float>::epsilon() == FLT_EPSILON", 1),
    ("M_PI_F", math.pi),
    ("is_same_v<float, float> + is_integral_v<int> + is_floating_point_v<half>", 3),
]


def test_functions(values):
    check(values, FUNCTIONS, rel=1e-6, abs=0)


TRANSCENDENTAL = {
    **dict.fromkeys(("exp", "sin", "cos", "tan", "asin", "acos", "atan"), 0.5),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "atanh"), 0.5),
    **dict.fromkeys(("log", "log10", "acosh"), 2.5),
}


def test_transcendental_functions(values):
    cases = [(f"{name}({x})", getattr(math, name)(x)) for name, x in TRANSCENDENTAL.items()]
    cases += [(text.replace("(", "(float2(").replace(")", ")).y"), y) for text, y in cases]
    check(values, cases, rel=1e-6)


def test_half_rounds_after_every_operation(values):
    a, b, c = (torch.tensor(v, dtype=torch.float16) for v in (1.001, 3.003, 7.007))
    before = "#pragma METAL fp contract(off)"
    got = values("half a = 1.001, b = 3.003, c = 7.007; o[0] = a * b + c;", 1, "half", before)
    assert got == [(a * b + c).item()]
    assert values("o[0] = half(65504) + half(65504);", kind="half") == [math.inf]
    assert values("half3 v = half3(1, 2, 3); o[0] = dot(v, v); o[1] = v.zyx.x;", 2, "half") == [
        14,
        3,
    ]


def test_bfloat(values):
    a = torch.tensor(1.2345, dtype=torch.bfloat16)
    b = torch.tensor(1.00390625 + 2**-8, dtype=torch.float32).to(torch.bfloat16)
    body = "bfloat a = bfloat(1.2345f); o[0] = a * a; o[1] = bfloat(1.00390625f + 0.00390625f);"
    assert values(body, 2, "bfloat") == [(a * a).item(), b.item()]


def test_bool_and_byte_buffers(compiled):
    lib = compiled("""
kernel void f(device const bool* a, device uchar* b, device short* c,
    uint i [[thread_position_in_grid]]) { b[i] = a[i] ? 200 : 1; c[i] = -short(i); }
""")
    b, c = torch.zeros(3, dtype=torch.uint8), torch.zeros(3, dtype=torch.int16)
    lib.f(torch.tensor([True, False, True]), b, c)
    assert b.tolist() == [200, 1, 200]
    assert c.tolist() == [0, -1, -2]


def test_complex_is_float2(compiled):
    lib = compiled("kernel void f(device float2* a) { a[1] = a[0].yx; }")
    a = torch.tensor([1 + 2j, 0], dtype=torch.complex64)
    lib.f(a, threads=1)
    assert a[1].item() == 2 + 1j


def test_structs_in_buffers(compiled):
    lib = compiled("""
struct Sizes { long n; long m; };
struct Box { packed_float3 lo, hi; };
kernel void f(constant Sizes& s, device Box* b, device float4* q) {
  Box x = b[s.n]; x.hi = float3(x.lo) + float(s.m); b[s.n] = x; q[0] = float4(x.hi, 1);
}
""")
    b, q = torch.arange(12.0), torch.zeros(4)
    lib.f([1, 10], b, q, threads=1)
    assert b.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 18]
    assert q.tolist() == [16, 17, 18, 1]


def test_program_scope_constants(values):
    before = """
constant float table[3] = {1, 2, 3};
constant constexpr int n = 3;
constant float3 axis = float3(1, 2, 3);
static constant uint mask = 0xf0;
struct P { float v; float get() const { return v; } };
template <typename T> T twice(T x) { return T(2) * x; }
template <typename T> T made(int a) { return T(a, a + 1, a + 2); }
using Vec = float3;
"""
    body = """
float s = 0;
for (int i = 0; i < n; ++i) s += table[i];
P p = {5};
o[0] = s; o[1] = axis.z; o[2] = mask; o[3] = p.get(); o[4] = twice(float3(4)).y;
o[5] = made<float3>(1).z; o[6] = Vec(1, 2, 3).y; o[7] = twice(3);
"""
    assert values(body, 8, before=before) == [6, 3, 240, 5, 8, 3, 2, 6]
