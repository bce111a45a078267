// Ball query: the first K points, in input order, strictly closer than a threshold.
//
// Points are looked at in input order, some blocks of 32 at once; a point's place is the number of hits
// before it. The scan ends when K places are filled. A query is the work of one simdgroup or, where
// queries are few, of a threadgroup of up to 32 simdgroups with blocks one after the other.
// The test compares the squared distance of coordinates times `scale` with the squared threshold in
// the same scale (a power of two, 1 for ordinary radii); what is written is the unscaled distance.
//
// RULE, DIM: arithmetic.metal. COUNT: 1 writes only how many places of a row are filled.

#define QUERIES_PER_GROUP 8
#if DIM == 3
#define STEPS 4  // blocks of a simdgroup whose loads overlap
#else
#define STEPS 1
#endif

// One query: what it looks at and where its hits go.
struct Search {
    device const float* centre;
    device const float* points;
    uint size;
    uint dim;
    long same;   // the point with the query's own number in the whole input, if it is left out
    long shown;  // added to the number of a point
    device float* distance;
    device long* index;
    uint places;
    uint threshold;
    float scale;
};

static inline Search search_of(
    uint row, device const float* query, device const float* ref, device const long* first,
    device const long* last, device float* distance, device long* index, constant long* shape,
    constant float* limits) {
    const bool equal_clouds = shape[1] != 0;
    const long cloud = equal_clouds ? row / uint(shape[2]) : 0;
    const long begin = equal_clouds ? cloud * shape[3] : first[row];
    const long end = equal_clouds ? begin + shape[3] : last[row];
    Search search;
    search.dim = uint(shape[0]);
    search.centre = query + ulong(row) * search.dim;
    search.points = ref + ulong(begin) * search.dim;
    search.size = end > begin ? uint(end - begin) : 0;
    search.same = shape[4] != 0 ? long(row) - begin : -1;
    search.shown = equal_clouds ? 0 : begin;
    search.places = uint(shape[5]);
    search.distance = distance + (COUNT == 1 ? 0 : ulong(row) * search.places);
    search.index = index + (COUNT == 1 ? row : ulong(row) * search.places);
    search.threshold = as_type<uint>(limits[0]);
    search.scale = limits[1];
    return search;
}

// Votes for STEPS blocks from a point on; returns how many they are.
static inline uint look(thread const Search& search, uint base, uint lane, thread uint* votes) {
    bool hit[STEPS];
    for (uint s = 0; s < STEPS; ++s) {
        const uint i = base + s * 32 + lane;
        hit[s] = i < search.size && long(i) != search.same &&
            distance_key(search.points + ulong(i) * search.dim, search.centre, search.dim, search.scale) <
                search.threshold;
    }
    uint count = 0;
    for (uint s = 0; s < STEPS; ++s) {
        votes[s] = uint(ulong(simd_vote::vote_t(simd_ballot(hit[s]))));
        count += popcount(votes[s]);
    }
    return count;
}

// Write the hits of blocks, the first at `place`.
static inline void write_hits(
    thread const Search& search, uint base, uint lane, thread const uint* votes, uint place) {
    for (uint s = 0; s < STEPS; ++s) {
        const uint own = place + popcount(votes[s] & ((1u << lane) - 1u));
        if ((votes[s] >> lane & 1) != 0 && own < search.places) {
            const uint i = base + s * 32 + lane;
            search.distance[own] =
                as_type<float>(distance_key(search.points + ulong(i) * search.dim, search.centre, search.dim, 1.0f));
            search.index[own] = long(i) + search.shown;
        }
        place += popcount(votes[s]);
    }
}

// The count, or what the places without a hit hold.
static inline void finish(thread const Search& search, uint found, uint thread_number, uint threads) {
#if COUNT == 1
    if (thread_number == 0) search.index[0] = long(min(found, search.places));
#else
    for (uint place = found + thread_number; place < search.places; place += threads) {
        search.distance[place] = 0.0f;
        search.index[place] = -1;
    }
#endif
}

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
    const uint row = uint(shape[6]) + group * QUERIES_PER_GROUP + simdgroup;
    if (row >= uint(shape[7])) return;
    const Search search = search_of(row, query, ref, first, last, distance, index, shape, limits);
    uint found = 0;
    for (uint base = 0; base < search.size && found < search.places; base += 32 * STEPS) {
        uint votes[STEPS];
        const uint count = look(search, base, lane, votes);
        if (COUNT == 0 && count > 0) write_hits(search, base, lane, votes, found);
        found += count;
    }
    finish(search, found, lane, 32);
}

// Likewise, a threadgroup a query.
[[max_total_threads_per_threadgroup(1024)]]
kernel void ball_query_shared(
    device const float* query [[buffer(0)]],
    device const float* ref [[buffer(1)]],
    device const long* first [[buffer(2)]],
    device const long* last [[buffer(3)]],
    device float* distance [[buffer(4)]],
    device long* index [[buffer(5)]],
    constant long* shape [[buffer(6)]],
    constant float* limits [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup uint counts[2][32];  // of the simdgroups; in turn, so that one barrier is enough
    const Search search =
        search_of(uint(shape[6]) + group, query, ref, first, last, distance, index, shape, limits);
    const uint blocks = 32 * STEPS;
    uint found = 0;
    uint turn = 0;
    for (uint base = 0; base < search.size && found < search.places; base += blocks * simdgroups) {
        uint votes[STEPS];
        const uint count = look(search, base + simdgroup * blocks, lane, votes);
        if (lane == 0) counts[turn][simdgroup] = count;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const uint other = lane < simdgroups ? counts[turn][lane] : 0;
        const uint before = found + simd_sum(lane < simdgroup ? other : 0);
        if (COUNT == 0 && count > 0) write_hits(search, base + simdgroup * blocks, lane, votes, before);
        found += simd_sum(other);
        turn = 1 - turn;
    }
    finish(search, found, thread_number, simdgroups * 32);
}
