// Ball query: the first K points, in input order, strictly closer than a threshold.
//
// Points are looked at in input order, some blocks of 32 at once, for a team of queries that share the
// reading; a point's place is the number of hits before it. The scan ends when all places are filled.
// A team is the work of one simdgroup or, where queries are few, of a threadgroup of up to 32
// simdgroups, which look at blocks one after the other.
// The test compares the squared distance of coordinates times `scale` with the squared threshold in
// the same scale (a power of two, 1 for ordinary radii); what is written is the unscaled distance.
//
// RULE, DIM: arithmetic.metal. COUNT: 1 writes only how many places of a row are filled.

#define SIMDGROUPS 8  // of a threadgroup, where each has a team of its own
#if DIM == 3
#define TEAM 2   // queries
#define STEPS 4  // blocks of a simdgroup whose loads overlap
#else
#define TEAM 1
#define STEPS 1
#endif
#define BLOCKS (32 * STEPS)
#define WORDS ((TEAM + 1) / 2)  // two counts share a word

struct Team {
    uint row;           // of the first query
    uint low;           // points that any query looks at
    uint high;
    uint all_low;       // points that all queries look at, in the scale 1
    uint all_high;
    uint begin[TEAM];   // points of each query
    uint size[TEAM];
    uint left_out[TEAM];
    uint found[TEAM];   // of a query that is not there: more than there can be places
#if DIM == 3
    float3 centre[TEAM];
#endif
};

static inline Team team_of(
    uint row, uint end_row, device const float* query, device const long* first, device const long* last,
    constant long* shape, constant float* limits) {
    const bool equal_clouds = shape[1] != 0;
    Team team;
    team.row = row;
    team.low = NOTHING;
    team.high = 0;
    team.all_low = 0;
    team.all_high = shape[4] == 0 && limits[1] == 1.0f ? NOTHING : 0;
    for (uint t = 0; t < TEAM; ++t) {
        const uint own = row + t;
        team.begin[t] = 0;
        team.size[t] = 0;
        team.left_out[t] = shape[4] != 0 ? own : NOTHING;
        team.found[t] = NOTHING;
#if DIM == 3
        team.centre[t] = float3(0.0f);
#endif
        if (own >= end_row) continue;
        const long begin = equal_clouds ? own / uint(shape[2]) * shape[3] : first[own];
        const long end = equal_clouds ? begin + shape[3] : last[own];
        team.found[t] = 0;
        team.begin[t] = uint(begin);
        if (end > begin) {
            team.size[t] = uint(end - begin);
            team.low = min(team.low, uint(begin));
            team.high = max(team.high, uint(end));
        }
        team.all_low = max(team.all_low, team.begin[t]);
        team.all_high = min(team.all_high, team.begin[t] + team.size[t]);
#if DIM == 3
        device const float* centre = query + ulong(own) * 3;
        team.centre[t] = float3(centre[0], centre[1], centre[2]);
#endif
    }
    return team;
}

static inline bool any_place_left(thread const Team& team, uint places) {
    bool left = false;
    for (uint t = 0; t < TEAM; ++t) left = left || team.found[t] < places;
    return left;
}

// Votes of each query for STEPS blocks of points; whether there is any. ALL: all look at all of them.
template <bool ALL>
static inline bool look_at(
    thread const Team& team, device const float* query, device const float* ref, uint dim, constant float* limits,
    uint base, uint lane, thread uint* votes) {
    const uint threshold = as_type<uint>(limits[0]);
    const float scale = ALL ? 1.0f : limits[1];
    bool hit[TEAM * STEPS];
    bool any = false;
    for (uint s = 0; s < STEPS; ++s) {
        const uint i = base + s * 32 + lane;
        device const float* point = ref + ulong(ALL ? i : min(i, team.high - 1)) * dim;
#if DIM == 3
        const float3 p = float3(point[0], point[1], point[2]);
#endif
        for (uint t = 0; t < TEAM; ++t) {
            bool inside = ALL || (i - team.begin[t] < team.size[t] && i != team.left_out[t]);
#if DIM == 3
            float3 d = p - team.centre[t];
            if (!ALL) d = d * scale;
            inside = inside & (as_type<uint>(squared_norm3(d.x, d.y, d.z)) < threshold);
#else
            if (inside) inside = distance_key(point, query + ulong(team.row + t) * dim, dim, scale) < threshold;
#endif
            hit[t * STEPS + s] = inside;
            any = any | inside;
        }
    }
    any = simd_any(any);
    for (uint v = 0; v < TEAM * STEPS; ++v) votes[v] = 0;
    if (any) {
        for (uint v = 0; v < TEAM * STEPS; ++v) votes[v] = uint(ulong(simd_vote::vote_t(simd_ballot(hit[v]))));
    }
    return any;
}

