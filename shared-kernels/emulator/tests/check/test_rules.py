"""Every rule fires on a shader that breaks it, at the right line, and not on its corrected twin."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from mps_emulator.check import check_source

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp contract(off)\n"
INDEX = "uint i [[thread_position_in_grid]]"
X = "device float* x [[buffer(0)]]"


class Case(NamedTuple):
    """A rule, a shader that breaks it in the line marked ``//!``, and a shader that does not."""

    rule: str
    bad: str
    good: str
    severity: str = "error"
    header: str = HEADER


def body(statements: str, parameters: str = f"{X}, device uint* u [[buffer(1)]]") -> str:
    return f"kernel void k({parameters}, {INDEX})\n{{\n{statements}\n}}"


def signature(parameters: str) -> str:
    return f"kernel void k({parameters}) {{ x[0] = 1.0f; }}"


CASES = {
    "ascii": Case("ascii", "// na\u00efve //!", "// naive"),
    "include-file": Case("include", '#include "common.h" //!', "#include <metal_atomic>"),
    "include-torch": Case("include", "#include <c10/metal/utils.h> //!", "// #include <math.h>"),
    "kernel-main": Case("kernel-name", f"kernel void main({X}) {{}} //!", signature(X)),
    "kernel-overload": Case(
        "kernel-overload",
        f"kernel void k({X}) {{}}\nkernel void k(device uint* x [[buffer(0)]]) {{}} //!",
        f"kernel void k({X}) {{}}\nkernel void l(device uint* x [[buffer(0)]]) {{}}",
    ),
    "kernel-return": Case(
        "kernel-return",
        f"kernel uint k({X}) {{ return 1u; }} //!",
        f"kernel void k({X}) {{ return; }}",
    ),
    "kernel-template": Case(
        "template-kernel",
        "template <typename T>\nkernel void k(device T* x [[buffer(0)]]) { x[0] = T(1); } //!",
        "template <typename T> T one() { return T(1); }\n" + signature(X),
    ),
    "attribute-missing": Case(
        "missing-attribute", f"kernel void k({X},\n uint i) {{}} //!", body("")
    ),
    "attribute-misspelt": Case(
        "unknown-attribute", signature(f"{X},\n uint i [[thread_positon_in_grid]] //!\n"), body("")
    ),
    "attribute-on-function": Case(
        "unknown-attribute",
        "[[max_total_threads(64)]] //!\n" + signature(X),
        "[[max_total_threads_per_threadgroup(64)]] " + signature(X),
    ),
    "attribute-kernel-in-list": Case(
        "unknown-attribute",
        "[[kernel, max_total_threads_per_threadgroup(64)]] //!\nvoid k(device float* x) {}",
        "[[kernel]] " + signature(X).removeprefix("kernel "),
    ),
    "attribute-thread-limit": Case(
        "thread-limit",
        "[[max_total_threads_per_threadgroup(2048)]] //!\n" + signature(X),
        "[[max_total_threads_per_threadgroup(1024)]]\n" + signature(X),
    ),
    "attribute-threadgroup": Case(
        "threadgroup-parameter",
        signature(f"{X},\n threadgroup float* s [[threadgroup(0)]] //!\n"),
        body("threadgroup float s[4]; s[i] = 1.0f; x[i] = s[i];"),
    ),
    "attribute-texture": Case(
        "unbindable-parameter", signature(f"{X},\n uint t [[texture(0)]] //!\n"), signature(X)
    ),
    "builtin-signed": Case(
        "builtin-type",
        signature(f"{X},\n int i [[thread_position_in_grid]] //!\n"),
        signature(f"{X}, ushort i [[thread_position_in_grid]]"),
    ),
    "builtin-vector-lane": Case(
        "builtin-type",
        signature(f"{X},\n uint2 i [[thread_index_in_simdgroup]] //!\n"),
        signature(f"{X}, uint i [[thread_index_in_simdgroup]]"),
    ),
    "builtin-four": Case(
        "builtin-type",
        signature(f"{X},\n uint4 i [[thread_position_in_grid]] //!\n"),
        signature(f"{X}, uint3 i [[thread_position_in_grid]]"),
    ),
    "builtin-pair": Case(
        "builtin-type",
        signature(
            f"{X}, uint i [[thread_position_in_grid]],\n ushort n [[threads_per_grid]] //!\n"
        ),
        signature(f"{X}, uint i [[thread_position_in_grid]], uint n [[threads_per_grid]]"),
    ),
    "builtin-index": Case(
        "builtin-type",
        signature(
            f"{X}, uint t [[thread_position_in_threadgroup]],\n"
            "ushort i [[thread_index_in_threadgroup]] //!\n"
        ),
        signature(
            f"{X}, ushort t [[thread_position_in_threadgroup]],\n"
            "ushort i [[thread_index_in_threadgroup]]"
        ),
    ),
    "builtin-components": Case(
        "builtin-components",
        signature(
            f"{X}, uint2 i [[thread_position_in_grid]],\n"
            "uint3 g [[threadgroup_position_in_grid]] //!\n"
        ),
        signature(
            f"{X}, uint3 i [[thread_position_in_grid]],\n"
            "ushort3 g [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]]"
        ),
    ),
    "buffer-duplicate": Case(
        "buffer-index",
        signature(f"{X},\n device float* y [[buffer(0)]] //!\n"),
        signature(f"{X},\n device float* y [[buffer(1)]]"),
    ),
    "buffer-above-30": Case(
        "buffer-index",
        signature(
            ", ".join([X] + [f"device float* y{n} [[buffer({n})]]" for n in range(1, 31)])
            + ",\n device float* y [[buffer(31)]] //!\n"
        ),
        signature(", ".join([X] + [f"device float* y{n} [[buffer({n})]]" for n in range(1, 31)])),
    ),
    "buffer-expression": Case(
        "buffer-index",
        signature(f"{X},\n device float* y [[buffer(0 + 1)]] //!\n"),
        "#define SECOND 1\n" + signature(f"{X},\n device float* y [[buffer(SECOND)]]"),
    ),
    "buffer-gap": Case(
        "buffer-gap",
        signature(f"{X},\n device float* y [[buffer(2)]] //!\n"),
        signature(f"device float* y [[buffer(1)]], {X}"),
    ),
    "buffer-value": Case(
        "buffer-type",
        signature(f"{X},\n float r [[buffer(1)]] //!\n"),
        signature(f"{X},\n constant float& r [[buffer(1)]]"),
    ),
    "buffer-without-index": Case(
        "implicit-buffer", signature("\ndevice float* x //!\n"), signature(X), "warning"
    ),
    "space-parameter": Case(
        "address-space",
        "kernel void k(\nfloat* x [[buffer(0)]]) { x[0] = 1.0f; } //!",
        signature(X),
    ),
    "space-local-pointer": Case(
        "address-space",
        body("float* p = x; //!\np[0] = 1.0f;"),
        body("device float* p = x; p[0] = 1.0f;"),
    ),
    "space-helper-reference": Case(
        "address-space",
        "static inline void f(const float& a, thread float& b) { b = a; } //!",
        "static inline void f(const thread float& a, thread float& b) { b = a; }",
    ),
    "space-struct-pointer": Case(
        "address-space",
        "struct Node { uint i; };\n" + body("Node n = {i};\nNode* p = &n; //!\nu[i] = p->i;"),
        "struct Node { uint i; };\n" + body("Node n = {i};\nthread Node* p = &n; u[i] = p->i;"),
    ),
    "space-scoped-name": Case(
        "address-space",
        "namespace a { struct Node { uint i; }; }\n"
        "static inline uint f(a::Node* n) { return n->i; } //!",
        "namespace a { struct Node { uint i; }; }\n"
        "static inline uint f(device const a::Node* n) { return n->i; }",
    ),
    "space-cast": Case(
        "address-space", body("u[i] = *(uint*)x; //!"), body("u[i] = *(device uint*)x;")
    ),
    "space-changed": Case(
        "address-space",
        body("threadgroup float s[4];\ns[i] = 1.0f;\ndevice float* p = s; //!\nx[i] = p[0];"),
        body("threadgroup float s[4];\ns[i] = 1.0f;\nthreadgroup float* p = s; x[i] = p[0];"),
    ),
    "space-call": Case(
        "address-space",
        "static inline float f(thread float* p) { return p[0]; }\n" + body("x[i] = f(x); //!"),
        "static inline float f(device float* p) { return p[0]; }\n" + body("x[i] = f(x);"),
    ),
    "write-to-constant": Case(
        "write-to-constant",
        signature("constant float* x [[buffer(0)]]") + " //!",
        signature(X),
    ),
    "program-scope": Case(
        "program-scope",
        "static float limit = 1.0f; //!\n" + body("x[i] = limit;"),
        "constant float limit = 1.0f;\n" + body("x[i] = limit;"),
    ),
    "threadgroup-in-helper": Case(
        "threadgroup-scope",
        "static inline float f() { threadgroup float s[4]; return s[0]; } //!\n"
        + body("x[i] = f();"),
        "static inline float f(threadgroup float* s) { return s[0]; }\n"
        + body("threadgroup float s[4]; s[i] = 1.0f; x[i] = f(s);"),
    ),
    "threadgroup-in-block": Case(
        "threadgroup-scope",
        body("if (i < 4) {\nthreadgroup float s[4]; //!\ns[i] = 1.0f; x[i] = s[i]; }"),
        body("threadgroup float s[4];\nif (i < 4) { s[i] = 1.0f; x[i] = s[i]; }"),
    ),
    "threadgroup-memory": Case(
        "threadgroup-memory",
        f"kernel void k({X}, {INDEX}) //!\n"
        "{ threadgroup float3 s[2048]; threadgroup bool b; b = true; s[i] = b; x[i] = s[i].x; }",
        body(
            "threadgroup packed_float3 s[2048]; threadgroup bool b; b = true;\n"
            "s[i].x = b; x[i] = s[i].x;"
        ),
    ),
    "double": Case("double", body("double d = x[i]; //!\nx[i] = float(d);"), body("x[i] *= 0.5;")),
    "as-type": Case(
        "as-type",
        body("ulong w = i;\nu[i] = as_type<uint>(w); //!"),
        body("ulong w = i;\nu[i] = as_type<uint2>(w).x;"),
    ),
    "simd-bool": Case(
        "simd-type", body("u[i] = simd_sum(i > 3u); //!"), body("u[i] = simd_sum(uint(i > 3u));")
    ),
    "simd-ulong": Case(
        "simd-type",
        body("ulong w = i;\nu[i] = uint(simd_max(w)); //!"),
        body("ulong w = i;\nu[i] = simd_max(uint(w));"),
    ),
    "simd-shuffle-long": Case(
        "simd-type",
        body("long w = i;\nu[i] = uint(simd_shuffle_xor(w, 1)); //!"),
        body("u[i] = simd_shuffle_xor(i, 1);"),
    ),
    "atomic-plain": Case(
        "atomic",
        body("atomic_fetch_add_explicit(u, 1u, memory_order_relaxed); //!"),
        body("atomic_fetch_add_explicit((device atomic_uint*)u, 1u, memory_order_relaxed);"),
    ),
    "atomic-threadgroup-float": Case(
        "atomic",
        body(
            "threadgroup atomic_float s;\n"
            "atomic_fetch_add_explicit(&s, 1.0f, memory_order_relaxed); //!"
        ),
        body("atomic_fetch_add_explicit((device atomic_float*)x, 1.0f, memory_order_relaxed);"),
    ),
    "atomic-float-max": Case(
        "atomic",
        body("atomic_fetch_max_explicit((device atomic_float*)x, 1.0f, memory_order_relaxed); //!"),
        body("atomic_fetch_max_explicit((device atomic_uint*)x, 1u, memory_order_relaxed);"),
    ),
    "atomic-order": Case(
        "atomic",
        body("atomic_store_explicit((device atomic_uint*)u, 1u, memory_order_release); //!"),
        body("atomic_store_explicit((device atomic_uint*)u, 1u, memory_order_relaxed);"),
    ),
    "fence": Case(
        "metal-version",
        body("atomic_thread_fence(mem_flags::mem_device, memory_order_relaxed); //!"),
        body("threadgroup_barrier(mem_flags::mem_device);"),
    ),
    "lambda": Case(
        "lambda",
        body("auto f = [](float a) { return a; }; //!\nx[i] = f(x[i]);"),
        "static inline float f(float a) { return a; }\n" + body("x[i] = f(x[i]);"),
    ),
    "lambda-capture": Case(
        "lambda", body("x[i] = [&] { return x[0]; }(); //!"), body("x[i] = { x[u[0]] };")
    ),
    "if-constexpr": Case(
        "cxx17",
        body("if constexpr (sizeof(float) == 4) x[i] = 1.0f; //!"),
        body("if (sizeof(float) == 4) x[i] = 1.0f;"),
    ),
    "structured-binding": Case(
        "cxx17",
        "struct P { float a; float b; };\n"
        + body("P p = {1, 2};\nauto [a, b] = p; //!\nx[i] = a;\nx[i] = b;"),
        "struct P { float a; float b; };\n" + body("P p = {1, 2};\nx[i] = p.a;"),
    ),
    "static-assert": Case(
        "cxx17",
        "static_assert(sizeof(float3) == 16); //!",
        'static_assert(sizeof(float3) == 16, "aligned");',
    ),
    "nested-namespace": Case("cxx17", "namespace a::b {} //!", "namespace a { namespace b {} }"),
    "goto": Case("not-in-metal", body("again: if (x[i] > 1.0f) goto again; //!"), body("return;")),
    "new": Case("not-in-metal", body("thread float* p = new float; //!\nx[i] = *p;"), body("")),
    "std": Case(
        "not-in-metal", body("x[i] = std::sqrt(x[i]); //!"), body("x[i] = metal::sqrt(x[i]);")
    ),
    "virtual": Case(
        "not-in-metal", "struct S { virtual void f(); }; //!", "struct S { void f() {} };"
    ),
    "opencl-keyword": Case(
        "not-in-metal",
        body("__local float s[4]; //!\ns[i] = 1.0f;"),
        body("int local = 1; u[i] = local;"),
    ),
    "derived-class": Case(
        "derived-class",
        "struct A { uint i; };\nstruct B : A { uint j; }; //!",
        "struct A { uint i; };\nstruct B { A a; uint j; };",
        "warning",
    ),
    "vector-literal": Case(
        "vector-literal",
        body("float3 v = (float3)(1.0f, x[1], x[2]); //!\nx[i] = v.x;"),
        body("float3 v = (float3)(max(x[1], x[2]));\nx[i] = v.x;"),
    ),
    "vector-constructor": Case(
        "compile",
        body("float3 v = float3(1.0f, 2.0f); //!\nx[i] = v.x;"),
        body("float3 v = float3(float2(1.0f, 2.0f), 3.0f) + float3();\nx[i] = v.x;"),
    ),
    "threadgroup-initialiser": Case(
        "threadgroup-initializer",
        body("threadgroup uint s = 0; //!\nu[i] = s;"),
        body("uint s = 0;\nu[i] = s;"),
    ),
    "printf": Case("compile", body('printf("%d", i); //!'), body("")),
    "function-constant": Case(
        "function-constant",
        "constant uint size [[function_constant(0)]]; //!",
        "constant uint size = 4;",
    ),
    "uninitialised-branch": Case(
        "uninitialized",
        body("float a;\nif (i > 3) a = 1.0f; //!\nx[i] = a;"),
        body("float a = 0.0f;\nif (i > 3) a = 1.0f;\nx[i] = a;"),
    ),
    "uninitialised-loop": Case(
        "uninitialized",
        body("float a;\nfor (uint j = 0; j < i; ++j) a = x[j];\nx[i] = a; //!"),
        body(
            "threadgroup float a;\nif (i == 0) a = 1.0f;\n"
            "threadgroup_barrier(mem_flags::mem_threadgroup);\nx[i] = a;"
        ),
        "warning",
    ),
    "narrowing": Case(
        "narrowing",
        body("long n = x[0];\nuint m = n; //!\nu[i] = m;"),
        body("long n = x[0];\nuint m = uint(n);\nu[i] = m;"),
        "warning",
    ),
    "return-type": Case(
        "return-type",
        "static inline float f(float a) { if (a > 1.0f) return a; } //!\n"
        + body("x[i] = f(x[i]);"),
        "static inline float f(float a) { return a; }\n" + body("x[i] = f(x[i]);"),
    ),
    "ambiguous-min": Case(
        "compile", body("int a = 3;\nu[i] = min(i, a); //!"), body("u[i] = min(i, 3u);")
    ),
    "undeclared": Case(
        "compile", body("x[i] = hypot(x[0], x[1]); //!"), body("x[i] = sqrt(x[0]);")
    ),
    "library-not-included": Case(
        "compile", body("x[i] = sqrt(x[0]); //!"), body("x[i] = x[0];"), header=""
    ),
    "contraction": Case(
        "fp-contract",
        body("x[i] = x[0] * x[1] + x[2]; //!"),
        body("#pragma METAL fp contract(off)\nx[i] = x[0] * x[1] + x[2];"),
        "warning",
        header="#include <metal_stdlib>\nusing namespace metal;\n",
    ),
    "half-checked": Case(
        "half-checked",
        "struct P { float a; };\nstatic inline float f(device const P* p) { return p->a; }\n"
        "static inline float f(constant P* p) { return p->a; }\n"
        + body("P q = p; //!\nx[i] = q.a + f(&p);", f"{X}, constant P& p [[buffer(1)]]"),
        "struct P { float a; };\nstatic inline float f(device const P* p) { return p->a; }\n"
        + body("P q = p;\nx[i] = q.a + p.a;", f"{X}, constant P& p [[buffer(1)]]"),
        "warning",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule_fires(name: str) -> None:
    case = CASES[name]
    text = case.header + case.bad
    marked = [number for number, line in enumerate(text.split("\n"), 1) if "//!" in line]
    problems = check_source(text, "bad.metal")
    of_rule = [p for p in problems if p.rule == case.rule]
    assert [(p.line, p.severity) for p in of_rule[:1]] == [(marked[0], case.severity)], problems
    assert all(p.file == "bad.metal" and p.column >= 1 and p.message for p in problems)


@pytest.mark.parametrize("name", CASES)
def test_rule_does_not_fire_on_the_corrected_shader(name: str) -> None:
    case = CASES[name]
    assert check_source(case.header + case.good, "good.metal") == []
