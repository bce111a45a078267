// Farthest point sampling as one threadgroup of 1024 threads a cloud: every pick updates every point.
// Distances stay in device memory. RULE, DIM: arithmetic.metal.

[[max_total_threads_per_threadgroup(1024)]]
kernel void seed_fps(
    device const float* points [[buffer(0)]],  // (B, N, D)
    device float* nearest [[buffer(1)]],       // (B, N) squared distance to the nearest pick
    device long* out [[buffer(2)]],            // (B, S)
    constant long* shape [[buffer(3)]],        // N, D, S, picks from, to
    uint cloud [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup float best_distance[32];
    threadgroup uint best_index[32];
    threadgroup uint winner;
    const uint size = uint(shape[0]);
    const uint dim = uint(shape[1]);
    const uint from = uint(shape[3]);
    device const float* p = points + ulong(cloud) * size * dim;
    device float* d = nearest + ulong(cloud) * size;
    device long* picked = out + ulong(cloud) * ulong(shape[2]);
    uint pick = from == 0 ? 0 : uint(picked[from - 1]);
    if (from == 0) {
        for (uint i = t; i < size; i += threads) d[i] = as_type<float>(INFINITE);
        if (t == 0) picked[0] = 0;
    }
    for (uint s = max(from, 1u); s < uint(shape[4]); ++s) {
        float largest = -1.0f;
        uint index = NOTHING;
        for (uint i = t; i < size; i += threads) {
            float here = as_type<float>(distance_key(p + ulong(i) * dim, p + ulong(pick) * dim, dim, 1.0f));
            here = min(here, d[i]);
            d[i] = here;
            if (here > largest) {
                largest = here;
                index = i;
            }
        }
        float group_largest = simd_max(largest);
        uint group_index = simd_min(largest == group_largest ? index : NOTHING);
        if (lane == 0) {
            best_distance[simdgroup] = group_largest;
            best_index[simdgroup] = group_index;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simdgroup == 0) {
            largest = lane < simdgroups ? best_distance[lane] : -1.0f;
            index = lane < simdgroups ? best_index[lane] : NOTHING;
            group_largest = simd_max(largest);
            group_index = simd_min(largest == group_largest ? index : NOTHING);
            if (lane == 0) {
                winner = group_index;
                picked[s] = long(group_index);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        pick = winner;
    }
}