static inline bool look(
    thread const Team& team, device const float* query, device const float* ref, uint dim, constant float* limits,
    uint base, uint lane, thread uint* votes) {
    if (base >= team.all_low && base + BLOCKS <= team.all_high)
        return look_at<true>(team, query, ref, dim, limits, base, lane, votes);
    return look_at<false>(team, query, ref, dim, limits, base, lane, votes);
}

static inline uint count_of(thread const uint* votes, uint t) {
    uint count = 0;
    for (uint s = 0; s < STEPS; ++s) count += popcount(votes[t * STEPS + s]);
    return count;
}

// Write one query's hits in blocks, the first at `place`.
static inline void write_hits(
    thread const Team& team, device const float* query, device const float* ref, device float* distance,
    device long* index, constant long* shape, uint t, uint base, uint lane, thread const uint* votes, uint place) {
    const uint dim = uint(shape[0]);
    const uint places = uint(shape[5]);
    const ulong row = team.row + t;
    for (uint s = 0; s < STEPS; ++s) {
        const uint vote = votes[t * STEPS + s];
        const uint own = place + popcount(vote & ((1u << lane) - 1u));
        if ((vote >> lane & 1) != 0 && own < places) {
            const uint i = base + s * 32 + lane;
            const uint key = distance_key(ref + ulong(i) * dim, query + row * dim, dim, 1.0f);
            distance[row * places + own] = as_type<float>(key);
            index[row * places + own] = long(shape[1] != 0 ? i - team.begin[t] : i);
        }
        place += popcount(vote);
    }
}

// The counts, or what places without a hit hold.
static inline void finish(
    thread const Team& team, device float* distance, device long* index, constant long* shape, uint thread_number,
    uint threads) {
    const uint places = uint(shape[5]);
    for (uint t = 0; t < TEAM; ++t) {
        if (team.found[t] == NOTHING) continue;
        const ulong row = team.row + t;
#if COUNT == 1
        if (thread_number == 0) index[row] = long(min(team.found[t], places));
#else
        for (uint place = team.found[t] + thread_number; place < places; place += threads) {
            distance[row * places + place] = 0.0f;
            index[row * places + place] = -1;
        }
#endif
    }
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
    const uint places = uint(shape[5]);
    const uint end_row = uint(shape[7]);
    const uint row = uint(shape[6]) + (group * SIMDGROUPS + simdgroup) * TEAM;
    if (row >= end_row) return;
    Team team = team_of(row, end_row, query, first, last, shape, limits);
    for (uint base = team.low; base < team.high && any_place_left(team, places); base += BLOCKS) {
        uint votes[TEAM * STEPS];
        if (!look(team, query, ref, uint(shape[0]), limits, base, lane, votes)) continue;
        for (uint t = 0; t < TEAM; ++t) {
            const uint count = count_of(votes, t);
            if (count == 0 || team.found[t] >= places) continue;
            if (COUNT == 0) write_hits(team, query, ref, distance, index, shape, t, base, lane, votes, team.found[t]);
            team.found[t] += count;
        }
    }
    finish(team, distance, index, shape, lane, 32);
}

// Likewise, a threadgroup a team.
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
    threadgroup uint words[2][WORDS][32];  // counts of the simdgroups; in turn, so that one barrier is enough
    const uint places = uint(shape[5]);
    Team team = team_of(uint(shape[6]) + group * TEAM, uint(shape[7]), query, first, last, shape, limits);
    uint turn = 0;
    for (uint base = team.low; base < team.high && any_place_left(team, places); base += BLOCKS * simdgroups) {
        const uint here = base + simdgroup * BLOCKS;
        uint votes[TEAM * STEPS];
        const bool any = look(team, query, ref, uint(shape[0]), limits, here, lane, votes);
        for (uint w = 0; w < WORDS; ++w) {
            const uint upper = 2 * w + 1 < TEAM ? count_of(votes, min(2 * w + 1, uint(TEAM - 1))) : 0;
            if (lane == 0) words[turn][w][simdgroup] = count_of(votes, 2 * w) | upper << 16;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint w = 0; w < WORDS; ++w) {
            const uint word = lane < simdgroups ? words[turn][w][lane] : 0;
            const uint all = simd_sum(word);
            if (all == 0) continue;
            const uint before = simd_sum(lane < simdgroup ? word : 0);
            for (uint t = 2 * w; t < min(2 * w + 2, uint(TEAM)); ++t) {
                const uint shift = (t & 1) * 16;
                if (team.found[t] >= places) continue;
                if (COUNT == 0 && any && count_of(votes, t) != 0) {
                    const uint place = team.found[t] + (before >> shift & 0xffffu);
                    write_hits(team, query, ref, distance, index, shape, t, here, lane, votes, place);
                }
                team.found[t] += all >> shift & 0xffffu;
            }
        }
        turn = 1 - turn;
    }
    finish(team, distance, index, shape, thread_number, simdgroups * 32);
}
