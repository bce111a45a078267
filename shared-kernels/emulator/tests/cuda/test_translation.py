"""Metal texts as CUDA C++: NVIDIA's compiler takes them, without a card."""

import os
import subprocess
import sys

import pytest

from mps_emulator.cuda import _driver, _library, _nvrtc
from mps_emulator.cuda._translate import translate
from mps_emulator.shader._arguments import bind, grid_and_group
from mps_emulator.shader._toolchain import Mode

pytestmark = pytest.mark.skipif(not _nvrtc.is_available(), reason="needs a PyTorch with CUDA")
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
SAFE, FAST = Mode(False, 310, True), Mode(True, 310, True)


@pytest.fixture(autouse=True)
def _hopper(monkeypatch):
    monkeypatch.setattr(_driver, "architecture", lambda: "sm_90")


def assembly(text, mode=SAFE, whole=True, by_value=True):
    """PTX of a text."""
    translation = translate(HEAD + text, mode)
    chosen = _library.compiler_options(translation, mode, "compute_90")
    program = translation.program(whole=whole, by_value=by_value)
    return _nvrtc.compile_text(program, "program_source", chosen).decode()


def kernel(body, parameters="device float* o"):
    return f"kernel void f({parameters}, uint i [[thread_position_in_grid]]) {{ {body} }}"


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("by_value", [True, False])
def test_every_part_of_the_headers_compiles(whole, by_value):
    made = assembly(
        """
constant uint TABLE[3] = {1, 10, 100};
constant float LARGE = INFINITY;
struct Pair { device const float* p; threadgroup uint* q; };
static inline float plus(thread float& x, constant float& y) { x += y; return x; }
template <typename T, int N> static inline T power(T x) {
  T r = 1;
  #pragma unroll
  for (int i = 0; i < N; ++i) r *= x;
  return r;
}
[[max_total_threads_per_threadgroup(256)]]
kernel void f(device float* o, constant long* n, constant float& y, device atomic_uint* a,
              device packed_float3* v, uint3 i [[thread_position_in_grid]],
              uint lane [[thread_index_in_simdgroup]], uint3 size [[threads_per_threadgroup]],
              uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup uint shared[256];
  threadgroup atomic_uint most;
  Pair pair = {o, shared + lane};
  float3 c = v[i.x];
  uint4 w = uint4(1, 2, 3, n[0]);
  w = (w << 2) + w.wzyx;
  float x = o[i.x];
  x = plus(x, y) + power<float, 3>(x) + dot(c, c.zyx) + length(c) + c[i.y] + LARGE;
  x = select(x, clamp(x, 0.0f, 1.0f), isfinite(x)) + precise::sqrt(x) + fast::divide(x, 3.0f);
  x += fma(x, x, x) + rint(x) + mix(x, 1.0f, 0.5f) + as_type<float>(w.x ^ popcount(w.y));
  bool b = any(c > 1.0f) || all(w == 3u);
  uint u = clz(w.x) + ctz(w.y) + reverse_bits(w.z) + mulhi(w.x, w.y) + min(w.z, 5u);
  u += TABLE[lane % 3];
  u += simd_sum(u) + simd_prefix_exclusive_sum(u) + simd_shuffle_xor(u, 1) + simd_max(u);
  x += simd_sum(x) + simd_min(x) + simd_shuffle(x, ushort(lane ^ 2)) + simd_broadcast_first(x);
  ushort s = simd_shuffle_down(ushort(u), 1);
  u += uint(ulong(simd_vote::vote_t(simd_ballot(b)))) + uint(simd_any(b)) + s;
  atomic_store_explicit(&most, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  simdgroup_barrier(mem_flags::mem_none);
  uint expected = 3;
  atomic_compare_exchange_weak_explicit(&a[1], &expected, u, memory_order_relaxed,
                                        memory_order_relaxed);
  atomic_fetch_max_explicit(&most, u, memory_order_relaxed);
  pair.q[0] = atomic_fetch_add_explicit(a, u, memory_order_relaxed) + expected;
  o[i.x] = x + float(size.x + simds) + pair.p[1];
}""",
        whole=whole,
        by_value=by_value,
    )
    assert ".entry f_0(" in made
    assert ".maxntid 256" in made


def test_macros_that_define_kernels_and_instances():
    translation = translate(
        HEAD
        + "#define KERNEL(N, T) kernel void N(device T* o) { o[0] = T(1); }\n"
        + "KERNEL(a, float)\nKERNEL(b, long)\n"
        + "template <typename T> kernel void t(device T* o) { o[0] = T(2); }\n"
        + 'template [[host_name("t_int")]] kernel void t<int>(device int*);\n',
        SAFE,
    )
    assert [k.name for k in translation.kernels] == ["a", "b", "t_int"]
    library = _library.Library(translation, SAFE)
    assert [s.slots[0].type.size for s in library.signatures] == [4, 8, 4]


def test_arithmetic_is_exact_in_safe_math():
    text = kernel("o[i] = o[i] * o[i] + o[i] / 3.0f + sqrt(o[i]);")
    made = assembly(text)
    assert "fma.rn" not in made.partition("div.rn.ftz.f32")[0]
    assert "div.rn.ftz.f32" in made
    assert "sqrt.rn.ftz.f32" in made


def test_fast_math_fuses_and_approximates_unless_the_text_forbids_it():
    text = kernel("o[i] = o[i] * o[i] + o[i]; o[i] = sqrt(o[i]);")
    made = assembly(text, FAST)
    assert "fma.rn.ftz.f32" in made
    assert "sqrt.approx" in made
    forbidden = "#pragma METAL fp contract(off)\n#pragma METAL fp math_mode(safe)\n"
    made = assembly(forbidden + text, FAST)
    assert "fma.rn" not in made
    assert "sqrt.rn.ftz" in made


