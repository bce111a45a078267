"""What the translation means, on a card: ``python -m mps_emulator.cuda .../on_a_card.py``."""

from __future__ import annotations

import statistics
import sys
import time
import traceback
from collections.abc import Callable

import torch

import mps_emulator.cuda

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
CHECKS: list[Callable[[], None]] = []


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Adds a check to the list."""
    CHECKS.append(function)
    return function


def compiled(text: str) -> object:
    """Returns the library of a text."""
    return torch.mps.compile_shader(HEAD + text)


def equal(got: torch.Tensor, wanted: object) -> None:
    """Compares a tensor with numbers."""
    expected = torch.as_tensor(wanted).to(got.dtype)
    if got.cpu().tolist() != expected.tolist():
        raise AssertionError(f"got {got.cpu().tolist()}, wanted {expected.tolist()}")


def refused(kind: type[Exception], words: str, call: Callable[[], object]) -> None:
    """Requires an error with these words."""
    try:
        call()
    except kind as error:
        if words not in str(error):
            raise AssertionError(f"{words!r} not in {error}") from None
    else:
        raise AssertionError(f"nothing raised {kind.__name__}")


@check
def scalars_lists_and_tensors() -> None:
    kernel = compiled(
        "kernel void f(device float* o, constant long* n, constant float& s, device const int* t,"
        " uint i [[thread_position_in_grid]]) { o[i] = float(n[i % 3]) * s + t[i]; }"
    ).f
    out = torch.full((64,), -1.0, device="cuda")
    kernel(out, [1, 2, 3], 0.5, torch.arange(64, device="cuda", dtype=torch.int32))
    wanted = [(i % 3 + 1) * 0.5 + i for i in range(64)]
    equal(out, wanted)
    numbers = torch.tensor([1, 2, 3], device="cuda")
    out.zero_()
    kernel(out, numbers, 0.5, torch.arange(64, device="cuda", dtype=torch.int32))
    equal(out, wanted)
    long_list = compiled(
        "kernel void f(device float* o, constant float* v, uint i [[thread_position_in_grid]])"
        " { o[i] = v[i]; }"
    ).f
    out = torch.zeros(1024, device="cuda")
    long_list(out, [i / 2 for i in range(1024)], threads=1024)
    equal(out, [i / 2 for i in range(1024)])


@check
def wrong_calls() -> None:
    kernel = compiled(
        "kernel void f(device float* o, constant long& n, uint i [[thread_position_in_grid]])"
        " { o[i] = n; }"
    ).f
    out = torch.zeros(32, device="cuda")
    refused(RuntimeError, "takes 2 buffer arguments", lambda: kernel(out))
    refused(RuntimeError, "CPU tensor", lambda: kernel(out.cpu(), 1))
    refused(RuntimeError, "elements of 8 bytes", lambda: kernel(out.double(), 1))
    refused(RuntimeError, "the parameter expects", lambda: kernel(out, 1.5))
    refused(RuntimeError, "each must be from 1", lambda: kernel(out, 1, threads=0))
    refused(ValueError, "exceeds 1024", lambda: kernel(out, 1, threads=2048, group_size=2048))


@check
def broken_texts() -> None:
    refused(
        SyntaxError, "undefined", lambda: compiled("kernel void f(device int* o) { o[0] = x; }")
    )
    refused(
        SyntaxError,
        "'half' is not translated",
        lambda: compiled("kernel void f(device half* o) {}"),
    )


@check
def lanes() -> None:
    kernel = compiled("""
kernel void f(device uint* o, uint i [[thread_position_in_grid]],
              uint lane [[thread_index_in_simdgroup]]) {
  uint v = i * 7 % 33;
  device uint* r = o + i * 12;
  r[0] = simd_sum(v); r[1] = simd_min(v); r[2] = simd_max(v); r[3] = simd_prefix_exclusive_sum(v);
  r[4] = simd_prefix_inclusive_sum(v); r[5] = simd_shuffle_xor(v, 1); r[6] = simd_shuffle_up(v, 3);
  r[7] = simd_shuffle_down(v, 3); r[8] = simd_broadcast(v, 5);
  r[9] = uint(ulong(simd_ballot(v > 9)));
  r[10] = simd_shuffle(v, ushort(lane * 5 % 6)); r[11] = simd_xor(v);
}""").f
    for threads, group in ((96, 32), (64, 64), (40, 40), (70, 32), (8, 32)):
        out = torch.zeros(threads, 12, dtype=torch.int64, device="cuda").to(torch.int32)
        kernel(out, threads=threads, group_size=group)
        wanted = []
        for i in range(threads):
            first = i // group * group
            start = first + (i - first) // 32 * 32
            v = [j * 7 % 33 for j in range(start, min(start + 32, first + group, threads))]
            lane, n = i - start, len(v)
            x = 0
            for value in v:
                x ^= value
            ballot = sum(1 << j for j, value in enumerate(v) if value > 9)
            row = [sum(v), min(v), max(v), sum(v[:lane]), sum(v[: lane + 1])]
            row.append(v[lane ^ 1] if lane ^ 1 < n else None)
            row.append(v[lane - 3] if lane > 2 else v[lane])
            row.append(v[lane + 3] if lane + 3 < n else None)
            wanted.append([*row, v[5], ballot, v[lane * 5 % 6], x])
        for at, (got, want) in enumerate(zip(out.cpu().tolist(), wanted, strict=True)):
            pairs = [(g & 0xFFFFFFFF, w) for g, w in zip(got, want, strict=True) if w is not None]
            if any(g != w for g, w in pairs):
                raise AssertionError(f"{threads} in {group}s, thread {at}: {got}, wanted {want}")


@check
def threadgroup_memory_and_atomics() -> None:
    kernel = compiled("""
