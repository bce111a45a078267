// Features of three neighbours, weighted: out = fma(p3, w3, fma(p1, w1, p2 * w2)); an index out of range
// gives NaN. Indices and weights are read once for several channels.
//
// interpolate reads features where they are. interpolate_held first brings rows of features to
// threadgroup memory, where rows fit and are read often enough.
//
// INDEX: bytes of an index, 4 or 8. HELD: KiB of threadgroup memory.

#define HELD_FLOATS (HELD * 256)
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

struct Neighbours {
    uint target[3];
    float weight[3];
};

static inline Neighbours neighbours_at(
    device const index_t* index, device const float* weight, ulong point, uint size)
{
    Neighbours found;
    for (uint j = 0; j < 3; ++j) {
        found.target[j] = target_of(index[point * 3 + j], size);
        found.weight[j] = weight[point * 3 + j];
    }
    return found;
}

template <typename Row>
static inline float mixed(Row row, thread const Neighbours& from) {
    float part[3];
    for (uint j = 0; j < 3; ++j)
        part[j] = from.target[j] == NOTHING ? as_type<float>(0x7fc00000u) : row[from.target[j]];
    const float second = part[1] * from.weight[1];
    return fma(part[2], from.weight[2], fma(part[0], from.weight[0], second));
}

// Several reads are on their way at a time.
static inline void bring(threadgroup float* held, device const float* from, uint count, uint t, uint threads) {
    for (uint i = t; i < count; i += AT_ONCE * threads) {
        float part[AT_ONCE];
        for (uint k = 0; k < AT_ONCE; ++k) part[k] = i + k * threads < count ? from[i + k * threads] : 0.0f;
        for (uint k = 0; k < AT_ONCE; ++k)
            if (i + k * threads < count) held[i + k * threads] = part[k];
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void interpolate(
    device const float* features [[buffer(0)]],  // (B, C, m)
    device const index_t* index [[buffer(1)]],   // (B, n, 3)
    device const float* weight [[buffer(2)]],    // (B, n, 3)
    device float* out [[buffer(3)]],             // (B, C, n)
    constant long* shape [[buffer(4)]],          // C, m, n, channels a group, first group
    uint group_number [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    const uint channels = uint(shape[0]), size = uint(shape[1]), count = uint(shape[2]);
    const uint span = uint(shape[3]);
    const uint tiles = (count + threads - 1) / threads, parts = (channels + span - 1) / span;
    const uint group = group_number + uint(shape[4]);
    const uint tile = group % tiles, rest = group / tiles;
    const uint cloud = rest / parts, begin = rest % parts * span, end = min(channels, begin + span);
    const uint n = tile * threads + t;
    if (n >= count) return;
    const Neighbours from = neighbours_at(index, weight, ulong(cloud) * count + n, size);
    ulong row = ulong(cloud) * channels + begin;
    for (uint c = begin; c < end; ++c, ++row) out[row * count + n] = mixed(features + row * size, from);
}

[[max_total_threads_per_threadgroup(HELD_THREADS)]]
kernel void interpolate_held(
    device const float* features [[buffer(0)]],  // (B, C, m)
    device const index_t* index [[buffer(1)]],   // (B, n, 3)
    device const float* weight [[buffer(2)]],    // (B, n, 3)
    device float* out [[buffer(3)]],             // (B, C, n)
    constant long* shape [[buffer(4)]],          // C, m, n, channels a group, results a group and
                                                 // channel, first group
    uint group_number [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]])
{
    threadgroup float held[HELD_FLOATS];
    const uint channels = uint(shape[0]), size = uint(shape[1]), count = uint(shape[2]);
    const uint span = uint(shape[3]), results = uint(shape[4]);
    const uint parts = (count + results - 1) / results, blocks = (channels + span - 1) / span;
    const uint group = group_number + uint(shape[5]);
    const uint part = group % parts, rest = group / parts;
    const uint cloud = rest / blocks, channel = rest % blocks * span, rows = min(span, channels - channel);
    const ulong row = ulong(cloud) * channels + channel;
    bring(held, features + row * size, rows * size, t, threads);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint begin = part * results, end = min(count, begin + results);
    const ulong base = ulong(cloud) * count;
    uint n = begin + t;
    for (; n < end && n + threads < end; n += 2 * threads) {
        const Neighbours from = neighbours_at(index, weight, base + n, size);
        const Neighbours second = neighbours_at(index, weight, base + n + threads, size);
        device float* to = out + row * count + n;
        for (uint r = 0; r < rows; ++r, to += count) {
            to[0] = mixed((threadgroup float*)held + r * size, from);
            to[threads] = mixed((threadgroup float*)held + r * size, second);
        }
    }
    if (n < end) {
        const Neighbours from = neighbours_at(index, weight, base + n, size);
        device float* to = out + row * count + n;
        for (uint r = 0; r < rows; ++r, to += count) *to = mixed((threadgroup float*)held + r * size, from);
    }
}
