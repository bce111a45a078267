// Farthest point sampling by one threadgroup a cloud: small clouds from the first pick to the last
// (WHOLE), the second half of a round of large ones (LISTS), and what rounds left over (REST).
//
// Candidates are points that beat a threshold which no other point of the cloud beats. As long as
// the best candidate beats it, the best candidate is the next pick: keys only fall, and keys with
// ranks are never equal. The same again inside: the front, up to FRONT candidates that beat a
// threshold which no other candidate beats, is sampled by one simdgroup; then all candidates meet
// the picks of the front.
//
// Clouds that a single simdgroup holds are sampled pick by pick.
//
// RULE, DIM: arithmetic.metal; DIM is 3 for up to three coordinates.

#define THREADS 512  // of a threadgroup, at most
#define TOGETHER 8   // keys of one thread that are read at once

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
    threadgroup uint2 found[FRONT];
    threadgroup uint found_row[FRONT];
    threadgroup Kept found_spot[FRONT];
    threadgroup int front_key[FRONT];
    threadgroup uint front_row[FRONT];
    threadgroup Kept front_spot[FRONT];
    threadgroup uint4 near[FRONT];
    threadgroup int best_key[32];
    threadgroup uint best_rank[32];
    threadgroup atomic_uint gathered;
    const Front front = {found, found_row, found_spot, front_key, front_row, front_spot, near};

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
    const uint held = min(HELD * threads, uint(shape[HOLD]));
    device uint* state = states + ulong(cloud.number) * 4;
    device long* cloud_out = out + cloud.out_begin;
    device const int* cloud_lists = lists + slot * 2 * LISTED;

    if (mode == WHOLE && simdgroups == 1 && cloud.size <= HELD * 32) {
        uint pick = start_of(shape, start, cloud);
        if (lane == 0) cloud_out[0] = long(pick + cloud.shown);
        sample_tiny(cloud, points, pick, cloud_out, shape, lane);
        return;
    }

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
            do {
                uint count;
                if (fresh) count = stage_start(staged, cloud, points, start, shape, dim, thread_number);
                else count = stage(staged, cloud, points, out, dim, applied, made, thread_number, threads);
                threadgroup_barrier(mem_flags::mem_threadgroup);
                for (uint chunk = simdgroup; chunk < chunks; chunk += simdgroups) {
                    Part part;
                    device float4* box = boxes + (slot * chunks_of_group(shape) + chunk) * 2;
                    load_chunk(part, cloud, chunk, points, leaves, nearest, box, shape, fresh, lane);
                    meet_picks(part, points, dim, staged, count, lane);
                    store_chunk(part, cloud, chunk, nearest, shape, lane);
                }
                threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
                applied = fresh ? 1 : applied + count;
                fresh = false;
                work += float(count + 1) * float(cloud.size);
            } while (applied < made);
        }

        // candidates: no more than the threads hold
        device const int* keys = listed ? cloud_lists : nearest + cloud.begin;
        uint candidates = entries;
        if (entries > held) {
            begin_search(search, high, floor_key, floor_rank);
            do {
                const bool ranked = asks_ranks(search);
                for (uint base = thread_number; base < entries; base += threads * TOGETHER) {
                    int key[TOGETHER];
                    for (uint u = 0; u < TOGETHER; ++u) {
                        uint i = base + u * threads;
                        key[u] = keys[place_of_entry(i < entries ? i : 0, listed)];
                        if (i >= entries) key[u] = -1;
                    }
                    for (uint u = 0; u < TOGETHER; ++u) {
                        uint rank = 0;
                        if (ranked && key[u] >= 0) {
                            uint place = place_of_entry(base + u * threads, listed);
                            rank = rank_of(row_of_entry(place, listed, keys, shape, cloud, leaves), cloud);
                        }
                        tally(search, bins, key[u], rank);
                    }
                }
                settle(search, bins, lane);
                threadgroup_barrier(mem_flags::mem_threadgroup);
            } while (narrow(search, bins, held, held / 2, thread_number, threads, lane));
            floor_key = search.key;
            floor_rank = search.rank;
            candidates = search.found;
            // twice over the entries: how many, then which
            uint place = 0;
            for (uint turn = 0; turn < 2; ++turn) {
                for (uint base = thread_number; base < entries; base += threads * TOGETHER) {
                    int key[TOGETHER];
                    for (uint u = 0; u < TOGETHER; ++u) {
                        uint i = base + u * threads;
                        key[u] = keys[place_of_entry(i < entries ? i : 0, listed)];
                        if (i >= entries) key[u] = -1;
                    }
                    for (uint u = 0; u < TOGETHER; ++u) {
                        uint i = base + u * threads;
                        bool wanted = key[u] > floor_key;
                        if (floor_rank != 0 && key[u] == floor_key && key[u] >= 0) {
                            uint at = place_of_entry(i, listed);
                            wanted = rank_of(row_of_entry(at, listed, keys, shape, cloud, leaves), cloud) < floor_rank;
                        }
                        if (!wanted) continue;
                        if (turn == 1) chosen[place] = i;
                        ++place;
                    }
                }
                if (turn == 0) {
                    uint before = simd_prefix_exclusive_sum(place);
                    uint taken = 0;
                    if (lane == 31)
                        taken = atomic_fetch_add_explicit(&gathered, before + place, memory_order_relaxed);
                    place = before + simd_shuffle(taken, 31);
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        Candidates set;
        for (uint e = 0; e < HELD; ++e) {
            uint i = e * threads + thread_number;
            bool there = i < candidates;  // false for all threads of the last ones, often
            if (entries > held && there) i = chosen[i];
            uint place = place_of_entry(there ? i : 0, listed);
            set.key[e] = keys[place];
            set.row[e] = row_of_entry(place, listed, keys, shape, cloud, leaves);
            // a list may end early, and a sorted point be none
            bool usable = there && set.key[e] >= 0;
            set.key[e] = usable ? set.key[e] : -1;
            set.row[e] = usable ? set.row[e] : 0;
        }
        for (uint e = 0; e < HELD; ++e) set.spot[e] = spot_at(points, dim, cloud.begin + set.row[e]);
        if (thread_number == 0) atomic_store_explicit(&gathered, 0u, memory_order_relaxed);

        const uint began = made;
        const uint last = uint(min(long(cloud.picks), long(made) + shape[ROOM]));
        for (;;) {
            begin_search(search, high, floor_key, floor_rank);
            do {
                const bool ranked = asks_ranks(search);
                for (uint e = 0; e < HELD; ++e) {
                    if (e * threads >= candidates) break;
                    tally(search, bins, set.key[e], ranked ? rank_of(set.row[e], cloud) : 0);
                }
                settle(search, bins, lane);
                threadgroup_barrier(mem_flags::mem_threadgroup);
            } while (narrow(search, bins, FRONT, FRONT / 2, thread_number, threads, lane));
            const uint fronts = search.found;
            if (fronts == 0) {
                if (made == began) {  // nothing may be picked: the first point
                    for (uint i = made + thread_number; i < cloud.picks; i += threads)
                        cloud_out[i] = long(cloud.shown);
                    made = cloud.picks;
                }
                high = max(0, floor_key);
                break;
            }
            find_front(front, search, set, candidates, cloud, &gathered, thread_number, threads);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (thread_number == 0) atomic_store_explicit(&gathered, 0u, memory_order_relaxed);
            order_front(front, fronts, thread_number, threads);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            compare_front(front, search.key, points, dim, thread_number, threads);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            const Picks picks = pick_front(front, fronts, last - made, lane);
            for (uint c = thread_number; c < FRONT; c += threads) {
                const uint bit = 1u << (c & 31);
                if (((c < 32 ? picks.a : picks.b) & bit) == 0) continue;
                uint before = popcount(picks.a & (c < 32 ? bit - 1 : NOTHING));
                if (c >= 32) before += popcount(picks.b & (bit - 1));
                cloud_out[made + before] = long(front.row[c] + cloud.shown);
            }
            made += popcount(picks.a) + popcount(picks.b);
            if (picks.over && made < last) {
                const uint c = picks.b != 0 ? 63 - clz(picks.b) : 31 - clz(picks.a);
                const long again = long(front.row[c] + cloud.shown);
                for (uint i = made + thread_number; i < cloud.picks; i += threads) cloud_out[i] = again;
                made = cloud.picks;
            }
            if (made >= last) break;
            for (uint side = 0; side < 2; ++side) {
                uint chosen_here = side == 0 ? picks.a : picks.b;
                threadgroup const Kept* spots = front.spot + side * 32;
                if (candidates <= 2 * threads) meet_front<2>(set, chosen_here, spots, points, dim);
                else if (candidates <= 4 * threads) meet_front<4>(set, chosen_here, spots, points, dim);
                else meet_front<HELD>(set, chosen_here, spots, points, dim);
            }
            // the picks have a key of 0
            high = max(0, max(search.key, picks.threshold));
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
