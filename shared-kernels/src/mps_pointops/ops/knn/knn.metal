// k nearest neighbours by (distance, index): one simdgroup a query, every point looked at.
//
// The ROWS * 32 best pairs live in registers, sorted across lanes and rows. Points are visited 32 at
// a time; those before the current last place are written to a queue, and 32 queued pairs are sorted
// and merged at once. Blocks are visited in a scattered order: in storage order a sorted scan walks
// toward every query and nearly every point would enter.
// A dispatch fills the places [place, place + width) of every row of the result; a later one takes
// only pairs after the last place before it, so k is not limited.
//
// RULE, DIM: arithmetic.metal. ROWS: places kept, in 32s.

#define QUERIES_PER_GROUP 8

// Key of a pair, NOTHING if `a` takes no part; `norm_b` belongs to the cosine.
static inline uint pair_key(device const float* a, device const float* b, uint dim, uint norm_b) {
#if RULE == COSINE
    return takes_part(a, dim) ? cosine_key(a, b, dim, norm_b) : NOTHING;
#else
    uint key = distance_key(a, b, dim, 1.0f);
    // too far for a float is a distance, a point that is not finite is none
    return key >= FARTHEST && !takes_part(a, dim) ? NOTHING : key;
#endif
}

[[max_total_threads_per_threadgroup(256)]]
kernel void knn(
    device const float* query [[buffer(0)]],  // (M, D)
    device const float* ref [[buffer(1)]],    // (N, D)
    device const long* first [[buffer(2)]],   // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(3)]],    // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(4)]],     // (M, k) squared, Euclidean or cosine
    device long* index [[buffer(5)]],         // (M, k) counted in the cloud if clouds are equal, else in the input; -1: none
    constant long* shape [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane_number [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const bool euclidean = shape[4] != 0;
    const ulong k = ulong(shape[5]);
    const uint place = uint(shape[6]);
    const uint width = uint(shape[7]);
    const uint first_row = uint(shape[8]);
    const uint end_row = uint(shape[9]);

    threadgroup uint queue_key[QUERIES_PER_GROUP * 64];
    threadgroup uint queue_index[QUERIES_PER_GROUP * 64];
    threadgroup uint* waiting_key = queue_key + simdgroup * 64;
    threadgroup uint* waiting_index = queue_index + simdgroup * 64;
    const ushort lane = ushort(lane_number);

    const uint row = first_row + group * QUERIES_PER_GROUP + simdgroup;
    if (row >= end_row) return;
    const long cloud = equal_clouds ? row / uint(shape[2]) : 0;
    const long begin = equal_clouds ? cloud * shape[3] : first[row];
    const long end = equal_clouds ? begin + shape[3] : last[row];
    const uint size = end > begin ? uint(end - begin) : 0;
    device const float* centre = query + ulong(row) * dim;
    device const float* points = ref + ulong(begin) * dim;
    device float* row_distance = distance + row * k;
    device long* row_index = index + row * k;
    const long shown = equal_clouds ? 0 : begin;

    uint key[ROWS];
    uint number[ROWS];
    for (uint r = 0; r < ROWS; ++r) {
        key[r] = NOTHING;
        number[r] = NOTHING;
    }

    // pairs up to the last place of the dispatch before are taken
    uint taken_key = 0;
    uint taken_index = NOTHING;
    bool any_taken = false;
    bool exhausted = !takes_part(centre, dim);
#if RULE == COSINE
    const uint centre_norm = norm_bits(centre, dim);
#else
    const uint centre_norm = 0;
#endif
    if (place > 0) {
        long previous = row_index[place - 1];
        exhausted = exhausted || previous < 0;
        if (!exhausted) {
            taken_index = uint(previous - shown);
            taken_key = pair_key(points + ulong(taken_index) * dim, centre, dim, centre_norm);
            any_taken = true;
        }
    }

    // the last place of this dispatch: a pair must come before it
    uint worst_key = NOTHING;
    uint worst_index = NOTHING;
    uint waiting = 0;
    const uint blocks = exhausted ? 0 : (size + 31) / 32;
    // an odd stride visits every number below a power of two once
    const uint mask = blocks <= 1 ? 0 : 0xffffffffu >> clz(blocks - 1);
    const uint stride = uint((ulong(mask) * 2654435769ul) >> 32) | 1u;
    uint block = 0;
    for (ulong visit = 0; blocks > 0 && visit <= mask; ++visit, block = (block + stride) & mask) {
        if (block >= blocks) continue;
        uint i = block * 32 + lane;
        uint candidate = NOTHING;
        if (i < size) {
            candidate = pair_key(points + ulong(i) * dim, centre, dim, centre_norm);
        }
        bool wanted = candidate != NOTHING && comes_before(candidate, i, worst_key, worst_index);
        if (any_taken) wanted = wanted && comes_before(taken_key, taken_index, candidate, i);
        uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(wanted))));
        if (votes == 0) continue;
        if (wanted) {
            uint place_in_queue = waiting + popcount(votes & ((1u << lane) - 1u));
            waiting_key[place_in_queue] = candidate;
            waiting_index[place_in_queue] = i;
        }
        waiting += popcount(votes);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (waiting < 32) continue;

        uint new_key = waiting_key[lane];
        uint new_index = waiting_index[lane];
        waiting -= 32;
        bool stays = lane < waiting;
        uint rest_key = stays ? waiting_key[32 + lane] : 0;
        uint rest_index = stays ? waiting_index[32 + lane] : 0;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (stays) {
            waiting_key[lane] = rest_key;
            waiting_index[lane] = rest_index;
        }
        sort32(new_key, new_index, lane);
        for (uint r = 0; r < ROWS; ++r) {
            keep_smallest(key[r], number[r], new_key, new_index, lane);
            if (r + 1 < ROWS) merge_bitonic(new_key, new_index, lane);
        }
        for (uint r = 0; r < ROWS; ++r) {
            if (r == (width - 1) / 32) {
                worst_key = simd_broadcast(key[r], ushort((width - 1) & 31));
                worst_index = simd_broadcast(number[r], ushort((width - 1) & 31));
            }
        }
    }
    if (waiting > 0) {
        uint new_key = lane < waiting ? waiting_key[lane] : NOTHING;
        uint new_index = lane < waiting ? waiting_index[lane] : NOTHING;
        sort32(new_key, new_index, lane);
        for (uint r = 0; r < ROWS; ++r) {
            keep_smallest(key[r], number[r], new_key, new_index, lane);
            if (r + 1 < ROWS) merge_bitonic(new_key, new_index, lane);
        }
    }
    for (uint r = 0; r < ROWS; ++r) {
        uint rank = r * 32 + lane;
        if (rank >= width) break;
        bool found = key[r] != NOTHING;
        float d = key_as_distance(found ? key[r] : FARTHEST);
        row_distance[place + rank] = euclidean && found && key[r] < FARTHEST ? precise::sqrt(d) : d;
        row_index[place + rank] = found ? long(number[r]) + shown : -1;
    }
}
