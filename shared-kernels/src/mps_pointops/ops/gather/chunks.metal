// Positions cut into chunks, each sorted by target: with it sums can be added chunk by chunk, by many
// threads at once, and still in ascending position for every target.
//
// One thread a position. `tasks`: target * 4 + kind, where a position is the only one of its target in
// the chunk, the FIRST of several, a LATER one, or has NONE; then the position's number in the sorted
// chunk, and from bit 16 on how many follow of the same target.
//
// INDEX: bytes of an index, 4 or 8.

#define CHUNK 1024
#define ONLY 0
#define FIRST 1
#define LATER 2
#define NONE 3

#if INDEX == 8
#define index_t uint2
static inline uint target_of(index_t index, uint size) {
    return index.y == 0 && index.x < size ? index.x : NOTHING;
}
#else
#define index_t uint
static inline uint target_of(index_t index, uint size) { return index < size ? index : NOTHING; }
#endif

[[max_total_threads_per_threadgroup(1024)]]
kernel void sort_chunks(
    device const index_t* index [[buffer(0)]],  // (B, M)
    device uint2* tasks [[buffer(1)]],          // (B, chunks, CHUNK)
    constant long* shape [[buffer(2)]],         // M, N, chunks
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint keys[CHUNK];
    threadgroup uint firsts[CHUNK / 32];  // a bit a sorted position
    const uint count = uint(shape[0]), size = uint(shape[1]), chunks = uint(shape[2]);
    const uint cloud = group / chunks, m = group % chunks * CHUNK + t;
    const ulong base = ulong(group) * CHUNK;
    const uint own = m < count ? target_of(index[ulong(cloud) * count + m], size) : NOTHING;
    if (own == NOTHING) tasks[base + t] = uint2(NONE, 0);
    uint key = own == NOTHING ? NOTHING : own * CHUNK + t;
    for (uint length = 2; length <= CHUNK; length <<= 1) {
        for (uint stride = length >> 1; stride > 0; stride >>= 1) {
            uint other;
            if (stride < 32) {
                other = simd_shuffle_xor(key, ushort(stride));
            } else {
                threadgroup_barrier(mem_flags::mem_threadgroup);
                keys[t] = key;
                threadgroup_barrier(mem_flags::mem_threadgroup);
                other = keys[t ^ stride];
            }
            const bool smaller = ((t & stride) == 0) == ((t & length) == 0);
            key = smaller ? min(key, other) : max(key, other);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    keys[t] = key;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    // positions without a target are at the end and count as the first of something
    const bool begins = t == 0 || key == NOTHING || keys[t - 1] / CHUNK != key / CHUNK;
    const uint bits = uint(ulong(simd_vote::vote_t(simd_ballot(begins))));
    if (lane == 0) firsts[simdgroup] = bits;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (key == NOTHING) return;
    uint next = CHUNK;  // where the next target begins
    uint later = lane == 31 ? 0 : bits >> (lane + 1) << (lane + 1);
    for (uint s = simdgroup; s < CHUNK / 32; ++s) {
        if (s > simdgroup) later = firsts[s];
        if (later != 0) {
            next = s * 32 + ctz(later);
            break;
        }
    }
    const uint kind = !begins ? LATER : next > t + 1 ? FIRST : ONLY;
    tasks[base + key % CHUNK] = uint2(key / CHUNK * 4 + kind, t + ((next - t - 1) << 16));
}
