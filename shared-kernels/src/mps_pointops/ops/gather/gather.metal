// gather: features at indices. scatter: for every target the sum of what points to it.
//
// gather copies words (WORD bytes each), so it serves every dtype of that size; an index out of range
// gives the word `missing`. scatter walks the inverse index in ascending order of position, one
// thread a sum: the same bits on every run, whatever points where.
//
// WORD: 2 or 4. INDEX: bytes of an index, 4 or 8. WEIGHTED: positions come in threes, each with a
// weight, and share one value.

#if WORD == 2
#define word ushort
#else
#define word uint
#endif
#if INDEX == 8
#define index_t long
#else
#define index_t int
#endif

kernel void gather(
    device const word* features [[buffer(0)]],   // (B, C, N)
    device const index_t* index [[buffer(1)]],   // (B, M)
    device word* out [[buffer(2)]],              // (B, C, M)
    constant long* shape [[buffer(3)]],          // C, N, M, missing, first, end
    uint thread_number [[thread_position_in_grid]])
{
    const uint channels = uint(shape[0]);
    const uint size = uint(shape[1]);
    const uint count = uint(shape[2]);
    const ulong i = ulong(shape[4]) + thread_number;
    if (i >= ulong(shape[5])) return;
    const uint m = uint(i % count);
    const ulong row = i / count;  // cloud * channels + channel
    const ulong cloud = row / channels;
    index_t target = index[cloud * count + m];
    bool inside = target >= 0 && target < index_t(size);
    out[i] = inside ? features[row * size + ulong(target)] : word(shape[3]);
}

kernel void scatter(
    device const float* values [[buffer(0)]],   // (B, C, M), or (B, C, M / 3)
    device const int* order [[buffer(1)]],      // (B * M) positions by target
    device const long* first [[buffer(2)]],     // (B * N + 1) where those of a target begin
    device const float* weight [[buffer(3)]],   // (B, M) if WEIGHTED
    device float* out [[buffer(4)]],            // (B, C, N)
    constant long* shape [[buffer(5)]],         // C, N, M, first, end
    uint thread_number [[thread_position_in_grid]])
{
    const uint channels = uint(shape[0]);
    const uint size = uint(shape[1]);
    const uint count = uint(shape[2]);
    const ulong i = ulong(shape[3]) + thread_number;
    if (i >= ulong(shape[4])) return;
    const uint n = uint(i % size);
    const ulong row = i / size;
    const ulong cloud = row / channels;
    const ulong target = cloud * size + n;
    float sum = 0.0f;
    for (long j = first[target]; j < first[target + 1]; ++j) {
        uint position = uint(order[j]);
        uint m = position - uint(cloud * count);
#if WEIGHTED
        float part = values[row * (count / 3) + m / 3] * weight[position];
#else
        float part = values[row * count + m];
#endif
        sum = sum + part;
    }
    out[i] = sum;
}
