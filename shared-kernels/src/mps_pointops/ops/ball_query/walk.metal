// Ball query in a tree: the first K points, in input order, strictly closer than a threshold.
// One simdgroup a query, three steps, each of which may end the search:
//
// 1. Scan: points in input order, as long as what was found foretells that few more will do.
// 2. Walk: of the boxes that reach into the ball the one with the smallest row comes first; hits wait
//    in a queue and are merged into a list of the smallest rows. A box whose smallest row is not below
//    the last one of a full list is passed over.
// 3. All rows of the answer are below the last one of a full list, or in the cloud. When scanning up to
//    there costs no more than the walk has cost, it is done. So a search never costs much more than a
//    scan of the cloud, and a ball that holds nearly everything about sqrt(N K) points.
//
// The bound of a box is made by the operations of a distance, in their order, from the gap along each
// axis. Rounding never swaps two numbers, so no point in the box is closer, to the bit.
// A dispatch fills the places [place, place + width) of every row of the result; a later one takes only
// points after the last one of the dispatch before, so K is not limited.
//
// RULE: arithmetic.metal; DIM is 3. COUNT: 1 writes only how many places of a row are filled.

#define QUERIES_PER_GROUP 4
#define LEVELS 6  // 2^31 points: 2^26 leaves, ..., 64, 2
#define ROWS 8    // of the list, 32 entries each
#define STEPS 4   // blocks of 32 points whose loads overlap in a scan

struct Ball {
    float3 centre;
    float scale;
    uint threshold;
};

static inline float3 load_point(device const float* p) { return float3(p[0], p[1], p[2]); }

static inline bool contains(thread const Ball& ball, float3 p) {
    const float3 d = p - ball.centre;
    return as_type<uint>(squared_norm3(d.x * ball.scale, d.y * ball.scale, d.z * ball.scale)) < ball.threshold;
}

static inline bool reaches(thread const Ball& ball, float4 low, float4 high) {
    const float x = max(max(low.x - ball.centre.x, ball.centre.x - high.x), 0.0f);
    const float y = max(max(low.y - ball.centre.y, ball.centre.y - high.y), 0.0f);
    const float z = max(max(low.z - ball.centre.z, ball.centre.z - high.z), 0.0f);
    return as_type<uint>(squared_norm3(x * ball.scale, y * ball.scale, z * ball.scale)) < ball.threshold;
}

static inline float distance_to(thread const Ball& ball, float3 p) {
    return squared_norm3(p.x - ball.centre.x, p.y - ball.centre.y, p.z - ball.centre.z);
}

static inline uint votes_of(bool vote) { return uint(ulong(simd_vote::vote_t(simd_ballot(vote)))); }

// Where a query's hits go.
struct Places {
    device float* distance;
    device long* index;
    uint shown;  // added to an index, subtracted from a row
    uint width;
};

static inline void write_hit(
    Places places, thread const Ball& ball, device const float* ref, uint place, uint row) {
    places.distance[place] = distance_to(ball, load_point(ref + ulong(row) * 3));
    places.index[place] = long(row - places.shown);
}

// Test the rows [at, stop) until `found` is `places.width`; returns the row after the last one tested.
static inline uint scan(
    Places places, thread const Ball& ball, device const float* ref, uint same, uint at, uint stop,
    thread uint& found, ushort lane) {
    while (at < stop && found < places.width) {
        float3 p[STEPS];
        bool hit[STEPS];
        for (uint s = 0; s < STEPS; ++s) p[s] = load_point(ref + ulong(min(at + s * 32 + lane, stop - 1)) * 3);
        bool any = false;
        for (uint s = 0; s < STEPS; ++s) {
            const uint row = at + s * 32 + lane;
            hit[s] = contains(ball, p[s]) & (row < stop) & (row != same);
            any = any | hit[s];
        }
        if (simd_any(any)) {
            for (uint s = 0; s < STEPS; ++s) {
                const uint votes = votes_of(hit[s]);
                const uint place = found + popcount(votes & ((1u << lane) - 1u));
                if (COUNT == 0 && hit[s] && place < places.width) {
                    places.distance[place] = distance_to(ball, p[s]);
                    places.index[place] = long(at + s * 32 + lane - places.shown);
                }
                found += popcount(votes);
            }
        }
        at += STEPS * 32;
    }
    return min(at, stop);
}

#if COUNT == 0
static inline void trade_row(thread uint& row, ushort stride, bool keep_smaller) {
    const uint other = simd_shuffle_xor(row, stride);
    row = keep_smaller ? min(row, other) : max(row, other);
}

