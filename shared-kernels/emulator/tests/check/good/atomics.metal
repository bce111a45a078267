#include <metal_stdlib>
#include <metal_atomic>
using namespace metal;
#pragma METAL fp contract(off)

kernel void atomics(device atomic_uint* counts [[buffer(0)]], device atomic_int* signs [[buffer(1)]],
                    device atomic_float* sums [[buffer(2)]], device uint* plain [[buffer(3)]],
                    device float* x [[buffer(4)]], uint i [[thread_position_in_grid]],
                    uint local [[thread_index_in_threadgroup]]) {
    threadgroup atomic_uint bins[64];
    threadgroup uint winner;
    atomic_store_explicit(&bins[local & 63], 0, memory_order_relaxed);
    if (local == 0) winner = UINT_MAX;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&bins[i & 63], 1, memory_order_relaxed);
    atomic_fetch_min_explicit((threadgroup atomic_uint*)&winner, i, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint seen = atomic_load_explicit(&bins[0], memory_order_relaxed) + winner;
    atomic_fetch_add_explicit(counts + i, seen, memory_order_relaxed);
    atomic_fetch_or_explicit(counts, 1u, metal::memory_order_relaxed);
    atomic_fetch_max_explicit(signs, -1, memory_order_relaxed);
    atomic_fetch_add_explicit(sums, x[i], memory_order_relaxed);
    device atomic_uint* at = reinterpret_cast<device atomic_uint*>(plain + i);
    uint expected = atomic_exchange_explicit(at, 3u, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(at, &expected, expected + 1u,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}