constant uint FACTORS[3] = {1, 10, 100};
[[max_total_threads_per_threadgroup(256)]]
kernel void f(device uint* o, device atomic_uint* total, device atomic_float* sum,
              uint t [[thread_index_in_threadgroup]], uint g [[threadgroup_position_in_grid]],
              uint n [[threads_per_threadgroup]]) {
  threadgroup uint shared[256];
  threadgroup atomic_uint most;
  if (t == 0) atomic_store_explicit(&most, 0u, memory_order_relaxed);
  shared[t] = t * FACTORS[g % 3];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  o[g * n + t] = shared[n - 1 - t];
  atomic_fetch_max_explicit(&most, shared[t], memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) atomic_fetch_add_explicit(total, atomic_load_explicit(&most, memory_order_relaxed),
                                        memory_order_relaxed);
  if (t < 4) atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);
}""").f
    out = torch.zeros(768, dtype=torch.int32, device="cuda")
    total = torch.zeros(1, dtype=torch.int32, device="cuda")
    sums = torch.zeros(1, device="cuda")
    kernel(out, total, sums, threads=768, group_size=256)
    equal(out, [(255 - t) * f for f in (1, 10, 100) for t in range(256)])
    equal(total, [255 * 111])
    equal(sums, [6.0])


@check
def vectors_and_templates() -> None:
    library = compiled("""
