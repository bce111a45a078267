// k nearest neighbours by (distance, index), any number of coordinates, every pair looked at.
//
// A threadgroup answers QUERIES queries of one cloud. It walks over tiles of POINTS points; a thread
// accumulates the distances of 4 x EACH pairs in coordinate order, from DEPTH coordinates at a time that
// lie transposed in threadgroup memory. Pairs before the query's bound are gathered in its segment of
// threadgroup memory, in any order; when one is full all meet:
// - Up to 32 neighbours: all segments are sorted and the last pair kept is the bound.
// - More: simdgroups sort and merge the segments of their own queries into lists in device memory.
// The first bound is the k-th of 64 keys, the smallest ones that the threads have in the first tile, which
// is no smaller than the k-th distance.
// Tiles are visited in a scattered order: in storage order a sorted scan walks toward every query and
// nearly every point would enter.
//
// Places, passes and parts are those of knn.metal. RULE: arithmetic.metal. THREADS: 256.

#define SIMDGROUPS (THREADS / 32)
#define QUERIES 32
#define EACH 8
#define POINTS (32 * EACH)
#define DEPTH 8
#define SEGMENT_BITS 6
#define SEGMENT (1 << SEGMENT_BITS)  // QUERIES * SEGMENT is PAIRS
// floats from a coordinate to the next: a multiple of 4, and threads that store meet in few banks
#define QUERY_STRIDE (QUERIES + 4)
#define POINT_STRIDE (POINTS + 4)

// Key of a pair, NOTHING if `p` takes no part.
static inline uint pair_key(device const float* p, device const float* q, uint dim) {
#if RULE == COSINE
    return takes_part(p, dim) ? cosine_key(p, q, dim, norm_bits(q, dim)) : NOTHING;
#else
    return distance_key(p, q, dim, 1.0f);
#endif
}

// Coordinates [from, from + DEPTH) of up to `rows` points, transposed.
static inline void stage(
    threadgroup float* tile, uint stride, device const float* points, uint rows, uint count, uint dim, uint from,
    uint thread_number) {
    const uint d = thread_number & (DEPTH - 1);
    if (from + d >= dim) return;
    for (uint row = thread_number / DEPTH; row < rows; row += THREADS / DEPTH)
        tile[d * stride + row] = row < count ? points[ulong(row) * dim + from + d] : 0.0f;
}

// The first of the numbers goes, a new one comes last.
static inline void rotate(thread uint* numbers, uint last) {
    #pragma unroll
    for (uint b = 0; b + 1 < EACH; ++b) numbers[b] = numbers[b + 1];
    numbers[EACH - 1] = last;
}

