// Farthest point sampling of ragged clouds: how many points every cloud has and gives, then, when the
// host knows the number of clouds, where they and their picks begin.
//
// Items are rows, of which those that begin a cloud count, or clouds.

#define ROWS 0     // clouds that have points, by the rows of a batch vector
#define NUMBERED 1 // clouds 0 up to their number, by a batch vector
#define POINTER 2  // clouds by where they begin
#define ONE 3      // one cloud of all rows

// Cloud of item i, if it has one: its first row and its size.
static inline bool cloud_at(
    device const long* list, uint i, uint form, uint rows, thread uint& begin, thread uint& size)
{
    if (form == ROWS) {
        begin = i;
        if (i > 0 && list[i] == list[i - 1]) return false;
        size = place_of(list + i, rows - i, list[i], true);
        return true;
    }
    if (form == NUMBERED) {
        begin = place_of(list, rows, long(i), false);
        size = place_of(list, rows, long(i), true) - begin;
        return true;
    }
    if (form == ONE) {
        begin = 0;
        size = rows;
        return true;
    }
    const uint end = uint(clamp(list[i + 1], 0L, long(rows)));
    begin = min(uint(clamp(list[i], 0L, long(rows))), end);
    size = end - begin;
    return true;
}

// ceil(size * ratio), both in float32, from 0 to 2**31. As bits: infinity is not for fast math, and a
// small ratio is not to be lost as a subnormal number.
static inline long picks_of(uint size, float ratio) {
    const uint bits = as_type<uint>(ratio);
    if (size == 0 || bits == 0 || (bits & 0x80000000u) != 0) return 0;
    if (bits < 0x20000000u) return 1;
    const float product = ceil(float(size) * ratio);
    return as_type<uint>(product) >= 0x4f000000u ? 0x80000000L : long(product);
}

static inline bool is_ratio(float ratio) {
    const uint bits = as_type<uint>(ratio);
    return bits < 0x7f800000u || bits == 0x80000000u;
}

[[max_total_threads_per_threadgroup(PART_THREADS)]]
kernel void count_picks(
    device const long* list [[buffer(0)]],      // (N) numbers, or (B + 1) beginnings of clouds
    device const float* ratios [[buffer(1)]],   // (B) or (1), or none
    device long* facts [[buffer(2)]],           // (parts, 2 * PART_NUMBERS)
    constant float& ratio [[buffer(3)]],        // of every cloud, if there are none
    constant long* shape [[buffer(4)]],         // items, N, length of the list, span, form, ratios
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]])
{
    threadgroup long sums[PART_THREADS];
    threadgroup long mosts[PART_THREADS];
    threadgroup uint flags[PART_THREADS];
    const uint items = uint(shape[0]), rows = uint(shape[1]), length = uint(shape[2]);
    const uint span = uint(shape[3]), form = uint(shape[4]), ratio_count = uint(shape[5]);
    Summary picks = {0, 0, 0}, sizes = {0, 0, 0};
    const uint start = group * span;
    for (uint i = start + t; i < start + span; i += PART_THREADS) {
        if (i < length && descends(list, i)) picks.flags |= 1;
        if (i < ratio_count && !is_ratio(ratios[i])) picks.flags |= 2;
        uint begin, size;
        if (i < items && cloud_at(list, i, form, rows, begin, size)) {
            const long count = picks_of(size, ratio_count == 0 ? ratio : ratios[ratio_count > 1 ? i : 0]);
            picks.sum += count;
            picks.most = max(picks.most, count);
            sizes.sum += 1;
            sizes.most = max(sizes.most, long(size));
        }
    }
    summarise(picks, sums, mosts, flags, t);
    summarise(sizes, sums, mosts, flags, t);
    if (t == 0) {
        device long* row = facts + group * 2 * PART_NUMBERS;
        row[0] = picks.sum;
        row[1] = picks.most;
        row[2] = long(picks.flags);
        row[3] = sizes.sum;
        row[4] = sizes.most;
        row[5] = group == 0 && length > 0 ? list[0] : 0;
        row[6] = group == 0 && length > 0 ? list[length - 1] : 0;
        row[7] = 0;
    }
}

[[max_total_threads_per_threadgroup(PART_THREADS)]]
kernel void plan_picks(
    device const long* list [[buffer(0)]],
    device const float* ratios [[buffer(1)]],
    device const float* drawn [[buffer(2)]],       // (B) numbers from 0 to 1, if starts are drawn
    device long* ptr [[buffer(3)]],                // (B + 1)
    device long* out_ptr [[buffer(4)]],            // (B + 1)
    device long* starts [[buffer(5)]],             // (B) first picks, counted in the cloud
    constant long* cloud_begins [[buffer(6)]],     // clouds before each part
    constant long* pick_begins [[buffer(7)]],      // picks before each part
    constant float& ratio [[buffer(8)]],           // of every cloud, if there are no ratios
    constant long* shape [[buffer(9)]],            // items, N, B, picks, span, form, ratios, drawn
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint space[PART_THREADS / 32];
    const uint items = uint(shape[0]), rows = uint(shape[1]);
    const uint span = uint(shape[4]), form = uint(shape[5]), ratio_count = uint(shape[6]);
    const uint start = group * span;
    ulong cloud = ulong(cloud_begins[group]), pick = ulong(pick_begins[group]);
    for (uint tile = start; tile < min(items, start + span); tile += PART_THREADS) {
        const uint i = tile + t;
        uint begin = 0, size = 0, clouds_here, picks_here;
        const bool there = i < min(items, start + span) && cloud_at(list, i, form, rows, begin, size);
        const uint count = there ? uint(picks_of(size, ratio_count == 0 ? ratio : ratios[ratio_count > 1 ? i : 0])) : 0;
        const uint clouds_before = sum_before(there ? 1 : 0, clouds_here, space, lane, simdgroup);
        const uint picks_before = sum_before(count, picks_here, space, lane, simdgroup);
        if (there) {
            const ulong number = cloud + clouds_before;
            ptr[number] = long(begin);
            out_ptr[number] = long(pick + picks_before);
            uint chosen = 0;
            if (shape[7] != 0 && size > 0) chosen = min(uint(drawn[number] * float(size)), size - 1);
            starts[number] = long(chosen);
        }
        cloud += clouds_here;
        pick += picks_here;
    }
    if (group == 0 && t == 0) {
        ptr[shape[2]] = shape[1];
        out_ptr[shape[2]] = shape[3];
    }
}
