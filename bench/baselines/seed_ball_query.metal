// Ball query by scanning in input order until K places are filled. RULE, DIM: arithmetic.metal.
// SIMD: 0 one thread a query, 1 one simdgroup a query.

#define QUERIES 8

[[max_total_threads_per_threadgroup(256)]]
kernel void seed_ball_query(
    device const float* query [[buffer(0)]],  // (B, M, D)
    device const float* ref [[buffer(1)]],    // (B, N, D)
    device float* distance [[buffer(2)]],     // (B, M, K) squared; 0 where there is no hit
    device long* index [[buffer(3)]],         // (B, M, K); -1 where there is no hit
    constant long* shape [[buffer(4)]],       // queries in all, M, N, D, K, first query
    constant float& threshold [[buffer(5)]],  // squared radius
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint size = uint(shape[2]);
    const uint dim = uint(shape[3]);
    const uint places = uint(shape[4]);
#if SIMD == 1
    const uint row = uint(shape[5]) + group * QUERIES + simdgroup;
#else
    const uint row = uint(shape[5]) + group * threads + t;
#endif
    if (row >= uint(shape[0])) return;
    device const float* centre = query + ulong(row) * dim;
    device const float* points = ref + ulong(row / uint(shape[1])) * size * dim;
    device float* d = distance + ulong(row) * places;
    device long* n = index + ulong(row) * places;
    uint found = 0;
#if SIMD == 1
    for (uint base = 0; base < size && found < places; base += 32) {
        uint i = base + lane;
        float here = 0.0f;
        bool hit = false;
        if (i < size) {
            here = as_type<float>(distance_key(points + ulong(i) * dim, centre, dim, 1.0f));
            hit = here < threshold;
        }
        uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(hit))));
        uint place = found + popcount(votes & ((1u << lane) - 1u));
        if (hit && place < places) {
            d[place] = here;
            n[place] = long(i);
        }
        found += popcount(votes);
    }
    for (uint place = found + lane; place < places; place += 32) {
#else
    for (uint i = 0; i < size && found < places; ++i) {
        float here = as_type<float>(distance_key(points + ulong(i) * dim, centre, dim, 1.0f));
        if (here < threshold) {
            d[found] = here;
            n[found] = long(i);
            ++found;
        }
    }
    for (uint place = found; place < places; ++place) {
#endif
        d[place] = 0.0f;
        n[place] = -1;
    }
}
