// Stable radix sort of (key, value) pairs by one digit of 8 bits, in two dispatches around a scan.
//
// A simdgroup owns TILE consecutive pairs. count_digits: how many pairs of each digit its tile holds.
// Between the dispatches the counts, digit by digit and tile by tile, become the places where each
// tile writes each digit. move_pairs: the simdgroup walks its tile 32 pairs at a time; a pair's place is
// the next free one of its digit plus the number of equal digits in lower lanes. Nothing depends on
// timing, so the order is that of the input.

#define SIMDGROUPS 8
#define TILE 1024
#define DIGITS 256

[[max_total_threads_per_threadgroup(256)]]
kernel void count_digits(
    device const uint* keys [[buffer(0)]],   // (n)
    device uint* table [[buffer(1)]],        // (DIGITS, tiles)
    constant long* shape [[buffer(2)]],      // n, tiles, shift
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup atomic_uint counts[SIMDGROUPS * DIGITS];
    threadgroup atomic_uint* mine = counts + simdgroup * DIGITS;
    const uint n = uint(shape[0]);
    const uint tiles = uint(shape[1]);
    const uint shift = uint(shape[2]);
    const uint tile = group * SIMDGROUPS + simdgroup;
    if (tile >= tiles) return;

    for (uint d = lane; d < DIGITS; d += 32) atomic_store_explicit(&mine[d], 0u, memory_order_relaxed);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint end = min(n, (tile + 1) * TILE);
    for (uint i = tile * TILE + lane; i < end; i += 32)
        atomic_fetch_add_explicit(&mine[(keys[i] >> shift) & (DIGITS - 1)], 1u, memory_order_relaxed);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = lane; d < DIGITS; d += 32)
        table[d * tiles + tile] = atomic_load_explicit(&mine[d], memory_order_relaxed);
}

// Lanes whose pair is there and has the same digit.
static inline uint lanes_alike(uint digit, bool there) {
    uint alike = uint(ulong(simd_vote::vote_t(simd_ballot(there))));
    for (uint bit = 0; bit < 8; ++bit) {
        bool set = (digit >> bit) & 1;
        uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(set))));
        alike &= set ? votes : ~votes;
    }
    return alike;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void move_pairs(
    device const uint* keys [[buffer(0)]],      // (n)
    device const uint* values [[buffer(1)]],    // (n)
    device const uint* places [[buffer(2)]],    // (DIGITS, tiles) first place of a digit of a tile
    device uint* out_keys [[buffer(3)]],        // (n)
    device uint* out_values [[buffer(4)]],      // (n)
    constant long* shape [[buffer(5)]],         // n, tiles, shift
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint free_places[SIMDGROUPS * DIGITS];
    threadgroup uint* mine = free_places + simdgroup * DIGITS;
    const uint n = uint(shape[0]);
    const uint tiles = uint(shape[1]);
    const uint shift = uint(shape[2]);
    const uint tile = group * SIMDGROUPS + simdgroup;
    if (tile >= tiles) return;

    for (uint d = lane; d < DIGITS; d += 32) mine[d] = places[d * tiles + tile];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint end = min(n, (tile + 1) * TILE);
    for (uint base = tile * TILE; base < end; base += 32) {
        uint i = base + lane;
        bool there = i < end;
        uint key = there ? keys[i] : 0;
        uint digit = (key >> shift) & (DIGITS - 1);
        uint alike = lanes_alike(digit, there);
        uint before = popcount(alike & ((1u << lane) - 1u));
        uint place = there ? mine[digit] + before : 0;
        if (there) {
            out_keys[place] = key;
            out_values[place] = values[i];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (there && before == 0) mine[digit] = place + popcount(alike);
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
}
