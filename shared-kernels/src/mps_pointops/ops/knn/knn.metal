// k nearest neighbours by (distance, index), two or three coordinates, every point looked at.
//
// A threadgroup answers up to QUERIES queries of one cloud. Each of its simdgroups walks over its own
// blocks of 128 points, four a lane, and compares every point with every query:
// 1. Threshold. Threads keep the smallest distances they saw of each query. Each is of other points, so
//    the k-th smallest of them is no smaller than the k-th distance; it is found by sorting.
// 2. Pairs up to the threshold are gathered in the query's segment of threadgroup memory, in any order.
//    Usually all of them fit, and one sort ends the search. A simdgroup that finds a segment full asks
//    for a break: all meet, sort, keep the first `width` pairs, and go on with a lower threshold.
//
// A dispatch fills the places [place, place + width) of every row of the result; a later one takes
// only pairs after the last place before it, so k is not limited. Where there are few queries several
// threadgroups share the points of one, each leaves a list, and a second dispatch searches in the lists.
//
// RULE: arithmetic.metal. DIM: 3 or 2. THREADS: of a threadgroup. LISTS: 1 searches in lists, not points.

#define QUERIES 8
#define SIMDGROUPS (THREADS / 32)
#define BLOCK 128

// What the queries need besides.
struct Centres {
    threadgroup float4* at;           // coordinates, and bits of the last key taken before
    threadgroup uint* taken_index;
    bool any_taken;
};

// What is searched.
struct Candidates {
    device const float* points;
    device const uint2* lists;        // `size` pairs of key and index a query
    uint size;
};

// Four candidates of a lane: points, or places in lists. Past the end stands the last point.
struct Four {
    uint at[4];
    float3 point[4];
};

// Of the candidates [begin, begin + 128) the one that a lane looks at as its u-th. Shifted from block to
// block: points a power of two apart are often neighbours, and each thread has one minimum.
static inline uint place_in_block(uint begin, uint u, uint lane) {
    return begin + u * 32 + ((lane + u * 11 + (begin / BLOCK) * 5) & 31);
}

static inline float3 read_point(device const float* points, uint i) {
    device const float* p = points + ulong(i) * DIM;
#if DIM == 3
    return float3(p[0], p[1], p[2]);
#else
    return float3(p[0], p[1], 0.0f);  // zero in both points leaves every bit of the distance as it is
#endif
}

static inline uint point_key(float3 point, float3 centre) {
    return as_type<uint>(squared_norm3(point.x - centre.x, point.y - centre.y, point.z - centre.z));
}

static inline Four read_four(Candidates from, uint begin, uint lane) {
    Four four;
    for (uint u = 0; u < 4; ++u) {
        four.at[u] = place_in_block(begin, u, lane);
#if !LISTS
        four.point[u] = read_point(from.points, min(four.at[u], from.size - 1));
#endif
    }
    return four;
}

static inline uint key_of(Candidates from, Four four, uint u, uint slot, float4 centre) {
#if LISTS
    return four.at[u] < from.size ? from.lists[ulong(slot) * from.size + four.at[u]].x : NOTHING;
#else
    return point_key(four.point[u], centre.xyz);
#endif
}

// Smallest keys to `keys`: of each query max(segment, THREADS), over the blocks that are multiples of
// `sample`. Keys that do not come after the taken one wrap around to large ones.
static inline void find_minima(
    Slots slots, Centres centres, Candidates from, uint first_block, uint end_block, uint sample, uint thread_number) {
    const uint span = max(slots.segment, uint(THREADS));
    const uint each = span / THREADS;
    for (uint m = 0; m < slots.count * each; ++m) slots.keys[m * THREADS + thread_number] = NOTHING;
    uint visit = 0;
    for (uint b = first_block + thread_number / 32; b < end_block; b += SIMDGROUPS * sample, visit += 4) {
        const Four four = read_four(from, b * BLOCK, thread_number & 31);
        const bool partial = (b + 1) * BLOCK > from.size;
        for (uint slot = 0; slot < slots.count; ++slot) {
            const float4 centre = centres.at[slot];
            const uint lowest = centres.any_taken ? as_type<uint>(centre.w) + 1 : 0;
            uint key[4];
            for (uint u = 0; u < 4; ++u) key[u] = key_of(from, four, u, slot, centre) - lowest;
            for (uint u = 0; u < 4 && partial; ++u) key[u] = four.at[u] < from.size ? key[u] : NOTHING;
            threadgroup uint* own = slots.keys + slot * span + thread_number;
            if (each == 1) {
                own[0] = min(own[0], min(min(key[0], key[1]), min(key[2], key[3])));
                continue;
            }
            for (uint u = 0; u < 4; ++u) {
                const uint at = ((visit + u) & (each - 1)) * THREADS;
                own[at] = min(own[at], key[u]);
            }
        }
    }
}

