// Ragged searches: which rows of the reference set a query looks at, how many of these take part, and
// whether the clouds were told in order.
//
// tally: how many points of the reference set take part, before each in its part and in each part.
// ranges: the rest, from the ends of clouds that are found by halving. Few points are counted there, by
// every threadgroup.

#define EQUAL 0   // no clouds
#define BATCH 1   // numbers of clouds, a row each; none: all in cloud 0
#define POINTER 2 // where clouds begin

#define FEW (32 * PART_THREADS)  // points at most that are counted by every threadgroup

[[max_total_threads_per_threadgroup(PART_THREADS)]]
kernel void tally(
    device const float* x [[buffer(0)]],      // (N, dim)
    device int* before [[buffer(1)]],         // (N)
    device int* tallies [[buffer(2)]],        // a part each
    constant long* shape [[buffer(3)]],       // N, dim, span
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint space[PART_THREADS / 32];
    const uint dim = uint(shape[1]);
    const uint begin = group * uint(shape[2]);
    const uint end = min(uint(shape[0]), begin + uint(shape[2]));
    uint count = 0;
    for (uint tile = begin; tile < end; tile += PART_THREADS) {
        const uint i = tile + t;
        const bool counts = i < end && takes_part(x + ulong(i) * dim, dim);
        uint here;
        const uint earlier = sum_before(counts ? 1 : 0, here, space, lane, simdgroup);
        if (i < end) before[i] = int(count + earlier);
        count += here;
    }
    if (t == 0) tallies[group] = int(count);
}

[[max_total_threads_per_threadgroup(PART_THREADS)]]
kernel void ranges(
    device const float* y [[buffer(0)]],        // (M, dim)
    device const long* clouds_x [[buffer(1)]],  // numbers or beginnings of clouds
    device const long* clouds_y [[buffer(2)]],
    device const int* before [[buffer(3)]],     // (N)
    device const int* tallies [[buffer(4)]],    // a part each
    device long* first [[buffer(5)]],           // (M)
    device long* last [[buffer(6)]],            // (M)
    device int* counts [[buffer(7)]],           // (M)
    device long* facts [[buffer(8)]],           // (parts, PART_NUMBERS) and the ends of both lists
    device const float* x [[buffer(9)]],        // (N, dim), if few
    constant long* shape [[buffer(10)]],        // dim, form, N, M, lengths of both lists, span of
                                                // this pass, of the tallies and their number, k or -1
    uint group [[threadgroup_position_in_grid]],
    uint groups [[threadgroups_per_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup long sums[PART_THREADS];
    threadgroup long mosts[PART_THREADS];
    threadgroup uint flags[PART_THREADS];
    threadgroup uint parts[PART_THREADS + 1];  // points that take part, before each part
    threadgroup uint words[PART_THREADS];      // a bit a point, if few
    threadgroup uint space[PART_THREADS / 32];
    const uint dim = uint(shape[0]), form = uint(shape[1]);
    const uint size = uint(shape[2]), rows = uint(shape[3]);
    const uint length_x = uint(shape[4]), length_y = uint(shape[5]);
    const uint span = uint(shape[6]);
    const uint tally_span = uint(shape[7]), tally_parts = uint(shape[8]);
    const bool counted = shape[9] >= 0;
    const bool few = size <= FEW;
    if (counted && few) {
        words[t] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint word = simdgroup; word * 32 < size; word += PART_THREADS / 32) {
            const uint i = word * 32 + lane;
            const bool counts_too = i < size && takes_part(x + ulong(i) * dim, dim);
            const uint bits = uint(ulong(simd_vote::vote_t(simd_ballot(counts_too))));
            if (lane == 0) words[word] = bits;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint all;
        parts[t] = sum_before(popcount(words[t]), all, space, lane, simdgroup);
        if (t == 0) parts[PART_THREADS] = all;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    } else if (counted) {
        if (t == 0) {
            uint sum = 0;
            for (uint p = 0; p < tally_parts; ++p) {
                parts[p] = sum;
                sum += uint(tallies[p]);
            }
            parts[PART_THREADS] = sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    Summary mine = {0, 0, 0};
    long taking_part = 0;
    const uint begin = group * span;
    for (uint i = begin + t; i < begin + span; i += PART_THREADS) {
        if (i < length_x && descends(clouds_x, i)) mine.flags |= 1;
        if (i < length_y && descends(clouds_y, i)) mine.flags |= 2;
        if (i >= rows) continue;
        uint low = 0, high = size;
        if (form == BATCH) {
            const long cloud = length_y > 0 ? clouds_y[i] : 0;
            if (length_x > 0) {
                low = place_of(clouds_x, size, cloud, false);
                high = place_of(clouds_x, size, cloud, true);
            } else {
                low = cloud > 0 ? size : 0;
                high = cloud < 0 ? 0 : size;
            }
        } else if (form == POINTER) {
            const uint past = place_of(clouds_y, length_y, long(i), true);
            const uint cloud = min(max(past, 1u) - 1, length_x - 2);
            low = uint(clamp(clouds_x[cloud], 0L, long(size)));
            high = max(low, uint(clamp(clouds_x[cloud + 1], 0L, long(size))));
        }
        if (form != EQUAL) {
            first[i] = long(low);
            last[i] = long(high);
        }
        if (!counted) continue;
        long count = 0;
        if (takes_part(y + ulong(i) * dim, dim)) {
            uint up_to[2] = {low, high};
            for (uint j = 0; j < 2; ++j) {
                const uint row = up_to[j];
                if (row >= size) up_to[j] = parts[PART_THREADS];
                else if (few) up_to[j] = parts[row / 32] + popcount(words[row / 32] & ((1u << (row % 32)) - 1));
                else up_to[j] = parts[row / tally_span] + uint(before[row]);
            }
            count = min(long(up_to[1] - up_to[0]), shape[9]);
        }
        counts[i] = int(count);
        mine.sum += count;
        mine.most = max(mine.most, count);
        taking_part += count > 0 ? 1 : 0;
    }
    summarise(mine, sums, mosts, flags, t);
    Summary other = {taking_part, 0, 0};
    summarise(other, sums, mosts, flags, t);
    if (t == 0) {
        device long* row = facts + group * PART_NUMBERS;
        row[0] = mine.sum;
        row[1] = mine.most;
        row[2] = long(mine.flags);
        row[3] = other.sum;
        if (group == 0) {
            device long* ends = facts + groups * PART_NUMBERS;
            ends[0] = length_x > 0 ? clouds_x[0] : 0;
            ends[1] = length_x > 0 ? clouds_x[length_x - 1] : 0;
            ends[2] = length_y > 0 ? clouds_y[0] : 0;
            ends[3] = length_y > 0 ? clouds_y[length_y - 1] : 0;
        }
    }
}
