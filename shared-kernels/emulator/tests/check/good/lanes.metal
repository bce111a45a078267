// Simdgroup functions: reductions, shuffles, votes, 64-bit values as two halves.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

static inline ulong shuffle64(ulong value, ushort lane) {
    return as_type<ulong>(simd_shuffle(as_type<uint2>(value), lane));
}

kernel void lanes(device uint* x [[buffer(0)]], device ulong* wide [[buffer(1)]],
                  device float* f [[buffer(2)]], ushort i [[thread_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]],
                  ushort lanes [[threads_per_simdgroup]]) {
    uint v = x[i];
    bool hit = v > 3u;
    ulong vote = (simd_vote::vote_t)simd_ballot(hit);
    uint low = uint(static_cast<simd_vote::vote_t>(simd_active_threads_mask()));
    v += popcount(uint(vote) & ((1u << lane) - 1u)) + uint(ctz(vote)) + uint(clz(low));
    v = simd_max(v) + simd_min(v) + simd_prefix_exclusive_sum(v) + simd_prefix_inclusive_sum(v);
    v ^= simd_shuffle_xor(v, 16) + simd_shuffle_up(v, 1) + simd_shuffle_down(v, ushort(2));
    v += simd_broadcast_first(v) + simd_broadcast(v, 5) + simd_or(v) + simd_and(v) + simd_xor(v);
    v += simd_shuffle_and_fill_down(v, 7u, 1) + quad_sum(v) + quad_broadcast(v, 2);
    float4 four = simd_sum(float4(f[i]));
    f[i] = simd_max(four.x) + float(simd_sum(half(1.5h)));
    if (simd_any(hit) && simd_all(!hit) && simd_is_first()) v = 0u;
    wide[i] = shuffle64(wide[i], ushort(lane ^ 1u));
    simdgroup_barrier(mem_flags::mem_none);
    x[i] = v + lanes;
}
