from __future__ import annotations

import numpy as np
import pytest
import torch

from mps_emulator import shader
from mps_emulator.shader import options

COPY = """
kernel void copy(device const float* a, device float* o, uint i [[thread_position_in_grid]]) {
  o[i] = a[i];
}
kernel void first(device float* o [[buffer(1)]], constant long& v [[buffer(0)]]) { o[0] = v; }
kernel void limited_not() {}
[[max_total_threads_per_threadgroup(64)]] kernel void small(device uint* o,
    uint t [[threads_per_threadgroup]], uint i [[thread_position_in_grid]]) { o[i] = t; }
kernel void width(device uint* o, uint w [[threads_per_simdgroup]]) { o[0] = w; }
kernel void shape(device uint* o, uint3 t [[threads_per_threadgroup]],
    uint3 g [[threadgroups_per_grid]], uint3 i [[thread_position_in_grid]]) {
  if (i.x == 0 && i.y == 0) { o[0] = t.x; o[1] = t.y; o[2] = g.x; o[3] = g.y; }
}
"""


@pytest.fixture
def lib(compiled):
    return compiled(COPY)


def test_dir_lists_the_kernels(lib):
    assert dir(lib) == ["copy", "first", "limited_not", "shape", "small", "width"]


def test_unknown_kernel(lib):
    with pytest.raises(RuntimeError, match="Failed to create function state object for: nothing"):
        _ = lib.nothing


def test_every_access_gives_a_new_kernel(lib):
    assert lib.copy is not lib.copy


def test_attributes(lib):
    assert lib.copy.max_threads_per_threadgroup == 1024
    assert lib.small.max_threads_per_threadgroup == 64
    assert lib.copy.thread_execution_width == 32
    assert lib.copy.static_thread_group_memory_length == 0


def test_call_is_keyword_only_after_the_arguments(lib):
    with pytest.raises(TypeError):
        lib.copy(torch.zeros(1), torch.zeros(1), thread=1)


def test_storage_offset_counts(lib):
    base, o = torch.arange(10.0), torch.zeros(3)
    lib.copy(base[4:7], o)
    assert o.tolist() == [4, 5, 6]


def test_strides_do_not_count(lib):
    a, o = torch.arange(6.0).reshape(2, 3).t(), torch.zeros(6)
    lib.copy(a, o, threads=6)
    assert o.tolist() == [0, 1, 2, 3, 4, 5]


def test_writes_go_to_the_view(lib):
    base = torch.zeros(6)
    lib.copy(torch.ones(2), base[3:5])
    assert base.tolist() == [0, 0, 0, 1, 1, 0]


def test_cpu_tensor_is_refused(lib, monkeypatch):
    monkeypatch.setattr(options, "allow_cpu_tensors", False)
    with pytest.raises(RuntimeError, match="Passed CPU tensor to MPS op"):
        lib.copy(torch.zeros(2), torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scalar_cpu_tensor_goes_by_value(compiled, dtype):
    lib = compiled("kernel void f(device float* o, constant float& v) { o[0] = v; }")
    o = torch.zeros(1)
    lib.f(o, torch.tensor([1.0, 2.5], dtype=dtype)[1])
    assert o.item() == 2.5


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3.25, "float", 3.25),
        (7, "long", 7.0),
        (True, "long", 1.0),
        (-(2**40), "long", -(2.0**40)),
        (1e300, "float", float("inf")),
        (np.float64(1.5), "float", 1.5),
    ],
)
def test_scalars(compiled, value, kind, expected):
    lib = compiled(f"kernel void f(device float* o, constant {kind}& v) {{ o[0] = v; }}")
    o = torch.zeros(1)
    lib.f(o, value)
    assert o.item() == expected


def test_lists(compiled):
    lib = compiled(
        "kernel void f(device float* o, constant long* a, constant float* b,\n"
        "    constant packed_float3& c, constant float4& d) {\n"
        "  o[0] = a[2]; o[1] = b[1]; o[2] = c.z; o[3] = d.w; }"
    )
    o = torch.zeros(4)
    lib.f(o, [1, 2, 3], (0.5, 1.5), [1.0, 2.0, 4.0], [1.0, 2.0, 3.0, 8.0])
    assert o.tolist() == [3, 1.5, 4, 8]


@pytest.mark.parametrize(
    ("cast", "kind", "value", "expected"),
    [
        ("fp16", "half", 1.5, 1.5),
        ("bf16", "bfloat", 1.5, 1.5),
        ("int32", "int", -3, -3),
        ("int16", "short", -3, -3),
        ("int8", "char", -3, -3),
        ("uint8", "uchar", 200, 200),
        ("int32", "uint", 2**32 - 1, float(2**32)),
        ("int32", "int", 2.9, 2),
    ],
)
def test_arg_casts(compiled, cast, kind, value, expected):
    lib = compiled(f"kernel void f(device float* o, constant {kind}& v) {{ o[0] = float(v); }}")
    o = torch.zeros(1)
    lib.f(o, value, arg_casts=cast)
    assert o.item() == expected
    o.zero_()
    lib.f(o, value, arg_casts={1: cast})
    assert o.item() == expected