// 32 rows in any order, NOTHING where there is none, into a list in ascending order, slot r * 32 + lane
// being entry r of that lane; the largest fall out. The first `unused` slots hold what is smaller.
static inline void merge_rows(thread uint* list, uint added, uint unused, ushort lane) {
    for (ushort size = 2; size <= 32; size <<= 1)
        for (ushort stride = size >> 1; stride > 0; stride >>= 1)
            trade_row(added, stride, ((lane & stride) == 0) == ((lane & size) == 0));
    for (uint r = 0; r < ROWS; ++r) {
        if (r * 32 + 31 < unused || simd_broadcast(added, 0) >= simd_broadcast(list[r], 31)) continue;
        const uint other = simd_shuffle_xor(added, 31);
        added = max(list[r], other);
        list[r] = min(list[r], other);
        for (ushort stride = 16; stride > 0; stride >>= 1) {
            trade_row(list[r], stride, (lane & stride) == 0);
            trade_row(added, stride, (lane & stride) == 0);
        }
    }
}
#endif

[[max_total_threads_per_threadgroup(128)]]
kernel void ball_walk(
    device const float* query [[buffer(0)]],    // (M, 3)
    device const float* ref [[buffer(1)]],      // (N, 3)
    device const float4* leaves [[buffer(2)]],  // (32 * leaves) x, y, z, bits of the row
    device const float4* boxes [[buffer(3)]],   // (nodes, 2)
    device const long* first [[buffer(4)]],     // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(5)]],      // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(6)]],       // (M, K) squared; 0 where there is no hit
    device long* index [[buffer(7)]],           // (M, K), or (M) if COUNT; counted in the cloud if clouds are equal, else in the input; -1: no hit
    constant long* shape [[buffer(8)]],
    constant long* levels [[buffer(9)]],        // where each level starts in `boxes` and how many nodes it has
    constant float* limits [[buffer(10)]],      // (2) squared threshold, scale
    uint group [[threadgroup_position_in_grid]],
    uint lane_number [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const bool equal_clouds = shape[1] != 0;
    const bool ignore_same_index = shape[4] != 0;
    const ulong all_places = ulong(shape[5]);
    const uint place = uint(shape[6]);
    const uint first_row = uint(shape[8]);
    const uint end_row = uint(shape[9]);
    const uint top = uint(shape[10]);    // the last level
    const uint probe = uint(shape[11]);  // rows to scan at a time in step 1, at least one time
    const uint reach = uint(shape[12]);  // rows that are scanned at most, if hits are that near
    const uint cut = uint(shape[13]);    // rows that are scanned instead of one step of a walk
    const uint whole = uint(shape[14]);  // rows of a cloud that is scanned without a walk

    threadgroup uint open_rows[QUERIES_PER_GROUP * (LEVELS - 1) * 32];
    threadgroup uint waiting_rows[QUERIES_PER_GROUP * 64];
    const ushort lane = ushort(lane_number);
    threadgroup uint* above = open_rows + simdgroup * (LEVELS - 1) * 32 + lane;
    threadgroup uint* waiting = waiting_rows + simdgroup * 64;

    const uint row = first_row + group * QUERIES_PER_GROUP + simdgroup;
    if (row >= end_row) return;
    const long from = equal_clouds ? row / uint(shape[2]) * shape[3] : first[row];
    const long to = equal_clouds ? from + shape[3] : last[row];
    uint at = uint(from);
    uint end = to > from ? uint(to) : at;
    const uint same = ignore_same_index ? row : NOTHING;

    device const float* own = query + ulong(row) * 3;
    const Ball ball = {load_point(own), limits[1], as_type<uint>(limits[0])};
    if (ball.threshold == 0 || !is_finite_point(own, 3)) end = at;
    const ulong begin_places = COUNT == 1 ? 0 : row * all_places + place;
    const Places places = {distance + begin_places, index + begin_places, equal_clouds ? uint(from) : 0, uint(shape[7])};
#if COUNT == 0
    if (place > 0) {
        const long previous = index[begin_places - 1];
        at = previous < 0 ? end : uint(previous) + places.shown + 1;
    }
#endif

    uint found = 0;
    const uint start = at;
    const uint most = end - at <= whole ? whole : probe;
    do {
        at = scan(places, ball, ref, same, at, at + min(most, end - at), found, lane);
    } while (
        at < end && found < places.width && at - start < reach &&
        ulong(places.width - found) * (at - start) <= ulong(found) * reach);

    if (at < end && found < places.width) {
#if COUNT == 0
        // slots of a full list that are not needed are smaller than any row
        const uint unused = ROWS * 32 - (places.width - found);
        uint list[ROWS];
        for (uint r = 0; r < ROWS; ++r) list[r] = r * 32 + lane < unused ? 0 : NOTHING;
        uint count = 0;  // rows that wait
#endif
        uint worst = end;  // rows from here on are not wanted
        uint steps = 0;
        bool scan_rest = false;
        uint level = top;
        uint base = 0;  // number of the first child, of those looked at
        uint open = NOTHING;
        bool arrived = true;
        while (true) {
            if (arrived) {
                // everything is read and tested at once: a branch would wait for each part of a box
                const uint child = base + lane;
                const uint count_here = uint(levels[2 * level + 1]);
                device const float4* box = boxes + 2 * (ulong(levels[2 * level]) + min(child, count_here - 1));
                const float4 low = box[0];
                const float4 high = box[1];
                const uint least = as_type<uint>(low.w);
                const bool wanted = (child < count_here) & (least < worst) & (as_type<uint>(high.w) >= at);
                const bool near = reaches(ball, low, high);
                open = (wanted & near) ? max(least, at) : NOTHING;
                arrived = false;
                ++steps;
#if COUNT == 1
                if (level == 0) {  // all leaves, in any order
                    uint open_leaves = votes_of(open != NOTHING);
                    for (; open_leaves != 0; open_leaves &= open_leaves - 1) {
                        const float4 point = leaves[ulong(base + ctz(open_leaves)) * 32 + lane];
                        const uint candidate = as_type<uint>(point.w);
                        const bool hit = (candidate >= at) & (candidate < end) & (candidate != same) & contains(ball, point.xyz);
                        found += popcount(votes_of(hit));
                    }
                    if (found >= places.width) break;
                    open = NOTHING;
                }
#endif
            }
            const uint least = simd_min(open);
            if (least >= worst) {
                if (level == top) break;
                ++level;
                base = (base >> 10) << 5;
                open = above[(level - 1) * 32];
                continue;
            }
            const uint child = base + ctz(votes_of(open == least));
            if (base + lane == child) open = NOTHING;
            if (level > 0) {
                above[(level - 1) * 32] = open;
                base = child * 32;
                --level;
                arrived = true;
                continue;
            }
#if COUNT == 0
            const float4 point = leaves[ulong(child) * 32 + lane];
            const uint candidate = as_type<uint>(point.w);
            const bool hit = (candidate >= at) & (candidate < worst) & (candidate != same) & contains(ball, point.xyz);
            const uint votes = votes_of(hit);
            ++steps;
            if (worst - at <= steps * cut) {
                scan_rest = true;
                break;
            }
            if (votes == 0) continue;
            if (hit) waiting[count + popcount(votes & ((1u << lane) - 1u))] = candidate;
            count += popcount(votes);
            simdgroup_barrier(mem_flags::mem_threadgroup);
            if (count < 32) continue;
            const uint added = waiting[lane];
            count -= 32;
            const uint rest = lane < count ? waiting[32 + lane] : 0;
            simdgroup_barrier(mem_flags::mem_threadgroup);
            if (lane < count) waiting[lane] = rest;
            merge_rows(list, added, unused, lane);
            const uint final = simd_broadcast(list[ROWS - 1], 31);
            if (final == NOTHING) continue;
            worst = final;
#endif
        }
#if COUNT == 0
        if (scan_rest) {
            scan(places, ball, ref, same, at, min(worst + 1, end), found, lane);
        } else {
            if (count > 0) merge_rows(list, lane < count ? waiting[lane] : NOTHING, unused, lane);
            const uint before = found;
            for (uint r = 0; r < ROWS; ++r) {
                const uint slot = r * 32 + lane;
                if (r * 32 + 31 < unused) continue;
                const bool used = slot >= unused && list[r] != NOTHING;
                if (used) write_hit(places, ball, ref, before + slot - unused, list[r]);
                found += popcount(votes_of(used));
            }
        }
#endif
    }
#if COUNT == 1
    if (lane == 0) index[row] = long(min(found, places.width));
#else
    for (uint slot = found + lane; slot < places.width; slot += 32) {
        places.distance[slot] = 0.0f;
        places.index[slot] = -1;
    }
#endif
}
