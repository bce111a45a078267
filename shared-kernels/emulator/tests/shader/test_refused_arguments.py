"""Arguments that do not fit a kernel are refused, naming kernel and line."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def test_wrong_argument_count(compiled, refused):
    lib = compiled("\nkernel void f(device float* o, constant long& n) { o[0] = n; }")
    message = r"takes 2 buffer arguments \(0: o, 1: n\), got "
    refused(lib, torch.zeros(1), match=message + "1", line=4)
    refused(lib, torch.zeros(1), 1, 2, match=message + "3", line=4)


def test_gap_in_the_indices(compiled, refused):
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
def test_element_sizes(compiled, refused, kind, dtype, fits):
    lib = compiled(f"struct S {{ float a, b, c; }};\nkernel void f(device {kind}* o) {{ }}")
    tensor = torch.zeros(16, dtype=dtype)
    if fits:
        lib.f(tensor, threads=1)
    else:
        message = rf"argument 0 for parameter 'o' has elements of {tensor.element_size()} bytes"
        refused(lib, tensor, match=message, line=4, threads=1)


def test_alignment_of_a_view(compiled, refused):
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
def test_scalar_sizes(compiled, refused, parameter, value, message):
    lib = compiled(f"kernel void f(device float* o, {parameter}) {{ o[0] = 1; }}")
    refused(lib, torch.zeros(1), value, match=message, line=3)


def test_arg_casts_make_it_fit(compiled, refused):
    lib = compiled("kernel void f(device float* o, constant uint& v) { o[0] = v; }")
    o = torch.zeros(1)
    lib.f(o, 7, arg_casts={1: "int32"})
    assert o.item() == 7
    refused(lib, o, 7, match="has 2 bytes", line=3, arg_casts={1: "int16"})


def test_fake_and_meta_tensors(compiled, refused):
    lib = compiled("kernel void f(device float* o) { o[0] = 1; }")
    refused(lib, torch.zeros(1, device="meta"), match="device 'meta'", line=3)
    with FakeTensorMode():
        fake = torch.zeros(1)
        refused(lib, fake, match="no memory", line=3)
