// Stable radix sort of (key, value) pairs by one digit of 10 bits, in two or three dispatches.
//
// A threadgroup owns a tile of consecutive pairs, each of its simdgroups a part of the tile.
// count_digits: how many pairs of each digit a tile holds. place_tiles: how many of each digit come
// before the tile; where tiles are few move_pairs adds them up itself. move_pairs: a simdgroup goes
// through its part 32 pairs at a time; the rank of a pair among those of its digit is the number met
// before plus the number of equal digits in lower lanes. Nothing depends on timing, so the order is
// that of the input.
//
// STEPS: times 32 pairs of a simdgroup.

#define SIMDGROUPS 8
#define PART (STEPS * 32)
#define TILE (SIMDGROUPS * PART)
#define DIGIT_BITS 10
#define DIGITS 1024

// Pairs are keys alone (stride 1: the value is the position) or key and value (stride 2).
[[max_total_threads_per_threadgroup(256)]]
kernel void count_digits(
    device const uint* pairs [[buffer(0)]],   // (n, stride)
    device uint* table [[buffer(1)]],         // (tiles, DIGITS)
    constant long* shape [[buffer(2)]],       // n, stride, shift, bits of the digit
    uint tile [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]])
{
    threadgroup atomic_uint counts[DIGITS];
    const uint n = uint(shape[0]);
    const ulong stride = ulong(shape[1]);
    const uint shift = uint(shape[2]);
    const uint mask = (1u << uint(shape[3])) - 1u;
    for (uint d = thread_number; d < DIGITS; d += 256)
        atomic_store_explicit(&counts[d], 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint begin = tile * TILE;
    const uint size = min(n - begin, uint(TILE));
    for (uint i = thread_number; i < size; i += 256) {
        uint digit = (pairs[(begin + i) * stride] >> shift) & mask;
        atomic_fetch_add_explicit(&counts[digit], 1u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = thread_number; d < DIGITS; d += 256)
        table[ulong(tile) * DIGITS + d] = atomic_load_explicit(&counts[d], memory_order_relaxed);
}

// Counts become the number of pairs of the digit in earlier tiles; one more row takes the totals.
// A threadgroup has 32 digits, one a lane; a simdgroup a range of tiles.
[[max_total_threads_per_threadgroup(1024)]]
kernel void place_tiles(
    device uint* table [[buffer(0)]],       // (tiles + 1, DIGITS)
    constant long& tile_count [[buffer(1)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint sums[32 * 32];
    const uint tiles = uint(tile_count);
    const uint range = (tiles + 31) / 32;
    const uint begin = min(simdgroup * range, tiles);
    const uint end = min(begin + range, tiles);
    device uint* column = table + group * 32 + lane;
    uint sum = 0;
    for (uint tile = begin; tile < end; ++tile) sum += column[ulong(tile) * DIGITS];
    sums[simdgroup * 32 + lane] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint before = 0;
    for (uint s = 0; s < simdgroup; ++s) before += sums[s * 32 + lane];
    for (uint tile = begin; tile < end; ++tile) {
        uint count = column[ulong(tile) * DIGITS];
        column[ulong(tile) * DIGITS] = before;
        before += count;
    }
    if (simdgroup == 31) column[ulong(tiles) * DIGITS] = before;
}

// Lanes whose pair is there and has the same digit of `bits` bits.
static inline uint lanes_alike(uint digit, uint bits, bool there) {
    uint alike = uint(ulong(simd_vote::vote_t(simd_ballot(there))));
    for (uint bit = 0; bit < bits; ++bit) {
        bool set = ((digit >> bit) & 1) != 0;
        uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(set))));
        alike &= set ? votes : ~votes;
    }
    return alike;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void move_pairs(
    device const uint* pairs [[buffer(0)]],     // (n, stride)
    device const uint4* table [[buffer(1)]],    // (tiles or tiles + 1, DIGITS / 4)
    device uint2* out_pairs [[buffer(2)]],      // (n) unless it is the last digit, else
    device uint* out_keys [[buffer(3)]],        // (n)
    device uint* out_values [[buffer(4)]],      // (n)
    constant long* shape [[buffer(5)]],         // as above, then tiles, placed, last digit
    uint tile [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint n = uint(shape[0]);
    const uint stride = uint(shape[1]);
    const uint shift = uint(shape[2]);
    const uint bits = uint(shape[3]);
    const uint mask = (1u << bits) - 1u;
    const uint tiles = uint(shape[4]);
    const bool placed = shape[5] != 0;  // by place_tiles
    const bool is_last = shape[6] != 0;

    threadgroup uint places[DIGITS];                // where the tile's pairs of a digit begin
    threadgroup ushort met[SIMDGROUPS * DIGITS];    // pairs of a digit, by simdgroup
    threadgroup uint sums[SIMDGROUPS];
    threadgroup ushort* mine = met + simdgroup * DIGITS;
    const uint thread_number = simdgroup * 32 + lane;  // has the digits 4 * thread_number ...

    for (uint d = lane; d < DIGITS; d += 32) mine[d] = 0;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint begin = tile * TILE + simdgroup * PART + lane;
    uint key[STEPS];
    ushort rank[STEPS];
    #pragma unroll
    for (uint step = 0; step < STEPS; ++step) {
        uint i = begin + step * 32;
        key[step] = i < n ? pairs[ulong(i) * stride] : 0;
    }
    #pragma unroll
    for (uint step = 0; step < STEPS; ++step) {
        bool there = begin + step * 32 < n;
        uint digit = (key[step] >> shift) & mask;
        uint alike = lanes_alike(digit, bits, there);
        uint lower = popcount(alike & ((1u << lane) - 1u));
        uint number = there ? mine[digit] + lower : 0;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (there && lower == 0) mine[digit] = ushort(number + popcount(alike));
        simdgroup_barrier(mem_flags::mem_threadgroup);
        rank[step] = ushort(number);
    }

    uint4 before = uint4(0);
    uint4 total = uint4(0);
    if (placed) {
        before = table[ulong(tile) * (DIGITS / 4) + thread_number];
        total = table[ulong(tiles) * (DIGITS / 4) + thread_number];
    } else {
        for (uint t = 0; t < tiles; ++t) {
            uint4 count = table[t * (DIGITS / 4) + thread_number];
            total += count;
            if (t < tile) before += count;
        }
    }
    uint sum = total.x + total.y + total.z + total.w;
    uint smaller = simd_prefix_exclusive_sum(sum);
    if (lane == 31) sums[simdgroup] = smaller + sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint s = 0; s < simdgroup; ++s) smaller += sums[s];
    before += uint4(smaller, smaller + total.x, smaller + total.x + total.y, smaller + sum - total.w);
    for (uint d = 0; d < 4; ++d) {
        uint digit = thread_number * 4 + d;
        places[digit] = d == 0 ? before.x : d == 1 ? before.y : d == 2 ? before.z : before.w;
        uint earlier = 0;
        for (uint s = 0; s < SIMDGROUPS; ++s) {
            uint count = met[s * DIGITS + digit];
            met[s * DIGITS + digit] = ushort(earlier);
            earlier += count;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    #pragma unroll
    for (uint step = 0; step < STEPS; ++step) {
        uint i = begin + step * 32;
        if (i >= n) break;
        uint digit = (key[step] >> shift) & mask;
        uint place = places[digit] + mine[digit] + rank[step];
        uint value = stride == 1 ? i : pairs[ulong(i) * stride + 1];
        if (is_last) {
            out_keys[place] = key[step];
            out_values[place] = value;
        } else {
            out_pairs[place] = uint2(key[step], value);
        }
    }
}