// Which of four candidates to look at closely, for every query: bit slot * 4 + u.
static inline uint choose(Slots slots, Centres centres, Candidates from, uint begin, uint lane) {
    const Four four = read_four(from, begin, lane);
    uint chosen = 0;
    for (uint slot = 0; slot < slots.count; ++slot) {
        const float4 centre = centres.at[slot];
        const uint bound = slots.bound_key[slot];
        // points come in order: after the last pair's index none is before it at the same distance
        const bool ties = bound != NOTHING && (LISTS || begin <= slots.bound_index[slot]);
        const uint taken = as_type<uint>(centre.w);
        const uint range = bound + uint(ties) - taken;
        uint here = 0;
        for (uint u = 0; u < 4; ++u)
            if (key_of(from, four, u, slot, centre) - taken < range) here |= 1u << u;
        chosen |= here << (slot * 4);
    }
    return chosen;
}

// Chosen pairs to the segments of their queries; returns those that found no place.
static inline uint gather(Slots slots, Centres centres, Candidates from, uint begin, uint chosen, uint lane) {
    for (uint left = chosen; left != 0; left &= left - 1) {
        const uint bit = ctz(left);
        const uint slot = bit / 4;
        uint i = place_in_block(begin, bit & 3, lane);
        bool wanted = i < from.size;
        uint key = NOTHING;
        if (wanted) {
#if LISTS
            const uint2 pair = from.lists[ulong(slot) * from.size + i];
            key = pair.x;
            i = pair.y;
#else
            const float4 centre = centres.at[slot];
            key = point_key(read_point(from.points, i), centre.xyz);
            // too far for a float is a distance, a point that is not finite is none
            wanted = key < INFINITE || takes_part(from.points + ulong(i) * DIM, DIM);
            if (centres.any_taken)
                wanted = wanted && comes_before(as_type<uint>(centre.w), centres.taken_index[slot], key, i);
#endif
        }
        if (wanted && comes_before(key, i, slots.bound_key[slot], slots.bound_index[slot])) {
            const uint to = atomic_fetch_add_explicit(&slots.gathered[slot], 1u, memory_order_relaxed);
            if (to >= slots.segment) continue;
            slots.keys[slot * slots.segment + to] = key;
            slots.indices[slot * slots.segment + to] = i;
        }
        chosen &= ~(1u << bit);
    }
    return chosen;
}

