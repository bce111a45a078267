// Features at indices. An index is read once for several channels, and consecutive threads write
// consecutive results. Copies words, so it serves every dtype of that size; an index out of range gives
// the word `missing`.
//
// gather reads features where they are. gather_held first brings rows of features to threadgroup
// memory: reads in no order are quick there, where rows fit and are read often enough.
//
// WORD: bytes of a feature, 2 or 4. INDEX: bytes of an index, 4 or 8. HELD: KiB of threadgroup memory.

#if WORD == 2
#define word ushort
#else
#define word uint
#endif
#define HELD_WORDS (HELD * 1024 / WORD)
#if HELD == 16
#define HELD_THREADS 512
#else
#define HELD_THREADS 1024
#endif
#define AT_ONCE 4

// A target, or NOTHING if it is out of range; the upper half of a long tells that too.
#if INDEX == 8
#define index_t uint2
static inline uint target_of(index_t index, uint size) {
    return index.y == 0 && index.x < size ? index.x : NOTHING;
}
#else
#define index_t uint
static inline uint target_of(index_t index, uint size) { return index < size ? index : NOTHING; }
#endif

// Several reads are on their way at a time.
static inline void bring(threadgroup word* held, device const word* from, uint count, uint t, uint threads) {
    for (uint i = t; i < count; i += AT_ONCE * threads) {
        word part[AT_ONCE];
        for (uint k = 0; k < AT_ONCE; ++k) part[k] = i + k * threads < count ? from[i + k * threads] : word(0);
        for (uint k = 0; k < AT_ONCE; ++k)
            if (i + k * threads < count) held[i + k * threads] = part[k];
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void gather(
    device const word* features [[buffer(0)]],   // (B, C, N)
    device const index_t* index [[buffer(1)]],   // (B, M)
    device word* out [[buffer(2)]],              // (B, C, M)
    constant long* shape [[buffer(3)]],          // C, N, M, missing, channels a group, first group
    uint group_number [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    const uint channels = uint(shape[0]), size = uint(shape[1]), count = uint(shape[2]);
    const uint span = uint(shape[4]);
    const uint tiles = (count + threads - 1) / threads, parts = (channels + span - 1) / span;
    const uint group = group_number + uint(shape[5]);
    const uint tile = group % tiles, rest = group / tiles;
    const uint cloud = rest / parts, begin = rest % parts * span, end = min(channels, begin + span);
    const uint m = tile * threads + t;
    if (m >= count) return;
    const uint target = target_of(index[ulong(cloud) * count + m], size);
    const ulong row = ulong(cloud) * channels + begin;
    device word* to = out + row * count + m;
    device const word* from = features + row * size + (target == NOTHING ? 0 : target);
    uint c = begin;
    for (; c + AT_ONCE <= end; c += AT_ONCE) {
        word held[AT_ONCE];
        for (uint i = 0; i < AT_ONCE; ++i) held[i] = from[ulong(i) * size];
        for (uint i = 0; i < AT_ONCE; ++i)
            to[ulong(i) * count] = target == NOTHING ? word(shape[3]) : held[i];
        from += ulong(AT_ONCE) * size;
        to += ulong(AT_ONCE) * count;
    }
    for (; c < end; ++c) {
        to[0] = target == NOTHING ? word(shape[3]) : from[0];
        from += size;
        to += count;
    }
}

[[max_total_threads_per_threadgroup(HELD_THREADS)]]
kernel void gather_held(
    device const word* features [[buffer(0)]],   // (B, C, N)
    device const index_t* index [[buffer(1)]],   // (B, M)
    device word* out [[buffer(2)]],              // (B, C, M)
    constant long* shape [[buffer(3)]],          // C, N, M, missing, channels a group, results a group
                                                 // and channel, first group
    uint group_number [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup word held[HELD_WORDS];
    const uint channels = uint(shape[0]), size = uint(shape[1]), count = uint(shape[2]);
    const word missing = word(shape[3]);
    const uint span = uint(shape[4]), results = uint(shape[5]);
    const uint parts = (count + results - 1) / results, blocks = (channels + span - 1) / span;
    const uint group = group_number + uint(shape[6]);
    const uint part = group % parts, rest = group / parts;
    const uint cloud = rest / blocks, channel = rest % blocks * span, rows = min(span, channels - channel);
    const ulong row = ulong(cloud) * channels + channel;
    bring(held, features + row * size, rows * size, t, threads);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint begin = part * results, end = min(count, begin + results);
    device const index_t* from = index + ulong(cloud) * count;
    for (uint m = begin + t; m < end; m += AT_ONCE * threads) {
        uint target[AT_ONCE];
        for (uint i = 0; i < AT_ONCE; ++i) {
            const uint at = m + i * threads;
            target[i] = at < end ? target_of(from[at], size) : NOTHING;
        }
        device word* to = out + row * count + m;
        for (uint r = 0; r < rows; ++r, to += count)
            for (uint i = 0; i < AT_ONCE; ++i)
                if (m + i * threads < end)
                    to[i * threads] = target[i] == NOTHING ? missing : held[r * size + target[i]];
    }
}
