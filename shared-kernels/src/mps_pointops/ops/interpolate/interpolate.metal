// Features of three neighbours, weighted: one thread a result.
// out = fma(p3, w3, fma(p1, w1, p2 * w2)); an index out of range gives NaN.
//
// INDEX: bytes of an index, 4 or 8.

#if INDEX == 8
#define index_t long
#else
#define index_t int
#endif

static inline float feature_at(device const float* row, index_t i, uint size) {
    return i >= 0 && i < index_t(size) ? row[i] : as_type<float>(0x7fc00000u);
}

kernel void interpolate(
    device const float* features [[buffer(0)]],  // (B, C, m)
    device const index_t* index [[buffer(1)]],   // (B, n, 3)
    device const float* weight [[buffer(2)]],    // (B, n, 3)
    device float* out [[buffer(3)]],             // (B, C, n)
    constant long* shape [[buffer(4)]],          // C, m, n, first, end
    uint thread_number [[thread_position_in_grid]])
{
    const uint channels = uint(shape[0]);
    const uint size = uint(shape[1]);
    const uint count = uint(shape[2]);
    const ulong i = ulong(shape[3]) + thread_number;
    if (i >= ulong(shape[4])) return;
    const uint n = uint(i % count);
    const ulong row = i / count;
    const ulong cloud = row / channels;
    device const float* from = features + row * size;
    device const index_t* which = index + (cloud * count + n) * 3;
    device const float* w = weight + (cloud * count + n) * 3;
    float second = feature_at(from, which[1], size) * w[1];
    float both = fma(feature_at(from, which[0], size), w[0], second);
    out[i] = fma(feature_at(from, which[2], size), w[2], both);
}
