// Ball query: the first K points, in input order, strictly closer than a threshold.
//
// One simdgroup a query, every point looked at. 32 points are tested in one step; a point's place is the number of hits
// before it, so the order of the input is kept. The scan ends when K places are filled.
// The test compares the squared distance of coordinates times `scale` with the squared threshold in
// the same scale (a power of two, 1 for ordinary radii); what is written is the unscaled distance.
//
// RULE, DIM: arithmetic.metal. COUNT: 1 writes only how many places of a row are filled.

#define QUERIES_PER_GROUP 8
#if DIM == 3
#define STEPS 4  // blocks of 32 points whose loads overlap
#else
#define STEPS 1
#endif

[[max_total_threads_per_threadgroup(256)]]
kernel void ball_query(
    device const float* query [[buffer(0)]],  // (M, D)
    device const float* ref [[buffer(1)]],    // (N, D)
    device const long* first [[buffer(2)]],   // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(3)]],    // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(4)]],     // (M, K) squared; 0 where there is no hit
    device long* index [[buffer(5)]],         // (M, K), or (M) if COUNT; counted in the cloud if clouds are equal, else in the input; -1: no hit
    constant long* shape [[buffer(6)]],
    constant float* limits [[buffer(7)]],     // (2) squared threshold, scale
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const bool ignore_same_index = shape[4] != 0;
    const uint places = uint(shape[5]);
    const uint first_row = uint(shape[6]);
    const uint end_row = uint(shape[7]);
    const uint threshold = as_type<uint>(limits[0]);
    const float scale = limits[1];

    const uint row = first_row + group * QUERIES_PER_GROUP + simdgroup;
    if (row >= end_row) return;
    const long cloud = equal_clouds ? row / uint(shape[2]) : 0;
    const long begin = equal_clouds ? cloud * shape[3] : first[row];
    const long end = equal_clouds ? begin + shape[3] : last[row];
    const uint size = end > begin ? uint(end - begin) : 0;
    device const float* centre = query + ulong(row) * dim;
    device const float* points = ref + ulong(begin) * dim;
    device float* row_distance = distance + ulong(row) * places;
    device long* row_index = index + ulong(row) * places;
    const long shown = equal_clouds ? 0 : begin;
    // the point with the query's own number in the whole input
    const long same = ignore_same_index ? long(row) - begin : -1;

    uint found = 0;
    for (uint base = 0; base < size && found < places; base += 32 * STEPS) {
        bool hit[STEPS];
        for (uint s = 0; s < STEPS; ++s) {
            const uint i = base + s * 32 + lane;
            hit[s] = i < size && long(i) != same && distance_key(points + ulong(i) * dim, centre, dim, scale) < threshold;
        }
        for (uint s = 0; s < STEPS; ++s) {
            const uint i = base + s * 32 + lane;
            const uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(hit[s]))));
            const uint place = found + popcount(votes & ((1u << lane) - 1u));
            if (COUNT == 0 && hit[s] && place < places) {
                row_distance[place] = as_type<float>(distance_key(points + ulong(i) * dim, centre, dim, 1.0f));
                row_index[place] = long(i) + shown;
            }
            found += popcount(votes);
        }
    }
#if COUNT == 1
    if (lane == 0) index[row] = long(min(found, places));
    return;
#endif
    for (uint place = found + lane; place < places; place += 32) {
        row_distance[place] = 0.0f;
        row_index[place] = -1;
    }
}
