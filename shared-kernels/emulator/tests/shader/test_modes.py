"""Arithmetic: contraction, pragmas, fast math, subnormals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mps_emulator.shader import options

# a * a - b: with one rounding the tail of the product survives.
A = np.float32(1 + 2**-12)
B = np.float32(A * A)
FUSED = float(np.float64(A) * np.float64(A) - np.float64(B))
INPUT = torch.tensor([float(A), float(B), 2.0**24, 1.0, 1e-38, 0.25, 0.0])
OFF = "#pragma METAL fp contract(off)\n"
ON = "#pragma METAL fp contract(on)\n"


def run(compiled, body, n=1, before="", x=INPUT):
    lib = compiled(
        f"{before}\nkernel void f(device float* o, device const float* x) {{\n{body}\n}}"
    )
    o = torch.zeros(n)
    lib.f(o, x, threads=1)
    return o.tolist()


def test_contraction_is_on_within_a_statement(compiled):
    assert FUSED != 0
    split = "float p = x[0] * x[0];\no[1] = p - x[1];"
    assert run(compiled, f"o[0] = x[0] * x[0] - x[1];\n{split}", 2) == [FUSED, 0]


def test_contraction_of_vectors(compiled):
    body = "float3 a = x[0], b = x[1]; o[0] = (a * a - b).y;"
    assert run(compiled, body) == [FUSED]
    assert run(compiled, body, before=OFF) == [0]


@pytest.mark.parametrize("fast", [False, True])
def test_contract_off_at_file_scope(compiled, monkeypatch, fast):
    monkeypatch.setattr(options, "fast_math", fast)
    assert run(compiled, "o[0] = x[0] * x[0] - x[1];", before=OFF) == [0]
    assert run(compiled, "o[0] = fma(x[0], x[0], -x[1]);", before=OFF) == [FUSED]


def test_contract_in_a_block(compiled):
    body = f"o[0] = x[0] * x[0] - x[1];\n{{\n{OFF}o[1] = x[0] * x[0] - x[1];\n}}"
    assert run(compiled, body, 2) == [FUSED, 0]
    body = f"o[0] = x[0] * x[0] - x[1];\n{{\n{ON}o[1] = x[0] * x[0] - x[1];\n}}"
    assert run(compiled, body, 2, before=OFF) == [0, FUSED]


def test_contract_from_a_macro(compiled):
    before = '#define EXACT _Pragma("METAL fp contract(off)")\nEXACT\n'
    assert run(compiled, "o[0] = x[0] * x[0] - x[1];", before=before) == [0]


def test_contract_reaches_helpers(compiled):
    before = OFF + "inline float sq(float a, float b) { return a * a - b; }\n"
    assert run(compiled, "o[0] = sq(x[0], x[1]);", before=before) == [0]


REASSOCIATED = "float a = x[2], b = x[3]; o[0] = (a + b) - a;"


def test_safe_math_does_not_reassociate(compiled):
    assert run(compiled, REASSOCIATED) == [0]


def test_fast_math(compiled, monkeypatch):
    monkeypatch.setattr(options, "fast_math", True)
    assert run(compiled, REASSOCIATED) == [1]
    # Contraction across statements, and no NaN to be seen.
    assert run(compiled, "float p = x[0] * x[0];\no[0] = p - x[1];") == [FUSED]
    assert run(compiled, "o[0] = isnan(x[6] / x[6]);") == [0]


@pytest.mark.parametrize(("mode", "total", "nan"), [("safe", 0, 1), ("fast", 1, 0)])
@pytest.mark.parametrize("fast", [False, True])
def test_math_mode_pragma(compiled, monkeypatch, fast, mode, total, nan):
    monkeypatch.setattr(options, "fast_math", fast)
    before = f"#pragma METAL fp math_mode({mode})\n"
    body = REASSOCIATED + " float q = x[6] / x[6]; o[1] = q != q;"
    assert run(compiled, body, 2, before=before) == [total, nan]


def test_relaxed_math_mode(compiled):
    """Contraction across statements as in fast math, but NaN stays."""
    before = "#pragma METAL fp math_mode(relaxed)\n"
    body = "float p = x[0] * x[0];\no[0] = p - x[1];\nfloat q = x[6] / x[6]; o[1] = q != q;"
    assert run(compiled, body, 2, before=before) == [FUSED, 1]


def test_safe_block_in_fast_math(compiled, monkeypatch):
    monkeypatch.setattr(options, "fast_math", True)
    body = f"{REASSOCIATED}\n{{\n#pragma METAL fp math_mode(safe)\no[1] = (a + b) - a;\n}}"
    assert run(compiled, body, 2) == [1, 0]


def test_precise_functions_in_fast_math(compiled, monkeypatch):
    monkeypatch.setattr(options, "fast_math", True)
    x = torch.tensor([3.0, 7.0])
    got = run(compiled, "o[0] = precise::divide(x[0], x[1]); o[1] = precise::sqrt(x[0]);", 2, x=x)
    assert got == [float(np.float32(3) / np.float32(7)), float(np.sqrt(np.float32(3)))]


@pytest.mark.parametrize("fast", [False, True])
def test_subnormals_are_flushed(compiled, monkeypatch, fast):
    monkeypatch.setattr(options, "fast_math", fast)
    tiny = float(np.finfo(np.float32).tiny)
    x = torch.tensor([tiny, 0.5, 1e-40, 1.0, -tiny])
    body = """
o[0] = x[0] * x[1]; o[1] = x[2] * x[3]; o[2] = x[2] > 0; o[3] = fma(x[0], x[1], 0.0f);
o[4] = x[0] * x[3]; o[5] = signbit(x[4] * x[1]); o[6] = x[2] == 0;
"""
    assert run(compiled, body, 7, x=x) == [0, 0, 0, 0, tiny, 1, 1]


def test_the_process_keeps_its_own_subnormals(compiled):
    run(compiled, "o[0] = 1;")
    half = np.finfo(np.float32).tiny * np.float32(0.5)
    assert half > 0
    lib = compiled("kernel void f(device float* o) { o[99] = 1; }")
    with pytest.raises(RuntimeError):
        lib.f(torch.zeros(1))
    assert np.finfo(np.float32).tiny * np.float32(0.5) > 0


def test_division_and_root_are_correctly_rounded(compiled):
    x = torch.rand(256) + 0.1
    lib = compiled("""
kernel void f(device float* o, device const float* x, uint i [[thread_position_in_grid]]) {
  o[2 * i] = 1.0 / x[i]; o[2 * i + 1] = sqrt(x[i]);
}
""")
    o = torch.zeros(512)
    lib.f(o, x, threads=256)
    assert torch.equal(o[0::2], 1 / x)
    assert torch.equal(o[1::2], torch.from_numpy(np.sqrt(x.numpy())))


def test_literals_are_single(compiled):
    single = np.float32(1) + np.float32(0.1) == np.float32(1.1)
    assert run(compiled, "o[0] = x[3] + 0.1 == 1.1f;") == [float(single)]
    assert run(compiled, "o[0] = 16777216.0 + 1.0;") == [16777216]