template <typename T, int N> kernel void f(device T* o, uint i [[thread_position_in_grid]]) {
  T v = T(i);
  for (int j = 0; j < N; ++j) v = v * T(2);
  o[i] = v;
}
template [[host_name("twice_float")]] kernel void f<float, 1>(device float*, uint);
template [[host_name("eight_long")]] [[kernel]] decltype(f<long, 3>) f<long, 3>;
kernel void v(device packed_float3* p, device float4* q, device uint* u,
              uint i [[thread_position_in_grid]]) {
  float3 a = p[i];
  float4 b = float4(a.zyx, 1);
  b.w = dot(a, float3(1, 2, 3));
  q[i] = b + 0.5;
  p[i] = packed_float3(max(a, 2.0f));
  uint4 w = uint4(uint2(i, i + 1), 7, 8);
  w += 1u;
  w ^= uint4(1);
  u[i] = w.x + w.y + w.z + w.w + uint(any(a > 2.5f)) + uint(all(w >= 0u)) * 100
       + as_type<uint>(1.0f) % 7;
}""")
    out = torch.zeros(32, device="cuda")
    library.twice_float(out)
    equal(out, [2.0 * i for i in range(32)])
    whole = torch.zeros(32, dtype=torch.int64, device="cuda")
    library.eight_long(whole)
    equal(whole, [8 * i for i in range(32)])
    p = torch.arange(96, dtype=torch.float32, device="cuda").view(32, 3) / 8
    given = p.cpu()
    q = torch.zeros(32, 4, device="cuda")
    u = torch.zeros(32, dtype=torch.int32, device="cuda")
    library.v(p, q, u, threads=32)
    dots = given @ torch.tensor([1.0, 2, 3])
    equal(q, torch.cat((given.flip(1), dots[:, None]), 1) + 0.5)
    equal(p, given.clamp(min=2))
    sums = [(i + 1 ^ 1) + (i + 2 ^ 1) + 9 + 8 + 100 + 0x3F800000 % 7 for i in range(32)]
    equal(u, [s + bool((given[i] > 2.5).any()) for i, s in enumerate(sums)])


@check
def several_dimensions() -> None:
    kernel = compiled(
        "kernel void f(device uint* o, uint2 i [[thread_position_in_grid]],"
        " uint2 n [[threads_per_grid]], uint2 g [[threadgroup_position_in_grid]])"
        " { o[i.y * n.x + i.x] = g.y * 100 + g.x; }"
    ).f
    out = torch.zeros(6, 64, dtype=torch.int32, device="cuda")
    kernel(out, threads=(64, 6), group_size=(16, 2))
    equal(out, [[y // 2 * 100 + x // 16 for x in range(64)] for y in range(6)])
    refused(
        RuntimeError, "whole threadgroups", lambda: kernel(out, threads=(60, 6), group_size=(16, 2))
    )


@check
def counts() -> None:
    kernel = compiled(
        "kernel void f(device float* o, uint i [[thread_position_in_grid]]) { o[i] = i; }"
    ).f
    library = torch.library.Library("cuda_counts", "DEF")
    library.define("g(Tensor x) -> Tensor")

    def g(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        kernel(y)
        return y + x.sum().item()

    library.impl("g", g, "MPS")
    x = torch.ones(32, device="cuda")
    with mps_emulator.cuda.count() as counted:
        result = torch.ops.cuda_counts.g(x)
    equal(result, [i + 32.0 for i in range(32)])
    if counted.kernels != ["f"] or counted.readbacks != ["aten::_local_scalar_dense"]:
        raise AssertionError(f"{counted.kernels}, {counted.readbacks}")
    if "aten::empty_like" in counted.operators:
        raise AssertionError("an allocation is no dispatch")
    if not {"aten::sum", "aten::add.Tensor"} <= set(counted.operators):
        raise AssertionError(f"{counted.operators}")


@check
def repeated_launches() -> None:
    kernel = compiled(
        "kernel void f(device float* o, device const float* x, constant long* n, constant float& s,"
        " uint i [[thread_position_in_grid]]) { o[i] = x[i] * s + float(n[i % 2]); }"
    ).f
    given = torch.arange(96, dtype=torch.float32, device="cuda")
    for at in range(8):
        x, out = given[at % 3 :], torch.zeros(64, device="cuda")
        kernel(out, x, [at, -at], at / 2, threads=64, group_size=32)
        equal(out, [(i + at % 3) * at / 2 + (-at if i % 2 else at) for i in range(64)])
    refused(
        RuntimeError,
        "elements of 8 bytes",
        lambda: kernel(out, x.double(), [1, 2], 1.0, threads=64, group_size=32),
    )
    refused(
        RuntimeError,
        "CPU tensor",
        lambda: kernel(out, x.cpu(), [1, 2], 1.0, threads=64, group_size=32),
    )
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        kernel(out, x, [1, 2], 1.0, threads=64, group_size=32)
        times.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    print(f"  host time of a launch: {statistics.median(times) * 1e6:.1f} us")


@check
def calls_of_functions() -> None:
    text = (
        "static inline float g(float x) { return x + 1; }\n"
        "kernel void f(device float* o, uint i [[thread_position_in_grid]])"
        " { if (i % 4 == 0) o[i] = g(o[i]) + g(1); }"
    )
    mps_emulator.cuda.count_calls_of("g")
    try:
        kernel = compiled(text).f
    finally:
        mps_emulator.cuda.count_calls_of()
    before = mps_emulator.cuda.calls()
    out = torch.zeros(128, device="cuda")
    kernel(out, threads=128, group_size=64)
    kernel(out, threads=40, group_size=40)
    if mps_emulator.cuda.calls() - before != 2 * (32 + 10):
        raise AssertionError(mps_emulator.cuda.calls())


@check
def graphs() -> None:
    kernel = compiled(
        "kernel void f(device float* o, constant long& n, uint i [[thread_position_in_grid]])"
        " { o[i] = o[i] * 2.0f + float(n); }"
    ).f
    out = torch.zeros(64, device="cuda")
    kernel(out, 0, threads=64, group_size=64)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(out, 1, threads=64, group_size=64)
        torch.mps.synchronize()
        kernel(out, 5, threads=64, group_size=64)
    equal(out, [0.0] * 64)
    graph.replay()
    graph.replay()
    equal(out, [35.0] * 64)


def main() -> None:
    failed = 0
    for function in CHECKS:
        try:
            function()
            torch.cuda.synchronize()
            print(f"{function.__name__}: ok", flush=True)
        except Exception:
            failed += 1
            print(f"{function.__name__}: {traceback.format_exc(limit=-4)}", flush=True)
    print(f"{failed} of {len(CHECKS)} failed")
    sys.exit(int(failed > 0))


if __name__ == "__main__":
    main()
