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
#define HELD 8       // candidates of one thread
#define FRONT 64     // two a lane
#define TOGETHER 8   // keys of one thread that are read at once

// What a thread holds.
struct Candidates {
    int key[HELD];
    uint row[HELD];  // in the cloud
    Spot spot[HELD];
};

// The first N of them meet picks of the front.
template <uint N>
static inline void meet_front(
    thread Candidates& set, uint picks, threadgroup const Kept* spots, device const float* points, uint dim)
{
    for (; picks != 0; picks &= picks - 1)
        meet<N>(set.key, set.spot, kept(spots[ctz(picks)]), points, dim);
}

// A tiny cloud by one simdgroup, pick by pick: nothing to wait for.
static inline void sample_tiny(
    Cloud cloud, device const float* points, uint pick, device long* out, constant long* shape, uint lane)
{
    const uint dim = uint(shape[DIMENSION]);
    Candidates set;
    for (uint e = 0; e < HELD; ++e) {
        uint i = e * 32 + lane;
        bool inside = i < cloud.size;
        set.row[e] = inside ? i : 0;
        set.spot[e] = spot_at(points, dim, cloud.begin + set.row[e]);
        bool eligible = inside && may_be_picked(points, cloud.begin + set.row[e], set.spot[e], shape);
        set.key[e] = eligible ? int(INFINITE) : -1;
    }
    // a start that is not finite has no distance to anything
    bool meets = is_finite_point(points + ulong(cloud.begin + pick) * dim, dim);
    for (uint made = 1; made < cloud.picks; ++made) {
        if (meets) {
            Spot centre = spot_at(points, dim, cloud.begin + pick);
            if (cloud.size <= 64) meet<2>(set.key, set.spot, centre, points, dim);
            else if (cloud.size <= 128) meet<4>(set.key, set.spot, centre, points, dim);
            else meet<HELD>(set.key, set.spot, centre, points, dim);
        }
        meets = true;
        int most = -1;
        uint rank = NOTHING, row = 0;
        for (uint e = 0; e < HELD; ++e) {
            if (e * 32 >= cloud.size) break;
            uint its_rank = rank_of(set.row[e], cloud);
            if (set.key[e] < 0 || !beats(set.key[e], its_rank, most, rank)) continue;
            most = set.key[e];
            rank = its_rank;
            row = set.row[e];
        }
        int farthest = simd_max(most);
        uint least = simd_min(most == farthest ? rank : NOTHING);
        pick = least;
        if (cloud.reversed) pick = simd_min(most == farthest && rank == least ? row : NOTHING);
        if (farthest < 0) pick = 0;  // nothing may be picked: the first point
        if (farthest <= 0) {  // picks change nothing any more
            for (uint i = made + lane; i < cloud.picks; i += 32) out[i] = long(pick + cloud.shown);
            return;
        }
        if (lane == 0) out[made] = long(pick + cloud.shown);
    }
}

