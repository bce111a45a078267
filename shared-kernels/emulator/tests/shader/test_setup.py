"""Settings, platforms, caches, and the way through torch itself."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest
import torch

from mps_emulator import shader
from mps_emulator.shader import _lines, _toolchain, options
from mps_emulator.shader._lexer import tokenize


@pytest.fixture
def reloaded():
    """Reads the options again from the environment, and once more when the test has ended."""
    before = dict(vars(options))
    yield lambda: importlib.reload(options)
    vars(options).update(before)


def test_options_from_the_environment(monkeypatch, reloaded):
    monkeypatch.setenv("MPS_EMULATOR_SEED", "17")
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "1")
    monkeypatch.setenv("MPS_EMULATOR_METAL_VERSION", "320")
    reloaded()
    assert (options.seed, options.fast_math, options.metal_version) == (17, True, 320)
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "0")
    monkeypatch.delenv("MPS_EMULATOR_SEED")
    monkeypatch.delenv("MPS_EMULATOR_METAL_VERSION")
    reloaded()
    assert (options.seed, options.fast_math, options.metal_version) == (0, False, 310)
    assert options.checks
    assert not options.allow_cpu_tensors


@pytest.fixture
def fresh_zig():
    _toolchain.zig.cache_clear()
    yield
    _toolchain.zig.cache_clear()


@pytest.mark.usefixtures("fresh_zig")
def test_other_machines_are_refused(monkeypatch):
    monkeypatch.setattr(_toolchain.platform, "machine", lambda: "aarch64")
    with pytest.raises(RuntimeError, match="x86-64 Linux only, not on linux aarch64"):
        _toolchain.zig()


@pytest.mark.usefixtures("fresh_zig")
def test_old_processors_are_refused(monkeypatch):
    monkeypatch.setattr(_toolchain, "_cpu_flags", lambda: {"avx2", "fma", "bmi2"})
    with pytest.raises(RuntimeError, match="lacks f16c"):
        _toolchain.zig()


@pytest.mark.usefixtures("fresh_zig")
def test_missing_compiler(monkeypatch):
    monkeypatch.setattr(_toolchain.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="pip install ziglang"):
        _toolchain.zig()


def test_through_torch_on_the_device(monkeypatch):
    """The real torch.mps.compile_shader, its example, and the rule about CPU tensors."""
    monkeypatch.setattr(options, "allow_cpu_tensors", False)
    lib = torch.mps.compile_shader(
        "kernel void full(device float* out, constant float& val,\n"
        "    uint idx [[thread_position_in_grid]]) { out[idx] = val; }"
    )
    assert isinstance(lib, shader.Library)
    x = torch.zeros(16, device="mps")
    lib.full(x[4:], 3.14)
    assert x.cpu().tolist() == pytest.approx([0] * 4 + [3.14] * 12)
    with pytest.raises(RuntimeError, match="Passed CPU tensor to MPS op"):
        lib.full(torch.zeros(16), 3.14)


def test_tokens_know_their_lines():
    tokens = tokenize(
        '# 1 "program_source"\na\n# 10 "program_source" 2\nb >>= c<d<e>>\n"s\\"" 1.5e-3\n'
    )
    found = [(t.text, t.line) for t in tokens if t.kind not in ("space", "directive")]
    texts = ["a", "b", ">", ">=", "c", "<", "d", "<", "e", ">", ">", '"s\\""', "1.5e-3"]
    assert found == list(zip(texts, [1, *[10] * 10, 11, 11], strict=True))


def test_line_table_without_content():
    assert _lines.LineTable(b"").place(0x1000) is None


def test_lines_inside_helpers_and_macros(compiled):
    lib = compiled("""
#define WRITE(p, i) p[i] = 1
inline void put(device float* o, uint i) {
  o[i] = 2;
}
kernel void f(device float* o, constant long& which) {
  if (which == 0) put(o, 50);
  if (which == 1)
    WRITE(o, 50);
  if (which == 2) atomic_fetch_add_explicit((device atomic_uint*)o + 50, 1u,
                                            memory_order_relaxed);
}
""")
    for which, line in ((0, 6), (1, 11), (2, 12)):
        with pytest.raises(RuntimeError, match=f"kernel 'f', line {line}: out-of-bounds"):
            lib.f(torch.zeros(4), which, threads=1)


JOINED = """#define N 1
#line 1 "put.metal"
#include <metal_stdlib>
using namespace metal;
static inline void put(device float* o, uint i) {
  o[i] = N;
}
#line 1 "fill.metal"
// The kernels.
kernel void f(device float* o, constant long& which,
    uint i [[thread_index_in_threadgroup]]) {
  if (which == 0) put(o, 50);
  if (which == 1) o[50] = 2;
  if (which == 2 && i == 1)
    simd_sum(1);
  if (which == 2 && i == 0)
    simd_sum(1);
}
"""


@pytest.mark.parametrize("twice", [False, True])  # the second time from the cache
@pytest.mark.parametrize(
    ("which", "message"),
    [
        (0, "kernel 'f', put.metal:4: out-of-bounds write"),
        (1, "kernel 'f', fill.metal:5: out-of-bounds write"),
        (2, "kernel 'f', fill.metal:9: divergent .*, thread 1 at simd_sum, fill.metal:7"),
        (1.5, r"kernel 'f' \(fill.metal:2\): argument 1"),
    ],
)
def test_line_directives_name_the_file(which, message, twice):
    lib = shader.compile_shader(JOINED)
    if twice:
        lib = shader.compile_shader(JOINED)
    with pytest.raises((RuntimeError, TypeError, ValueError), match=f"^{message}"):
        lib.f(torch.zeros(4), which, threads=2)


def test_line_directives_with_folders_and_without_names():
    text = '#line 7 "a/b.metal"\nkernel void f(device float* o) {\n#line 30\n  o[9] = 1;\n}\n'
    with pytest.raises(RuntimeError, match=r"^kernel 'f', a/b.metal:30: out-of-bounds"):
        shader.compile_shader(text).f(torch.zeros(4), threads=1)
    text = "kernel void f(device float* o) {\n#line 30\n  o[9] = 1;\n}\n"
    with pytest.raises(RuntimeError, match=r"^kernel 'f', line 30: out-of-bounds"):
        shader.compile_shader(text).f(torch.zeros(4), threads=1)


@pytest.mark.slow
def test_processes_share_an_empty_cache(tmp_path):
    """Several processes build runtime, header and shader at the same time."""
    program = """
import torch
from mps_emulator import shader
shader.options.allow_cpu_tensors = True
lib = shader.compile_shader("kernel void f(device float* o) { o[0] = 5; }")
o = torch.zeros(1)
lib.f(o)
print(o.item())
"""
    environment = {**os.environ, "MPS_EMULATOR_CACHE": str(tmp_path)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert [run.communicate(timeout=300)[0].strip() for run in runs] == ["5.0"] * 4
    assert not list((tmp_path / "shader").glob(".*"))