[[max_total_threads_per_threadgroup(THREADS)]]
kernel void knn(
    device const float* query [[buffer(0)]],  // (M, D)
    device const float* ref [[buffer(1)]],    // (N, D)
    device const long* first [[buffer(2)]],   // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(3)]],    // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(4)]],     // (M, k) squared, Euclidean or cosine
    device long* index [[buffer(5)]],         // (M, k) counted in the cloud if clouds are equal, else in the input; -1: none
    device uint2* lists [[buffer(6)]],        // (rows of the dispatch, parts, width) key and place in the cloud, if parts > 1
    constant long* shape [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]])
{
    const bool equal_clouds = shape[1] != 0;
    const uint rows_each = uint(shape[2]);
    const bool euclidean = shape[4] != 0;
    const bool cosine = shape[5] != 0;         // of lists: keys are of signed distances
    const ulong k = ulong(shape[6]);
    const uint place = uint(shape[7]);
    const uint width = uint(shape[8]);
    const uint first_row = uint(shape[9]);
    const uint end_row = uint(shape[10]);
    const uint queries = uint(shape[11]);      // of a threadgroup, 1 to QUERIES
    const uint parts = uint(shape[13]);        // threadgroups that share the points of a query
    const uint most_sample = uint(shape[14]);  // one block in up to so many makes the threshold ...
    const uint sampled = uint(shape[15]);      // ... and so many points at least
    const uint pairs = uint(shape[16]);        // of a row of `lists`, if these are searched

    threadgroup uint keys[PAIRS];
    threadgroup uint indices[PAIRS];
    threadgroup float4 centre[QUERIES];
    threadgroup uint taken_index[QUERIES];
    threadgroup uint bound_key[QUERIES];
    threadgroup uint bound_index[QUERIES];
    threadgroup atomic_uint gathered[QUERIES];
    threadgroup atomic_uint breaks;            // counts up
    Slots slots;
    slots.keys = keys;
    slots.indices = indices;
    slots.gathered = gathered;
    slots.bound_key = bound_key;
    slots.bound_index = bound_index;
    slots.segment_bits = uint(shape[12]);
    slots.segment = 1u << slots.segment_bits;  // 2 * width at least; queries * max(segment, THREADS) <= PAIRS
    Centres centres;
    centres.at = centre;
    centres.taken_index = taken_index;
    centres.any_taken = !LISTS && place > 0;
    Candidates from;

    const uint row_groups = (end_row - first_row + queries - 1) / queries;
    const uint part = group / row_groups;
    uint row = first_row + (group - part * row_groups) * queries;
    const uint end_group = min(row + queries, end_row);
    uint breaks_seen = 0;
    if (thread_number == 0) atomic_store_explicit(&breaks, 0u, memory_order_relaxed);

    // rows of one cloud at a time, almost always all
    while (row < end_group) {
        const Run run = run_from(row, end_group, equal_clouds, rows_each, shape[3], first, last);
        slots.count = run.next - row;
        from.size = LISTS ? pairs : run.size;
        from.points = ref + ulong(run.begin) * DIM;
        from.lists = lists + ulong(row - first_row) * pairs;
        const uint blocks = (from.size + BLOCK - 1) / BLOCK;
        const uint part_blocks = (blocks + parts - 1) / parts;
        const uint first_block = min(part * part_blocks, blocks);
        const uint end_block = min(first_block + part_blocks, blocks);

        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (thread_number < slots.count) {
            const uint own_row = row + thread_number;
            uint taken_key = 0;
            uint taken = NOTHING;
            float3 c = float3(0.0f);
            bool searched = true;
#if !LISTS
            c = read_point(query, own_row);
            searched = takes_part(query + ulong(own_row) * DIM, DIM);
            if (place > 0) {
                const long previous = index[ulong(own_row) * k + place - 1];
                searched = searched && previous >= 0;
                if (searched) {
                    taken = uint(previous - run.shown);
                    taken_key = point_key(read_point(from.points, taken), c);
                }
            }
#endif
            centre[thread_number] = float4(c, as_type<float>(taken_key));
            taken_index[thread_number] = taken;
            bound_key[thread_number] = searched ? NOTHING : 0;
            bound_index[thread_number] = searched ? NOTHING : 0;
            atomic_store_explicit(&gathered[thread_number], 0u, memory_order_relaxed);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        if ((end_block - first_block) * BLOCK > slots.segment) {
            const uint sample = clamp((end_block - first_block) * BLOCK / sampled, 1u, most_sample);
            find_minima(slots, centres, from, first_block, end_block, sample, thread_number);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            sort_slots(slots, max(slots.segment, uint(THREADS)), width, thread_number);
            if (thread_number < slots.count && bound_key[thread_number] != 0) {
                const uint lowest = centres.any_taken ? as_type<uint>(centre[thread_number].w) + 1 : 0;
                // only a bound of candidates that count without a closer look
                const uint most = LISTS ? NOTHING : INFINITE;
                const uint bound = keys[thread_number * slots.segment + width - 1];
                if (lowest < most && bound < most - lowest) bound_key[thread_number] = bound + lowest;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        const uint lane = thread_number & 31;
        uint block = first_block + thread_number / 32;
        uint at = 0;       // where the block of the pending pairs begins
        uint pending = 0;  // pairs that found no place yet
        bool ended = false;
        while (!ended) {
            while (true) {
                if (!simd_any(pending != 0)) {
                    const bool stop = atomic_load_explicit(&breaks, memory_order_relaxed) != breaks_seen;
                    if (block >= end_block || simd_any(stop)) break;
                    at = block * BLOCK;
                    block += SIMDGROUPS;
                    pending = choose(slots, centres, from, at, lane);
                }
                pending = gather(slots, centres, from, at, pending, lane);
                if (simd_any(pending != 0)) {
                    if (lane == 0) atomic_fetch_add_explicit(&breaks, 1u, memory_order_relaxed);
                    break;
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            const uint breaks_now = atomic_load_explicit(&breaks, memory_order_relaxed);
            ended = breaks_now == breaks_seen;
            breaks_seen = breaks_now;
            sort_slots(slots, 0, width, thread_number);
        }

        for (uint slot = 0; slot < slots.count; ++slot) {
            const uint found = atomic_load_explicit(&gathered[slot], memory_order_relaxed);
            for (uint rank = thread_number; rank < width; rank += THREADS) {
                const bool real = rank < found;
                const uint key = real ? keys[slot * slots.segment + rank] : NOTHING;
                const uint number = real ? indices[slot * slots.segment + rank] : NOTHING;
                if (parts > 1) {
                    lists[(ulong(row + slot - first_row) * parts + part) * width + rank] = uint2(key, number);
                    continue;
                }
                uint bits = real ? key : INFINITE;
                if (cosine && real) bits = (key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key;
                const float d = as_type<float>(bits);
                const ulong to = ulong(row + slot) * k + place + rank;
                distance[to] = euclidean && bits < INFINITE ? precise::sqrt(d) : d;
                index[to] = real ? long(number) + run.shown : -1;
            }
        }
        row = run.next;
    }
}
