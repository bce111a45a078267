// From padded neighbours to a list of edges: how many there are, then, when the host has made the
// list, the edges themselves.

#define FOUND 0  // slots that hold an index come first in a row
#define GRAPH 1  // likewise, and the row's own number is passed over
#define GIVEN 2  // numbers are given

[[max_total_threads_per_threadgroup(PART_THREADS)]]
kernel void count_edges(
    device const long* index [[buffer(0)]],  // (M, K), or (M) if given
    device int* counts [[buffer(1)]],        // (M)
    device int* own [[buffer(2)]],           // (M) slot of the row's own number, or K
    device long* facts [[buffer(3)]],        // (parts, PART_NUMBERS)
    constant long* shape [[buffer(4)]],      // M, K, span, form
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]])
{
    threadgroup long sums[PART_THREADS];
    threadgroup long mosts[PART_THREADS];
    threadgroup uint flags[PART_THREADS];
    const uint rows = uint(shape[0]), slots = uint(shape[1]), span = uint(shape[2]), form = uint(shape[3]);
    Summary mine = {0, 0, 0};
    const uint begin = group * span, end = min(rows, begin + span);
    for (uint i = begin + t; i < end; i += PART_THREADS) {
        uint count;
        if (form == GIVEN) {
            count = uint(index[i]);
        } else {
            device const long* row = index + ulong(i) * slots;
            uint low = 0;
            for (uint left = slots; left > 0;) {
                const uint step = left >> 1;
                const bool holds = row[low + step] >= 0;
                low = holds ? low + step + 1 : low;
                left = holds ? left - step - 1 : step;
            }
            count = low;
            if (form == GRAPH) {
                uint slot = 0;
                while (slot < count && row[slot] != long(i)) ++slot;
                own[i] = int(slot < count ? slot : slots);
                if (slot < count) --count;
            }
        }
        counts[i] = int(count);
        mine.sum += long(count);
        mine.most = max(mine.most, long(count));
    }
    summarise(mine, sums, mosts, flags, t);
    if (t == 0) {
        device long* row = facts + group * PART_NUMBERS;
        row[0] = mine.sum;
        row[1] = mine.most;
        row[2] = 0;
        row[3] = 0;
    }
}

[[max_total_threads_per_threadgroup(PART_THREADS)]]
kernel void write_edges(
    device const long* index [[buffer(0)]],   // (M, K)
    device const int* counts [[buffer(1)]],   // (M)
    device const int* own [[buffer(2)]],      // (M) if a graph
    device long* out [[buffer(3)]],           // (2, E)
    constant long* begins [[buffer(4)]],      // edges before each part
    constant long* shape [[buffer(5)]],       // M, K, span, form, E, whether neighbours come first
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint space[PART_THREADS / 32];
    threadgroup uint firsts[PART_THREADS];  // edges of the tile before each row
    const uint rows = uint(shape[0]), slots = uint(shape[1]), span = uint(shape[2]);
    const bool graph = shape[3] == GRAPH;
    const ulong total = ulong(shape[4]);
    device long* to_row = out + (shape[5] != 0 ? total : 0);
    device long* to_neighbour = out + (shape[5] != 0 ? 0 : total);
    const uint begin = group * span, end = min(rows, begin + span);
    ulong at = ulong(begins[group]);
    for (uint tile = begin; tile < end; tile += PART_THREADS) {
        const uint i = tile + t;
        uint here;
        firsts[t] = sum_before(i < end ? uint(counts[i]) : 0, here, space, lane, simdgroup);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint e = t; e < here; e += PART_THREADS) {
            // the last row that begins at or before edge e
            uint low = 0;
            for (uint step = PART_THREADS / 2; step > 0; step >>= 1)
                if (firsts[low + step] <= e) low += step;
            const uint row = tile + low;
            uint slot = e - firsts[low];
            if (graph && slot >= uint(own[row])) ++slot;
            to_row[at + e] = long(row);
            to_neighbour[at + e] = index[ulong(row) * slots + slot];
        }
        at += here;
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}