static inline uint votes_of(bool vote) { return uint(ulong(simd_vote::vote_t(simd_ballot(vote)))); }

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
    threadgroup uint2 found_order[FRONT];  // key, rank
    threadgroup uint found_row[FRONT];
    threadgroup Kept found_spot[FRONT];
    threadgroup int front_key[FRONT];
    threadgroup uint front_row[FRONT];
    threadgroup Kept front_spot[FRONT];
    threadgroup uint4 near[FRONT];  // candidates before that are near: low half, high half; new key; key
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
                    store_chunk(part, cloud, chunk, nearest, lane);
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
                high = floor_key;
                break;
            }
            uint wanted = 0;
            for (uint e = 0; e < HELD; ++e) {
                if (e * threads >= candidates) break;
                bool beaten = set.key[e] > search.key;
                if (search.rank != 0) beaten = beats(set.key[e], rank_of(set.row[e], cloud), search.key, search.rank);
                wanted |= beaten ? 1u << e : 0u;
            }
            if (wanted != 0) {
                uint place = atomic_fetch_add_explicit(&gathered, popcount(wanted), memory_order_relaxed);
                for (uint e = 0; e < HELD; ++e) {
                    if ((wanted >> e & 1u) == 0) continue;
                    found_order[place] = uint2(uint(set.key[e]), rank_of(set.row[e], cloud));
                    found_row[place] = set.row[e];
                    found_spot[place] = keep(set.spot[e]);
                    ++place;
                }
            }
            // places that stay empty come last in every order and are near to nothing
            for (uint c = fronts + thread_number; c < FRONT; c += threads) {
                found_order[c] = uint2(NOTHING, NOTHING);
                front_key[c] = -1;
                front_spot[c] = keep(set.spot[0]);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (thread_number == 0) atomic_store_explicit(&gathered, 0u, memory_order_relaxed);
            for (uint t = thread_number; t < 4 * FRONT; t += threads) {  // in order: four threads a candidate
                const uint c = t / 4;
                const uint2 its = found_order[c];
                uint place = 0;
                for (uint j = 0; j < FRONT / 4; ++j) {
                    uint2 other = found_order[4 * j + (t & 3)];
                    place += beats(int(other.x), other.y, int(its.x), its.y) ? 1u : 0u;
                }
                place += simd_shuffle_xor(place, 1);
                place += simd_shuffle_xor(place, 2);
                if (c < fronts && (t & 3) == 0) {
                    front_key[place] = int(its.x);
                    front_row[place] = found_row[c];
                    front_spot[place] = found_spot[c];
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint t = thread_number; t < 4 * FRONT; t += threads) {  // candidates before that are near
                const uint c = t / 4;
                const int its_key = front_key[c];
                const Spot its_spot = kept(front_spot[c]);
                uint low = 0, high_half = 0;
                int raised = -1;
                for (uint block = 0; block < FRONT; block += 16) {
                    Spot other[4];
                    int distance[4];
                    for (uint j = 0; j < 4; ++j) {
                        other[j] = kept(front_spot[block + 4 * j + (t & 3)]);
                        distance[j] = int(INFINITE);
                    }
                    meet<4>(distance, other, its_spot, points, dim);
                    for (uint j = 0; j < 4; ++j) {
                        uint at = block + 4 * j + (t & 3);
                        bool nearer = at < c && distance[j] < its_key;
                        uint bit = nearer ? 1u << (at & 31) : 0u;
                        if (block < 32) low |= bit;
                        else high_half |= bit;
                        raised = max(raised, nearer && distance[j] >= search.key ? distance[j] : -1);
                    }
                }
                low |= simd_shuffle_xor(low, 1);
                low |= simd_shuffle_xor(low, 2);
                high_half |= simd_shuffle_xor(high_half, 1);
                high_half |= simd_shuffle_xor(high_half, 2);
                raised = max(raised, simd_shuffle_xor(raised, 1));
                raised = max(raised, simd_shuffle_xor(raised, 2));
                if ((t & 3) == 0) near[c] = uint4(low, high_half, uint(raised), uint(its_key));
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);

            // A candidate is picked if no pick before it is near, and dropped if one is: then its key
            // falls below the threshold, or to its `raised` at most. All simdgroups find out alike.
            const uint4 a = near[lane], b = near[lane + 32];
            uint open_a = fronts < 32 ? (1u << fronts) - 1 : NOTHING;
            uint open_b = fronts <= 32 ? 0 : fronts < 64 ? (1u << (fronts - 32)) - 1 : NOTHING;
            uint picks_a = 0, picks_b = 0;
            bool dropped_a = false, dropped_b = false;
            while ((open_a | open_b) != 0) {
                bool is_open = (open_a >> lane & 1u) != 0;
                dropped_a = dropped_a || (is_open && ((a.x & picks_a) | (a.y & picks_b)) != 0);
                bool picked_a = is_open && !dropped_a && ((a.x & open_a) | (a.y & open_b)) == 0;
                is_open = (open_b >> lane & 1u) != 0;
                dropped_b = dropped_b || (is_open && ((b.x & picks_a) | (b.y & picks_b)) != 0);
                bool picked_b = is_open && !dropped_b && ((b.x & open_a) | (b.y & open_b)) == 0;
                picks_a |= votes_of(picked_a);
                picks_b |= votes_of(picked_b);
                open_a &= ~(picks_a | votes_of(dropped_a));
                open_b &= ~(picks_b | votes_of(dropped_b));
            }
            // picks in order, while they are above the new keys
            int threshold = max(dropped_a ? int(a.z) : -1, dropped_b ? int(b.z) : -1);
            threshold = simd_max(threshold);
            picks_a &= votes_of(int(a.w) > threshold);
            picks_b &= votes_of(int(b.w) > threshold);
            uint zeros_a = picks_a & votes_of(a.w == 0), zeros_b = picks_b & votes_of(b.w == 0);
            if (((picks_a & ~zeros_a) | (picks_b & ~zeros_b)) != 0) {
                // keys of the others fall to 0 with this front, and their ranks may come before: zeros wait
                if ((zeros_a | zeros_b) != 0) threshold = max(threshold, 0);
                picks_a &= ~zeros_a;
                picks_b &= ~zeros_b;
                zeros_a = zeros_b = 0;
            }
            // one key of 0 is enough: from then on picks change nothing
            const bool over = (zeros_a | zeros_b) != 0;
            if (zeros_a != 0) picks_b = 0;
            if (zeros_a != 0) picks_a &= (zeros_a & (0u - zeros_a)) * 2 - 1;
            else if (zeros_b != 0) picks_b &= (zeros_b & (0u - zeros_b)) * 2 - 1;
            const uint room = last - made;
            uint count = popcount(picks_a) + popcount(picks_b);
            for (; count > room; --count) {  // the last ones have to wait
                if (picks_b != 0) picks_b &= ~(0x80000000u >> clz(picks_b));
                else picks_a &= ~(0x80000000u >> clz(picks_a));
            }
            for (uint c = thread_number; c < FRONT; c += threads) {
                const uint bit = 1u << (c & 31);
                if (((c < 32 ? picks_a : picks_b) & bit) == 0) continue;
                uint before = popcount(picks_a & (c < 32 ? bit - 1 : NOTHING));
                if (c >= 32) before += popcount(picks_b & (bit - 1));
                cloud_out[made + before] = long(front_row[c] + cloud.shown);
            }
            made += count;
            if (over && made < last) {
                const uint c = picks_b != 0 ? 63 - clz(picks_b) : 31 - clz(picks_a);
                const long again = long(front_row[c] + cloud.shown);
                for (uint i = made + thread_number; i < cloud.picks; i += threads) cloud_out[i] = again;
                made = cloud.picks;
            }
            if (made >= last) break;
            for (uint side = 0; side < 2; ++side) {
                uint picks = side == 0 ? picks_a : picks_b;
                threadgroup const Kept* spots = front_spot + side * 32;
                if (candidates <= 2 * threads) meet_front<2>(set, picks, spots, points, dim);
                else if (candidates <= 4 * threads) meet_front<4>(set, picks, spots, points, dim);
                else meet_front<HELD>(set, picks, spots, points, dim);
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