def test_precise_functions_are_exact_in_fast_math():
    made = assembly(kernel("o[i] = precise::sqrt(o[i]) + precise::divide(o[i], 3.0f);"), FAST)
    assert "sqrt.rn" in made
    assert "div.rn" in made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (kernel("half x = 1; o[i] = x;"), "program_source:3: error: 'half' is not translated"),
        (kernel("o[i] = 1.5h;"), "half precision is not translated"),
        (kernel("float3x3 m; o[i] = 0;"), "'float3x3' is not translated"),
        (kernel("o[i] = quad_sum(1.0f);"), "'quad_sum' is not translated"),
        (kernel("double x = 1;"), "'double' is not supported in Metal"),
        ("kernel void f(float* o) {}", "must name its address space"),
        ("kernel int f(device float* o) {}", "must have the return type 'void'"),
        ("threadgroup float x[3];\n" + kernel("o[i] = 1;"), "only be declared inside a kernel"),
        ("#if 1\n" + kernel("o[i] = 1;"), "unterminated"),
        ("#pragma METAL fp contract(maybe)\n" + kernel(""), "unknown pragma"),
    ],
)
def test_what_the_translator_refuses(text, words):
    with pytest.raises(SyntaxError, match=words.replace("(", r"\(")):
        translate(HEAD + text, SAFE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (kernel("o[i] = y;"), r'program_source\(3\): error: identifier "y" is undefined'),
        ('#line 7 "room.metal"\n' + kernel("o[i] = y;"), r"room.metal\(7\): error"),
        (kernel("o[i] = simd_sum(1l);"), "no instance of"),
        (kernel("o[i] = as_type<long>(1.0f);"), "two types of one size"),
        (kernel("float3 v = 1; v.xy = float2(0); o[i] = v.x;"), "no operator"),
        (kernel("uint2 p = uint2(1);").replace("uint i", "float i"), "must be ushort or uint"),
        (kernel("", "device float* o [[buffer(2)]], device float* p [[buffer(2)]]"), "the same"),
    ],
)
def test_what_the_compiler_refuses(text, words):
    with pytest.raises((SyntaxError, KeyError), match=words):
        _library.compile_shader(HEAD + text)


def test_calls_are_checked_as_the_executor_checks_them():
    library = _library.compile_shader(
        HEAD + kernel("o[i] = n[0];", "device float* o, constant long* n")
    )
    (signature,) = library.signatures
    with pytest.raises(RuntimeError, match="takes 2 buffer arguments"):
        bind(signature, ([1],), None, "cuda")
    with pytest.raises(RuntimeError, match="in device memory"):
        bind(signature, ([1.0], [2]), None, "cuda")
    with pytest.raises(ValueError, match="exceeds 1024"):
        grid_and_group(signature, (), 4096, 2048)
    assert grid_and_group(signature, (), 64, None) == ([64, 1, 1], [64, 1, 1])
    with pytest.raises(RuntimeError, match="function state object for: g"):
        library.g  # noqa: B018


ROUTING = """
import torch, mps_emulator.cuda
early = torch.library.Library("early", "DEF")
early.define("f(Tensor x) -> Tensor")
early.impl("f", lambda x: x + 1, "MPS")
early.define("own(Tensor x) -> Tensor")
early.impl("own", lambda x: x + 1, "MPS")
early.impl("own", lambda x: x + 2, "CUDA")
mps_emulator.cuda.install(without_gpu=True)
mps_emulator.cuda.install(without_gpu=True)
late = torch.library.Library("late", "DEF")
late.define("g(Tensor x) -> Tensor")
late.impl("g", lambda x: x + 1, "MPS")
late.define("h(Tensor x) -> Tensor")
late.impl("h", lambda x: x + 1, "CPU")
has = lambda name: torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
assert has("early::f") and has("early::own") and has("late::g") and not has("late::h")
cuda = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
x = torch.zeros(1)
values = [op.default.redispatch(cuda, x).item() for op in
          (torch.ops.early.f, torch.ops.early.own, torch.ops.late.g)]
assert values == [1, 2, 1], values
with mps_emulator.cuda.count() as counts:
    torch.ops.late.h(x)
assert counts.dispatches == 0
"""


def test_operators_for_mps_are_there_for_cuda_too():
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [sys.executable, "-c", ROUTING], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.py"], "does not exist"),
        ([__file__], "needs an NVIDIA GPU"),
    ],
)
def test_the_command_says_what_is_missing(arguments, words):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "mps_emulator.cuda", *arguments],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode != 0
    assert words in done.stderr


def test_calls_of_a_function_are_counted_where_it_is_defined():
    text = (
        "static inline float g(float x,\n  float y) { return x + y; }\n"
        + "static inline float unlike_g(float x) { return x; }\n"
        + kernel("if (g(o[i], 1) > 2) { o[i] = unlike_g(3); }")
    )
    plain = translate(HEAD + text, SAFE)
    counting = plain.counting(["g", "absent"])
    assert counting.text.count("atomicAdd") == 1
    assert "float y) { atomicAdd(" in counting.text
    assert "__msl_calls" not in plain.program(whole=True, by_value=True)
    made = _nvrtc.compile_text(
        counting.program(whole=True, by_value=True),
        "program_source",
        _library.compiler_options(counting, SAFE, "compute_90"),
    ).decode()
    assert ".global .align 8 .u64 __msl_calls" in made
    assert "red.global.add.u64" in made or "atom.global.add.u64" in made
