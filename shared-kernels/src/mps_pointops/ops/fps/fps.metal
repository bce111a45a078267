// Farthest point sampling by one threadgroup a cloud: small clouds from the first pick to the last
// (WHOLE), the second half of a round of large ones (LISTS), and what rounds left over (REST).
//
// Candidates are points that beat a threshold which no other point of the cloud beats. As long as
// the best candidate beats it, the best candidate is the next pick: keys only fall, and keys with
// ranks are never equal. The same again inside: the front, up to FRONT candidates that beat a
// threshold which no other candidate beats, is sampled by one simdgroup; then all candidates meet
// the picks of the front.
//
// RULE, DIM: arithmetic.metal; DIM is 3 for up to three coordinates.

#define WHOLE 0
#define LISTS 1
#define REST 2

#define THREADS 512  // of a threadgroup, at most
#define HELD 8       // candidates of one thread
#define FRONT 64     // two a lane
#define TOGETHER 4   // keys of one thread that are read at once

[[max_total_threads_per_threadgroup(THREADS)]]
kernel void fps(
    device const float* points [[buffer(0)]],    // (N, D)
    device const float4* leaves [[buffer(1)]],   // (N, 4) points in order along a curve, with their rows; or unread
    device const long* ptr [[buffer(2)]],        // (B + 1) where a cloud begins; unread if clouds are equal
    device const long* out_ptr [[buffer(3)]],    // (B + 1) where its picks begin; unread likewise
    device const long* start [[buffer(4)]],      // (B) its first pick, counted in the cloud; unread if all are one
    device int* nearest [[buffer(5)]],           // (N)
    device float4* boxes [[buffer(6)]],          // (groups, chunks of a group, 2)
    device uint* states [[buffer(7)]],           // (B, 4) picks that points have met, picks, bound on keys
    device const int* thresholds [[buffer(8)]],  // (groups, 2)
    device const int* lists [[buffer(9)]],       // (groups, 2, LISTED) keys, rows
    device long* out [[buffer(10)]],             // (S) picks, counted in the cloud if clouds are equal, else in the input
    constant long* shape [[buffer(11)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]])
{
    threadgroup atomic_uint bins[3 * BINS];
    threadgroup Kept staged[STAGED];
    threadgroup uint chosen[HELD * THREADS];
    threadgroup int found_key[FRONT];
    threadgroup uint found_row[FRONT];
    threadgroup uint found_rank[FRONT];
    threadgroup Kept found_spot[FRONT];
    threadgroup int front_key[FRONT];
    threadgroup uint front_row[FRONT];
    threadgroup Kept front_spot[FRONT];
    threadgroup uint4 effect[FRONT];
    threadgroup int best_key[32];
    threadgroup uint best_rank[32];
    threadgroup atomic_uint gathered;

    const uint mode = uint(shape[MODE]);
    const bool listed = mode == LISTS;
    const uint alone = uint(shape[ALONE]);
    const bool first = shape[FIRST] != 0;
    uint number = uint(shape[BASE]) + group;
    // large clouds begin in runs of their own
    if (mode != WHOLE && shape[EQUAL] == 0) number = last_begun(ptr, uint(shape[CLOUDS]), alone, number);
    const Cloud cloud = make_cloud(shape, ptr, out_ptr, number);
    if (mode != WHOLE && shape[EQUAL] == 0 && cloud.begin >> alone != uint(shape[BASE]) + group) return;
    if ((cloud.size <= 1u << alone) != (mode == WHOLE) || cloud.size == 0 || cloud.picks == 0) return;

    const uint dim = uint(shape[DIMENSION]);
    const ulong slot = first_slot(shape, cloud);
    const uint groups = (cloud.size + (1u << uint(shape[GROUP])) - 1) >> uint(shape[GROUP]);
    const uint held = HELD * threads;
    device uint* state = states + ulong(cloud.number) * 4;
    device long* cloud_out = out + cloud.out_begin;
    device const int* cloud_lists = lists + slot * 2 * LISTED;

    uint applied = 0;
    uint made = 1;
    int high = int(INFINITE);
    if (first) {
        if (thread_number == 0) cloud_out[0] = long(start_of(shape, start, cloud) + cloud.shown);
    } else {
        applied = state[0];
        made = state[1];
        high = int(state[2]);
        if (made >= cloud.picks) return;
    }
    clear_bins(bins, thread_number, threads);
    if (thread_number == 0) atomic_store_explicit(&gathered, 0u, memory_order_relaxed);
    Search search;
    search.pass = 0;
    search.rank_bits = rank_bits(cloud);
    bool fresh = first;
    float work = 0.0f;
    const float budget = float(shape[BUDGET]);

    while (made < cloud.picks) {
        int floor_key = -1;
        uint floor_rank = 0;
        uint entries = cloud.size;
        if (listed) {
            // the largest threshold of the groups
            for (uint g = thread_number; g < groups; g += threads) {
                int key = thresholds[(slot + g) * 2];
                uint rank = uint(thresholds[(slot + g) * 2 + 1]);
                if (beats(key, rank, floor_key, floor_rank)) {
                    floor_key = key;
                    floor_rank = rank;
                }
            }
            int most = simd_max(floor_key);
            floor_rank = simd_min(floor_key == most ? floor_rank : NOTHING);
            if (lane == 0) {
                best_key[simdgroup] = most;
                best_rank[simdgroup] = floor_rank;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            floor_key = simd_max(lane < simdgroups ? best_key[lane] : -1);
            floor_rank = simd_min(lane < simdgroups && best_key[lane] == floor_key ? best_rank[lane] : NOTHING);
            entries = groups * LISTED;
        } else {
            // points meet the picks so far
            const uint chunks = (cloud.size + CHUNK - 1) / CHUNK;
            uint count;
            do {
                if (fresh) count = stage_start(staged, cloud, points, start, shape, dim, thread_number);
                else count = stage(staged, cloud, points, out, dim, applied, made, thread_number, threads);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                for (uint chunk = simdgroup; chunk < chunks; chunk += simdgroups) {
                    Part part;
                    update_chunk(
                        part, cloud, chunk, points, leaves, nearest,
                        boxes + (slot * chunks_of_group(shape) + chunk) * 2, shape, fresh, staged, count, lane);
                }
                threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
                applied = fresh ? 1 : applied + count;
                fresh = false;
                work += float(count + 1) * float(cloud.size);
            } while (applied < made);
        }

        // candidates: no more than the threads hold
        uint candidates = entries;
        if (entries > held) {
            begin_search(search, high, floor_key, floor_rank);
            do {
                for (uint base = thread_number; base < entries; base += threads * TOGETHER) {
                    int key[TOGETHER];
                    for (uint u = 0; u < TOGETHER; ++u) {
                        uint i = base + u * threads;
                        key[u] = i >= entries ? -1 : listed ? cloud_lists[list_place(i)] : nearest[cloud.begin + i];
                    }
                    for (uint u = 0; u < TOGETHER; ++u) {
                        uint row = 0;
                        if (asks_rank(search, key[u]) && key[u] >= 0)
                            row = row_of(base + u * threads, listed, shape, cloud, cloud_lists, leaves);
                        tally(search, bins, key[u], rank_of(row, cloud));
                    }
                }
                settle(search, bins, lane);
                threadgroup_barrier(mem_flags::mem_threadgroup);
            } while (narrow(search, bins, held, held / 2, thread_number, threads, lane));
            floor_key = search.key;
            floor_rank = search.rank;
            candidates = search.found;
            for (uint base = 0; base < entries; base += threads * TOGETHER) {
                int key[TOGETHER];
                for (uint u = 0; u < TOGETHER; ++u) {
                    uint i = base + u * threads + thread_number;
                    key[u] = i >= entries ? -1 : listed ? cloud_lists[list_place(i)] : nearest[cloud.begin + i];
                }
                for (uint u = 0; u < TOGETHER; ++u) {
                    uint i = base + u * threads + thread_number;
                    uint row = 0;
                    if (key[u] == floor_key && key[u] >= 0)
                        row = row_of(i, listed, shape, cloud, cloud_lists, leaves);
                    bool wanted = beats(key[u], rank_of(row, cloud), floor_key, floor_rank);
                    uint place = claim(&gathered, wanted, lane);
                    if (wanted) chosen[place] = i;
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        int key[HELD];
        uint row[HELD];
        Spot spot[HELD];
        for (uint e = 0; e < HELD; ++e) {
            uint place = e * threads + thread_number;
            key[e] = -1;
            row[e] = 0;
            if (place < candidates) {
                uint i = entries > held ? chosen[place] : place;
                key[e] = listed ? cloud_lists[list_place(i)] : nearest[cloud.begin + i];
                if (key[e] >= 0) row[e] = row_of(i, listed, shape, cloud, cloud_lists, leaves);
            }
            spot[e] = spot_at(points, dim, cloud.begin + row[e]);
        }
        if (thread_number == 0) atomic_store_explicit(&gathered, 0u, memory_order_relaxed);

        const uint began = made;
        const uint last = uint(min(long(cloud.picks), long(made) + shape[ROOM]));
        for (;;) {
            begin_search(search, high, floor_key, floor_rank);
            do {
                for (uint e = 0; e < HELD; ++e)
                    tally(search, bins, key[e], asks_rank(search, key[e]) ? rank_of(row[e], cloud) : 0);
                settle(search, bins, lane);
                threadgroup_barrier(mem_flags::mem_threadgroup);
            } while (narrow(search, bins, FRONT, FRONT / 2, thread_number, threads, lane));
            if (search.found == 0) {
                if (made == began) {  // nothing may be picked: the first point
                    for (uint i = made + thread_number; i < cloud.picks; i += threads)
                        cloud_out[i] = long(cloud.shown);
                    made = cloud.picks;
                }
                high = floor_key;
                break;
            }
            bool wanted[HELD];
            uint own = 0;
            for (uint e = 0; e < HELD; ++e) {
                uint rank = key[e] == search.key ? rank_of(row[e], cloud) : 0;
                wanted[e] = beats(key[e], rank, search.key, search.rank);
                own += wanted[e] ? 1u : 0u;
            }
            if (own != 0) {
                uint place = atomic_fetch_add_explicit(&gathered, own, memory_order_relaxed);
                for (uint e = 0; e < HELD; ++e) {
                    if (!wanted[e]) continue;
                    found_key[place] = key[e];
                    found_row[place] = row[e];
                    found_rank[place] = rank_of(row[e], cloud);
                    found_spot[place] = keep(spot[e]);
                    ++place;
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (thread_number == 0) atomic_store_explicit(&gathered, 0u, memory_order_relaxed);
            const uint fronts = search.found;
            for (uint t = thread_number; t < 4 * FRONT; t += threads) {  // in order: four threads a candidate
                uint c = t / 4;
                uint safe = min(c, fronts - 1);
                int its_key = found_key[safe];
                uint its_rank = found_rank[safe];
                uint place = 0;
                for (uint j = t & 3; j < fronts; j += 4)
                    place += beats(found_key[j], found_rank[j], its_key, its_rank) ? 1u : 0u;
                place += simd_shuffle_xor(place, 1);
                place += simd_shuffle_xor(place, 2);
                if (c < fronts && (t & 3) == 0) {
                    front_key[place] = its_key;
                    front_row[place] = found_row[c];
                    front_spot[place] = found_spot[c];
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // what a pick of the front does to those after it
            for (uint t = thread_number; t < 4 * FRONT; t += threads) {
                uint c = t / 4;
                Spot its_spot = kept(front_spot[min(c, fronts - 1)]);
                uint nearer = 0;
                int raised = -1;
                for (uint bit = 0; bit < FRONT / 4; ++bit) {
                    uint j = (t & 3) * (FRONT / 4) + bit;
                    if (j <= c || j >= fronts) continue;
                    int distance = distance_of(points, dim, its_spot, kept(front_spot[j]));
                    if (distance >= front_key[j]) continue;
                    nearer |= 1u << bit;
                    if (distance >= search.key) raised = max(raised, distance);
                }
                raised = max(raised, simd_shuffle_xor(raised, 1));
                raised = max(raised, simd_shuffle_xor(raised, 2));
                uint beside = simd_shuffle_xor(nearer, 1);
                if ((t & 1) == 0) nearer |= beside << 16;
                beside = simd_shuffle_xor(nearer, 2);
                if (c < fronts && (t & 3) == 0) effect[c] = uint4(nearer, beside, uint(raised), uint(front_key[c]));
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            // Picks go down the front. A candidate with a pick nearer than its key is passed over:
            // below the threshold it is none any more, else its new key is the threshold from then on.
            const uint room = min(last - made, uint(FRONT));
            uint low = fronts < 32 ? (1u << fronts) - 1 : NOTHING;  // candidates that go on
            uint high_half = fronts <= 32 ? 0 : fronts < 64 ? (1u << (fronts - 32)) - 1 : NOTHING;
            uint low_picks = 0, high_picks = 0;
            uint count = 0;
            int threshold = -1;
            bool over = false;  // picks change nothing any more
            while (count < room && (low | high_half) != 0) {
                uint c = low != 0 ? ctz(low) : 32 + ctz(high_half);
                uint4 its = effect[c];
                if (int(its.w) <= threshold) break;
                low &= ~its.x;
                high_half &= ~its.y;
                threshold = max(threshold, int(its.z));
                uint bit = 1u << (c & 31);
                if (c < 32) {
                    low &= ~bit;
                    low_picks |= bit;
                } else {
                    high_half &= ~bit;
                    high_picks |= bit;
                }
                ++count;
                over = its.w == 0;
                if (over) break;
            }
            for (uint c = thread_number; c < fronts; c += threads) {
                uint bit = 1u << (c & 31);
                if (((c < 32 ? low_picks : high_picks) & bit) == 0) continue;
                uint before = popcount(low_picks & (c < 32 ? bit - 1 : NOTHING));
                if (c >= 32) before += popcount(high_picks & (bit - 1));
                cloud_out[made + before] = long(front_row[c] + cloud.shown);
            }
            made += count;
            if (over) {
                uint c = high_picks != 0 ? 63 - clz(high_picks) : 31 - clz(low_picks);
                const long again = long(front_row[c] + cloud.shown);
                for (uint i = made + thread_number; i < cloud.picks; i += threads) cloud_out[i] = again;
                made = cloud.picks;
            }
            if (made >= last) break;
            while ((low_picks | high_picks) != 0) {
                uint c = low_picks != 0 ? ctz(low_picks) : 32 + ctz(high_picks);
                if (low_picks != 0) low_picks &= low_picks - 1;
                else high_picks &= high_picks - 1;
                Spot pick = kept(front_spot[c]);
                for (uint e = 0; e < HELD; ++e)
                    key[e] = min(key[e], distance_of(points, dim, spot[e], pick));
            }
            high = max(search.key, threshold);
        }
        applied = began;
        if (listed || (budget >= 0.0f && work > budget)) break;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    }
    if (thread_number == 0) {
        state[0] = applied;
        state[1] = made;
        state[2] = uint(high);
    }
}