def test_arg_casts_of_a_list(compiled):
    lib = compiled("kernel void f(device int* o, constant int* v) { o[0] = v[0] + v[2]; }")
    o = torch.zeros(1, dtype=torch.int32)
    lib.f(o, [1, 2, 3], arg_casts="int32")
    assert o.item() == 4


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "match"),
    [
        ((np.float32(1),), {}, TypeError, "Unsupported argument type"),
        ((np.int64(1),), {}, TypeError, "Unsupported argument type"),
        (("text",), {}, TypeError, "Unsupported argument type"),
        (([],), {}, RuntimeError, "empty list"),
        (([torch.zeros(1)],), {}, RuntimeError, "list of tensors"),
        ((2**64,), {}, RuntimeError, "does not fit in 64 bits"),
        ((1,), {"arg_casts": "uint32"}, RuntimeError, "Unsupported cast type 'uint32'"),
        (([1.0] * 2000,), {}, RuntimeError, "over the 4096"),
        (([1, 2.0],), {}, TypeError, "holds 2.0"),
        ((1.0,), {"error_buf_idx": 1}, NotImplementedError, "error_buf_idx"),
    ],
)
def test_bad_arguments(compiled, args, kwargs, error, match):
    lib = compiled("kernel void f(device float* o, constant float& v) { o[0] = v; }")
    with pytest.raises(error, match=match):
        lib.f(torch.zeros(1), *args, **kwargs)


def test_explicit_buffer_order(lib):
    o = torch.zeros(1)
    lib.first(5, o, threads=1)
    assert o.item() == 5


def test_default_threads_is_the_first_tensors_size(lib):
    o = torch.zeros(5)
    lib.copy(torch.ones(3), o)
    assert o.tolist() == [1, 1, 1, 0, 0]


def test_no_tensor_and_no_threads(lib):
    with pytest.raises(RuntimeError, match="Number of threads is undefined"):
        lib.limited_not()
    lib.limited_not(threads=4)


def test_default_group_size(lib):
    o = torch.zeros(100, dtype=torch.int32)
    lib.small(o)
    assert o.tolist() == [64] * 64 + [36] * 36
    shape = torch.zeros(4, dtype=torch.int32)
    lib.shape(shape, threads=(5, 3))
    assert shape.tolist() == [5, 1, 1, 3]  # groups of (1024, 1): the grid cuts them to 5


def test_group_size_limit(lib):
    o = torch.zeros(100, dtype=torch.int32)
    with pytest.raises(ValueError, match="Threadgroup size exceeds 64 limit"):
        lib.small(o, group_size=65)
    with pytest.raises(ValueError, match="Threadgroup size exceeds 1024 limit"):
        lib.shape(o, threads=(64, 64), group_size=(33, 32))


def test_large_groups_are_asked_for_in_the_text(compiled):
    text = "kernel void f(device int* o, uint i [[thread_position_in_grid]]) { o[i] = 1; }"
    o = torch.zeros(512, dtype=torch.int32)
    lib = compiled(text)
    lib.f(o, threads=512, group_size=256)
    lib.f(o)  # the device chooses
    with pytest.raises(ValueError, match=r"write \[\[max_total_threads_per_threadgroup\(512\)\]\]"):
        lib.f(o, threads=512, group_size=512)
    compiled("[[max_total_threads_per_threadgroup(512)]] " + text).f(o, threads=512, group_size=512)


@pytest.mark.parametrize("threads", [(), (1, 1, 1, 1)])
def test_dimensions_of_threads(lib, threads):
    with pytest.raises((RuntimeError, TypeError)):
        lib.copy(torch.zeros(1), torch.zeros(1), threads=threads)


def test_group_size_has_as_many_dimensions(lib):
    with pytest.raises(RuntimeError, match="threads has 2 dimensions, group_size 1"):
        lib.copy(torch.zeros(1), torch.zeros(1), threads=(1, 1), group_size=1)


@pytest.mark.parametrize("threads", [0, -1, (3, 0), 2**32])
def test_empty_and_impossible_grids(lib, threads):
    with pytest.raises(RuntimeError, match="each must be from 1"):
        lib.copy(torch.zeros(1), torch.zeros(1), threads=threads)


def test_empty_first_tensor(lib):
    with pytest.raises(RuntimeError, match="return before the launch"):
        lib.copy(torch.zeros(0), torch.zeros(1))


def test_simd_width_kernel(lib):
    o = torch.zeros(1, dtype=torch.int32)
    lib.width(o)
    assert o.item() == 32


def test_source_must_be_text():
    with pytest.raises(TypeError, match="as str, got bytes"):
        shader.compile_shader(b"kernel void f() {}")  # type: ignore[arg-type]


def test_source_must_be_ascii():
    with pytest.raises(RuntimeError, match="must be ASCII, line 2"):
        shader.compile_shader("\n// \u00e4\nkernel void f() {}")


def test_kernel_without_include():
    lib = shader.compile_shader("kernel void f(device float* o) { float3 v = 2; o[0] = v.y; }")
    o = torch.zeros(1)
    lib.f(o)
    assert o.item() == 2
