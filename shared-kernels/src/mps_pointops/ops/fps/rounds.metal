// Farthest point sampling, first half of a round: every point meets the picks of the round before,
// and each threadgroup lists its best points.
//
// Chunks are dealt to the threadgroups of a cloud in turn, so that a place with many far points is
// not one group's alone. A group lists up to LISTED points that beat its threshold; no other point
// of the group does. So all points that beat the largest of the thresholds are in the lists.
//
// RULE, DIM: arithmetic.metal; DIM is 3 for up to three coordinates.

[[max_total_threads_per_threadgroup(1024)]]
kernel void fps_update(
    device const float* points [[buffer(0)]],    // (N, D)
    device const float4* leaves [[buffer(1)]],   // (N, 4) points in order along a curve, with their rows; or unread
    device const long* ptr [[buffer(2)]],        // (B + 1) where a cloud begins; unread if clouds are equal
    device const long* out_ptr [[buffer(3)]],    // (B + 1) where its picks begin; unread likewise
    device const long* start [[buffer(4)]],      // (B) its first pick, counted in the cloud; unread if all are one
    device int* nearest [[buffer(5)]],           // (N)
    device float4* boxes [[buffer(6)]],          // (groups, chunks of a group, 2)
    device const uint* states [[buffer(7)]],     // (B, 4)
    device int* thresholds [[buffer(8)]],        // (groups, 2)
    device int* lists [[buffer(9)]],             // (groups, 2, LISTED) keys, rows
    device const long* out [[buffer(10)]],       // (S) picks
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
    threadgroup atomic_uint listed;

    const uint slot = uint(shape[BASE]) + group;
    const Cloud cloud = make_cloud(shape, ptr, out_ptr, cloud_of_slot(shape, ptr, slot));
    const uint groups = (cloud.size + (1u << uint(shape[GROUP])) - 1) >> uint(shape[GROUP]);
    const uint part_number = slot - first_slot(shape, cloud);
    const bool first = shape[FIRST] != 0;
    if (cloud.size <= 1u << uint(shape[ALONE]) || cloud.picks == 0 || part_number >= groups) return;
    const uint dim = uint(shape[DIMENSION]);

    // picks of the last round, and a bound on all keys after them
    uint applied = 0;
    uint made = 1;
    int high = int(INFINITE);
    if (!first) {
        device const uint* state = states + ulong(cloud.number) * 4;
        applied = state[0];
        made = state[1];
        high = int(state[2]);
        if (made >= cloud.picks) return;
    }

    clear_bins(bins, thread_number, threads);
    if (thread_number == 0) atomic_store_explicit(&listed, 0u, memory_order_relaxed);
    const uint chunk = simdgroup * groups + part_number;
    Part part;
    load_chunk(
        part, cloud, chunk, points, leaves, nearest,
        boxes + (ulong(first_slot(shape, cloud)) * simdgroups + chunk) * 2, shape, first, lane);
    do {
        uint count;
        if (first) count = stage_start(staged, cloud, points, start, shape, dim, thread_number);
        else count = stage(staged, cloud, points, out, dim, applied, made, thread_number, threads);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        meet_picks(part, points, dim, staged, count, lane);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        applied += count;
    } while (!first && applied < made);
    store_chunk(part, cloud, chunk, nearest, shape, lane);

    Search search;
    search.pass = 0;
    search.rank_bits = rank_bits(cloud);
    begin_search(search, high, -1, 0);
    do {
        const bool ranked = asks_ranks(search);
        for (uint e = 0; e < EACH; ++e)
            tally(search, bins, part.key[e], ranked ? rank_of(part.row[e], cloud) : 0);
        settle(search, bins, lane);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    } while (narrow(search, bins, LISTED, LISTED / 2, thread_number, threads, lane));

    device int* keys = lists + ulong(slot) * 2 * LISTED;
    device int* rows = keys + LISTED;
    for (uint e = 0; e < EACH; ++e) {
        int key = part.key[e];
        if (!beats(key, key == search.key ? rank_of(part.row[e], cloud) : 0, search.key, search.rank)) continue;
        uint place = atomic_fetch_add_explicit(&listed, 1u, memory_order_relaxed);
        keys[place] = key;
        rows[place] = int(part.row[e]);
    }
    for (uint place = search.found + thread_number; place < LISTED; place += threads) keys[place] = -1;
    if (thread_number == 0) {
        thresholds[ulong(slot) * 2] = search.key;
        thresholds[ulong(slot) * 2 + 1] = int(search.rank);
    }
}
