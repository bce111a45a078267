"""Preprocessing, attributes, templates, and the compiler's messages."""

from __future__ import annotations

import re

import pytest
import torch

from mps_emulator import shader
from mps_emulator.shader import options


def test_macros_make_kernels(compiled):
    lib = compiled("""
#define ARGS device T* o, uint i [[thread_position_in_grid]]
#define MAKE(name, type, value) kernel void name##_##type(device type* o, \\
    uint i [[thread_position_in_grid]]) { o[i] = value; }
MAKE(fill, float, 2.5)
MAKE(fill, int, 3)
#define T half
kernel void all(ARGS) { o[i] = 1; }
""")
    assert dir(lib) == ["all", "fill_float", "fill_int"]
    o = torch.zeros(2)
    lib.fill_float(o)
    assert o.tolist() == [2.5, 2.5]


def test_conditional_parameters(compiled):
    text = """
kernel void f(device float* o
#if EXTRA
    , device const float* extra
#endif
    , uint i [[thread_position_in_grid]]) {
#if EXTRA
  o[i] = extra[i];
#else
  o[i] = -1;
#endif
}
"""
    o = torch.zeros(2)
    compiled("#define EXTRA 0\n" + text).f(o)
    assert o.tolist() == [-1, -1]
    compiled("#define EXTRA 1\n" + text).f(o, torch.ones(2))
    assert o.tolist() == [1, 1]


@pytest.mark.parametrize("version", [310, 320, 400])
def test_predefined_macros(compiled, monkeypatch, version):
    monkeypatch.setattr(options, "metal_version", version)
    lib = compiled("""
#if !defined(__METAL__) || !defined(__METAL_MACOS__)
#error not Metal
#endif
kernel void f(device int* o) { o[0] = __METAL_VERSION__; }
""")
    o = torch.zeros(1, dtype=torch.int32)
    lib.f(o)
    assert o.item() == version


def test_attribute_form_of_kernel(compiled):
    lib = compiled("[[kernel]] void f(device float* o [[buffer(0)]]) { o[0] = 4; }")
    o = torch.zeros(1)
    lib.f(o)
    assert o.item() == 4


TEMPLATE = """
template <typename T, int N>
kernel void scale(device T* o [[buffer(0)]], constant long& n, uint i [[thread_position_in_grid]]) {
  threadgroup T part[N];
  part[i % N] = T(i);
  if (i < uint(n)) o[i] = part[i % N] * T(N);
}
"""


@pytest.mark.parametrize(
    "instance",
    [
        "kernel void scale<X, 4>(device X*, constant long&, uint);",
        "[[kernel]] void scale<X, 4>(device X*, constant long&, uint);",
        "[[kernel]] decltype(scale<X, 4>) scale<X, 4>;",
        "kernel decltype(scale<X, 4>) scale<X, 4>;",
    ],
)
def test_templates_with_host_name(compiled, instance):
    text = f'template [[host_name("scale_X")]] {instance}\n'
    lib = compiled(TEMPLATE + "".join(text.replace("X", t) for t in ("float", "half", "int")))
    assert dir(lib) == ["scale_float", "scale_half", "scale_int"]
    for dtype, name in ((torch.float32, "float"), (torch.float16, "half"), (torch.int32, "int")):
        o = torch.zeros(4, dtype=dtype)
        kernel = getattr(lib, f"scale_{name}")
        kernel(o, 3)
        assert o.tolist() == [0, 4, 8, 0]
        assert kernel.static_thread_group_memory_length == 16


def test_host_name_on_a_plain_kernel(compiled):
    lib = compiled('[[host_name("a.b")]] kernel void f(device float* o) { o[0] = 1; }')
    assert dir(lib) == ["a.b"]
    getattr(lib, "a.b")(torch.zeros(1))


def test_kernel_in_a_namespace(compiled):
    lib = compiled("namespace n { kernel void f(device float* o) { o[0] = 2; } }")
    o = torch.zeros(1)
    getattr(lib, "n::f")(o)
    assert o.item() == 2


def test_implicit_positions_fill_gaps(compiled):
    lib = compiled(
        "kernel void f(device float* a [[buffer(1)]], device float* b, device float* c,\n"
        "    uint i [[thread_position_in_grid]]) { a[0] = 1; b[0] = 2; c[0] = 3; }"
    )
    first, second, third = torch.zeros(1), torch.zeros(1), torch.zeros(1)
    lib.f(first, second, third)
    assert [first.item(), second.item(), third.item()] == [2, 1, 3]