[[max_total_threads_per_threadgroup(THREADS)]]
kernel void features(
    device const float* query [[buffer(0)]],  // (M, D)
    device const float* ref [[buffer(1)]],    // (N, D)
    device const long* first [[buffer(2)]],   // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(3)]],    // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(4)]],     // (M, k) squared, Euclidean or cosine
    device long* index [[buffer(5)]],         // (M, k) counted in the cloud if clouds are equal, else in the input; -1: none
    device uint2* lists [[buffer(6)]],        // (rows of the dispatch, parts, width) key and place in the cloud
    constant long* shape [[buffer(7)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]],
    uint lane_number [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const uint rows_each = uint(shape[2]);
    const bool euclidean = shape[4] != 0;
    const ulong k = ulong(shape[6]);
    const uint place = uint(shape[7]);
    const uint width = uint(shape[8]);
    const uint first_row = uint(shape[9]);
    const uint end_row = uint(shape[10]);
    const uint parts = uint(shape[13]);  // threadgroups that share the points of a query
    const ushort lane = ushort(lane_number);

    threadgroup float4 query_tile[DEPTH * QUERY_STRIDE / 4];
    threadgroup float4 point_tile[DEPTH * POINT_STRIDE / 4];
    threadgroup uint keys[PAIRS];
    threadgroup uint indices[PAIRS];
    threadgroup atomic_uint gathered[QUERIES];
    threadgroup uint taken_key[QUERIES];    // pairs up to this one are taken
    threadgroup uint taken_index[QUERIES];
    threadgroup uint bound_key[QUERIES];    // a pair must come before it
    threadgroup uint bound_index[QUERIES];
    threadgroup atomic_uint breaks;         // counts up
#if RULE == COSINE
    threadgroup uint norms[POINTS + QUERIES];  // bits, NOTHING for vectors that take no part
#endif
    Slots slots;
    slots.keys = keys;
    slots.indices = indices;
    slots.gathered = gathered;
    slots.bound_key = bound_key;
    slots.bound_index = bound_index;
    slots.segment = SEGMENT;
    slots.segment_bits = SEGMENT_BITS;
    const bool threshold = width <= SEGMENT && place == 0;
    // else lists in device memory
    const bool in_segments = width * 2 <= SEGMENT && place == 0;
    threadgroup float* query_floats = (threadgroup float*)query_tile;
    threadgroup float* point_floats = (threadgroup float*)point_tile;

    const uint row_groups = (end_row - first_row + QUERIES - 1) / QUERIES;
    const uint part = group / row_groups;
    uint row = first_row + (group - part * row_groups) * QUERIES;
    const uint end_group = min(row + QUERIES, end_row);
    // the pairs of the thread, 4 x 4 EACH / 4 times, 32 points apart: a simdgroup has 16 x 8 EACH
    const uint own_query = (simdgroup & 1) * 16 + lane / 8 * 4;
    const uint own_point = simdgroup / 2 * (8 * EACH) + (lane & 7) * 4;
    uint breaks_seen = 0;
    if (thread_number == 0) atomic_store_explicit(&breaks, 0u, memory_order_relaxed);

    // rows of one cloud at a time, almost always all
    while (row < end_group) {
        const Run run = run_from(row, end_group, equal_clouds, rows_each, shape[3], first, last);
        slots.count = run.next - row;
        const uint size = run.size;
        const uint tiles = (size + POINTS - 1) / POINTS;
        const uint part_tiles = (tiles + parts - 1) / parts;
        const uint first_tile = min(part * part_tiles, tiles);
        const uint own_tiles = min(first_tile + part_tiles, tiles) - first_tile;
        device const float* centres = query + ulong(row) * dim;
        device const float* points = ref + ulong(run.begin) * dim;
        device uint2* own_lists = lists + (ulong(row - first_row) * parts + part) * width;
        const ulong list_stride = ulong(parts) * width;

        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (thread_number < QUERIES) {
            bool searched = thread_number < slots.count;
            uint key = 0;
            uint number = NOTHING;
            if (searched) searched = takes_part(centres + ulong(thread_number) * dim, dim);
            if (place > 0 && searched) {
                const long previous = index[ulong(row + thread_number) * k + place - 1];
                searched = previous >= 0;
                if (searched) {
                    number = uint(previous - run.shown);
                    key = pair_key(points + ulong(number) * dim, centres + ulong(thread_number) * dim, dim);
                }
            }
            taken_key[thread_number] = key;
            taken_index[thread_number] = number;
            bound_key[thread_number] = searched ? NOTHING : 0;
            bound_index[thread_number] = searched ? NOTHING : 0;
            atomic_store_explicit(&gathered[thread_number], 0u, memory_order_relaxed);
        }
        for (uint slot = simdgroup; slot < slots.count && !in_segments; slot += SIMDGROUPS)
            for (uint rank = lane; rank < width; rank += 32) own_lists[slot * list_stride + rank] = uint2(NOTHING, NOTHING);
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // an odd stride visits every number below a power of two once
        const uint mask = own_tiles <= 1 ? 0 : 0xffffffffu >> clz(own_tiles - 1);
        const uint stride = uint((ulong(mask) * 2654435769ul) >> 32) | 1u;
        uint scattered = 0;
        for (ulong visit = 0; own_tiles > 0 && visit <= mask; ++visit, scattered = (scattered + stride) & mask) {
            if (scattered >= own_tiles) continue;
            const uint tile = (first_tile + scattered) * POINTS;
            float sum[4][EACH];
            #pragma unroll
            for (uint a = 0; a < 4; ++a)
                #pragma unroll
                for (uint b = 0; b < EACH; ++b) sum[a][b] = 0.0f;
#if RULE == COSINE
            float squared = 0.0f, point_squared = 0.0f;  // of a query, of a point
            uint largest = 0, point_largest = 0;
#endif
            for (uint from = 0; from < dim; from += DEPTH) {
                threadgroup_barrier(mem_flags::mem_threadgroup);
                stage(query_floats, QUERY_STRIDE, centres, QUERIES, slots.count, dim, from, thread_number);
                stage(point_floats, POINT_STRIDE, points + ulong(tile) * dim, POINTS, size - tile, dim, from, thread_number);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                const uint deep = min(uint(DEPTH), dim - from);
                for (uint d = 0; d < deep; ++d) {
                    const float4 q = query_tile[(d * QUERY_STRIDE + own_query) / 4];
                    #pragma unroll
                    for (uint c = 0; c < EACH; c += 4) {
                        const float4 p = point_tile[(d * POINT_STRIDE + own_point + c * 8) / 4];
                        #pragma unroll
                        for (uint a = 0; a < 4; ++a) {
                            #pragma unroll
                            for (uint b = 0; b < 4; ++b) {
#if RULE == COSINE
                                sum[a][c + b] = fma(p[b], q[a], sum[a][c + b]);
#else
                                sum[a][c + b] = accumulate(sum[a][c + b], p[b] - q[a]);
#endif
                            }
                        }
                    }
#if RULE == COSINE
                    const float x = query_floats[d * QUERY_STRIDE + (thread_number & (QUERIES - 1))];
                    const float y = point_floats[d * POINT_STRIDE + thread_number];  // THREADS is POINTS
                    squared = fma(x, x, squared);
                    point_squared = fma(y, y, point_squared);
                    largest = max(largest, as_type<uint>(x) & 0x7fffffffu);
                    point_largest = max(point_largest, as_type<uint>(y) & 0x7fffffffu);
#endif
                }
            }
#if RULE == COSINE
            norms[thread_number] = point_largest >= MIN_ROOT && point_largest < INFINITE ? norm_of(point_squared) : NOTHING;
            if (thread_number < QUERIES)
                norms[POINTS + thread_number] = largest >= MIN_ROOT && largest < INFINITE ? norm_of(squared) : NOTHING;
            threadgroup_barrier(mem_flags::mem_threadgroup);
#endif
            uint key[4][EACH];
            #pragma unroll
            for (uint a = 0; a < 4; ++a) {
                #pragma unroll
                for (uint b = 0; b < EACH; ++b) key[a][b] = as_type<uint>(sum[a][b]);
            }
#if RULE == COSINE
            // Loops over registers must be unrolled, and this would be long: so each column in turn is the
            // first, and after EACH rotations they are back.
            #pragma unroll 1
            for (uint b = 0; b < EACH; ++b) {
                const uint norm = norms[own_point + b / 4 * 32 + b % 4];
                #pragma unroll
                for (uint a = 0; a < 4; ++a) {
                    const uint norm_q = norms[POINTS + own_query + a];
                    const bool counts = norm != NOTHING && norm_q != NOTHING;
                    rotate(key[a], counts ? cosine_key_of(key[a][0], norm, norm_q) : NOTHING);
                }
            }
#endif
            #pragma unroll
            for (uint b = 0; b < EACH; ++b) {
                const bool past = own_point + b / 4 * 32 + b % 4 >= size - tile;
                #pragma unroll
                for (uint a = 0; a < 4; ++a) key[a][b] = past ? NOTHING : key[a][b];
            }
            if (threshold && visit == 0) {
                #pragma unroll
                for (uint a = 0; a < 4; ++a) {
                    #pragma unroll
                    for (uint c = 0; c < EACH; c += 4)
                        keys[(own_query + a) * SEGMENT + simdgroup / 2 * 16 + c * 2 + (lane & 7)] =
                            min(min(key[a][c], key[a][c + 1]), min(key[a][c + 2], key[a][c + 3]));
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
                sort_slots(slots, SEGMENT, width, thread_number);
                if (thread_number < slots.count && bound_key[thread_number] != 0) {
                    const uint bound = keys[thread_number * SEGMENT + width - 1];
                    if (bound < FARTHEST) bound_key[thread_number] = bound;
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }
            uint pending = 0;  // bit EACH * a + b: pairs that found no place yet
            #pragma unroll
            for (uint a = 0; a < 4; ++a) {
                const uint low = taken_key[own_query + a];
                const uint range = bound_key[own_query + a] - low;
                #pragma unroll
                for (uint b = 0; b < EACH; ++b)
                    pending |= uint(key[a][b] - low <= range) << (a * EACH + b);
            }
            while (true) {
                if (pending != 0) {
                    #pragma unroll 1
                    for (uint b = 0; b < EACH; ++b) {
                        const uint i = tile + own_point + b / 4 * 32 + b % 4;
                        #pragma unroll
                        for (uint a = 0; a < 4; ++a) {
                            const uint slot = own_query + a;
                            const uint bit = 1u << (a * EACH + b);
                            const uint k0 = key[a][0];
                            rotate(key[a], k0);
                            if ((pending & bit) == 0) continue;
                            bool wanted = k0 != NOTHING && comes_before(k0, i, bound_key[slot], bound_index[slot]);
                            if (place > 0) wanted = wanted && comes_before(taken_key[slot], taken_index[slot], k0, i);
#if RULE != COSINE
                            // too far for a float is a distance, a point that is not finite is none
                            if (wanted && k0 >= INFINITE) wanted = takes_part(points + ulong(i) * dim, dim);
#endif
                            if (wanted) {
                                const uint to = atomic_fetch_add_explicit(&gathered[slot], 1u, memory_order_relaxed);
                                if (to >= SEGMENT) continue;
                                keys[slot * SEGMENT + to] = k0;
                                indices[slot * SEGMENT + to] = i;
                            }
                            pending &= ~bit;
                        }
                    }
                    if (pending != 0) atomic_fetch_add_explicit(&breaks, 1u, memory_order_relaxed);
                }
                threadgroup_barrier(mem_flags::mem_threadgroup);
                const uint breaks_now = atomic_load_explicit(&breaks, memory_order_relaxed);
                const bool full = breaks_now != breaks_seen;
                breaks_seen = breaks_now;
                if (!full) break;
                if (in_segments) {
                    sort_slots(slots, 0, width, thread_number);
                } else {
                    for (uint slot = simdgroup; slot < slots.count; slot += SIMDGROUPS)
                        merge_into_list(slots, slot, own_lists + slot * list_stride, width, lane);
                    threadgroup_barrier(mem_flags::mem_threadgroup);
                }
            }
        }
        if (in_segments) sort_slots(slots, 0, width, thread_number);
        for (uint slot = simdgroup; slot < slots.count; slot += SIMDGROUPS) {
            device uint2* list = own_lists + slot * list_stride;
            if (!in_segments) merge_into_list(slots, slot, list, width, lane);
            for (uint rank = lane; rank < width; rank += 32) {
                uint2 kept = uint2(NOTHING, NOTHING);
                if (!in_segments) kept = list[rank];
                else if (rank < atomic_load_explicit(&gathered[slot], memory_order_relaxed))
                    kept = uint2(keys[slot * SEGMENT + rank], indices[slot * SEGMENT + rank]);
                if (parts > 1) {
                    if (in_segments) list[rank] = kept;
                    continue;
                }
                const bool real = kept.x != NOTHING;
                const float d = key_as_distance(real ? kept.x : FARTHEST);
                const ulong to = ulong(row + slot) * k + place + rank;
                distance[to] = euclidean && kept.x < FARTHEST ? precise::sqrt(d) : d;
                index[to] = real ? long(kept.y) + run.shown : -1;
            }
        }
        row = run.next;
    }
}