def test_helper_overloads_for_address_spaces(compiled):
    lib = compiled("""
float first(device const float* p) { return p[0]; }
float first(threadgroup const float* p) { return p[0]; }
float first(constant float* p) { return p[0]; }
kernel void f(device float* o, constant float* c) {
  threadgroup float t[1]; t[0] = 3;
  o[1] = first(t) + first(c); o[0] = first(o + 1);
}
""")
    o = torch.zeros(2)
    lib.f(o, [4.0], threads=1)
    assert o.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("kernel void f(device float* o) {\n  o[0] = y;\n}", 4, "undeclared identifier 'y'"),
        ("kernel void f(device float* o) {\n o[0] = 1 \n}", 4, "expected ';'"),
        ("#include <c10/metal/utils.h>\n", 3, "file not found"),
        ("#error stop here", 3, "stop here"),
        ("constant uint k [[function_constant(0)]];", 3, "function constants cannot be set"),
        ("constant float k = sqrt(2.0f);", 3, "global constructor"),
        ("inline int g(int a) { if (a) return 1; }", 3, "non-void function"),
        ("kernel void f(device float* o) {\n double d = 1; o[0] = d;\n}", 4, "'double' is not"),
        ("kernel void f(device float* o) {\n o[0] = 1.0l;\n}", 4, "'double' is not"),
        ("kernel int f(device float* o) { return 1; }", 3, "return type 'void'"),
        ("kernel void main(device float* o) { }", 3, "must not be called 'main'"),
        ("kernel void f(device float* o, uint i) { }", 3, "invalid input declaration 'i'"),
        (
            "kernel void f(device float* o,\n uint i [[thread_position]]) { }",
            4,
            "unknown attribute",
        ),
        ("kernel void f(float* o) { }", 3, "must name its address space"),
        (
            "kernel void f(threadgroup float* o [[threadgroup(0)]]) { }",
            3,
            "attribute 'threadgroup'",
        ),
        ("kernel void f(threadgroup float* o) { }", 3, "threadgroup memory, whose size"),
        (
            "kernel void f(device float* o,\n float i [[thread_position_in_grid]]) { }",
            4,
            "ushort or uint",
        ),
        (
            "kernel void f(device float* o,\n uint2 i [[thread_index_in_simdgroup]]) { }",
            4,
            "a scalar",
        ),
        (
            "kernel void f(device float* o,\n uint4 i [[thread_position_in_grid]]) { }",
            4,
            "vector of 2",
        ),
        (
            "kernel void f(uint2 i [[thread_position_in_grid]],\n"
            "    uint j [[threads_per_threadgroup]]) { }",
            3,
            "same number of components: 'i' has 2, 'j' has 1",
        ),
        (
            "kernel void f(uint2 i [[thread_position_in_grid]],\n"
            "    ushort2 j [[threads_per_grid]]) { }",
            3,
            "'i' and 'j' must have the same type",
        ),
        (
            "kernel void f(device int* a [[buffer(1)]],\n device int* b [[buffer(1)]]) {}",
            4,
            "same buffer",
        ),
        ("kernel void f(device int* a [[buffer(31)]]) {}", 3, "buffer index 31 is over 30"),
        ("kernel void f() {}\nkernel void f(device int* a) {}", 4, "is overloaded"),
        ("#pragma METAL fp contract(maybe)\n", 3, "unknown pragma"),
        ("kernel void f() {\n threadgroup float x = 0;\n}", 4, "cannot have an initialiser"),
        ("threadgroup float x[4];\nkernel void f() { }", 3, "only be declared inside a kernel"),
        ("kernel void f(device float* o) {\n o[0] = 1;\n", 3, "to match this bracket"),
        ("template <int N> kernel void f() {}\ntemplate kernel void f<1>();", 4, "host_name"),
        ('template [[host_name("x")]] kernel void g<1>();', 3, "unknown kernel 'g'"),
        ("[[max_total_threads_per_threadgroup(2000)]] kernel void f() {}", 3, "between 1 and 1024"),
        (
            "kernel void f(device float* o) {\n int3 a = 1; float3 b = a; o[0] = b.x;\n}",
            4,
            "cannot init",
        ),
        (
            "kernel void f(device int* o) {\n o[0] = min(uint(o[0]), 1);\n}",
            4,
            "no matching function",
        ),
        ("kernel void f(device float* o) {\n o[0] = as_type<float>(1l);\n}", 4, "same size"),
        ("constant int n = 1;\nkernel void f() {\n n = 2;\n}", 5, "const"),
        ("kernel void f(constant int& n) {\n n = 2;\n}", 4, "const"),
        (
            "kernel void f(device float* o) {\n float3 a = float3(1, 2); o[0] = a.x;\n}",
            0,
            "as many values",
        ),
    ],
)
def test_messages_name_the_line(compiled, text, line, message):
    with pytest.raises(SyntaxError) as caught:
        compiled(text)
    shown = str(caught.value)
    assert message in shown
    assert re.search(rf"program_source:{line or 4}:", shown)


def test_threadgroup_variable_in_a_helper(compiled):
    with pytest.raises(SyntaxError, match="not a kernel"):
        compiled("""
inline float g(float a) { threadgroup float t[4]; t[0] = a; return t[0]; }
kernel void f(device float* o) { o[0] = g(o[0]); }
""")


@pytest.mark.parametrize(
    "header",
    [
        *("atomic", "common", "error", "expm1f", "igamma", "indexing", "random"),
        *("reduction_utils", "special_math", "utils"),
    ],
)
def test_headers_that_torch_inserts(header):
    """The text that the real torch.mps.compile_shader hands over for its own headers."""
    from pathlib import Path

    from torch.utils._cpp_embed_headers import _embed_headers

    include = Path(torch.__file__).parent / "include"
    if not (include / "c10" / "metal" / f"{header}.h").exists():
        pytest.skip("this torch has no such header")
    text = f"#include <c10/metal/{header}.h>\nkernel void f(device float* o) {{ o[0] = 1; }}\n"
    lib = shader.compile_shader(_embed_headers(text.splitlines(True), [include], set()))
    assert "f" in dir(lib)


def test_unknown_metal_version(compiled, monkeypatch):
    monkeypatch.setattr(options, "metal_version", 200)
    with pytest.raises(ValueError, match="expected 310, 320 or 400"):
        compiled("kernel void f() {}")


def test_compilation_is_kept(compiled, monkeypatch):
    from mps_emulator.shader import _build

    text = "kernel void kept(device float* o) { o[0] = 77; }"
    compiled(text)
    monkeypatch.setattr(_build, "_compile", None)  # a second compilation would fail
    o = torch.zeros(1)
    compiled(text).kept(o)
    assert o.item() == 77
