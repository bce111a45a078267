// Integers of 64 bits: extremes of columns, quotients.

#define EXTREMES_THREADS 256

#if WIDE
typedef long Number;
#else
typedef int Number;
#endif

// A threadgroup looks at one column of some rows. What it leaves is two rows of such numbers, so a
// second dispatch makes one part of all.
[[max_total_threads_per_threadgroup(EXTREMES_THREADS)]]
kernel void extremes(
    device const Number* numbers [[buffer(0)]],  // (N, dim)
    device long* found [[buffer(1)]],            // (parts, 2, dim): smallest, largest
    constant long* shape [[buffer(2)]],          // N, dim, rows of a part, whether 0 counts too
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]])
{
    threadgroup long lows[EXTREMES_THREADS];
    threadgroup long highs[EXTREMES_THREADS];
    const ulong dim = ulong(shape[1]), part = group / dim, column = group % dim;
    const ulong begin = part * ulong(shape[2]);
    const ulong end = min(ulong(shape[0]), begin + ulong(shape[2]));
    // a part has a row
    long low = shape[3] ? 0 : long(numbers[begin * dim + column]);
    long high = low;
    for (ulong i = begin + t; i < end; i += EXTREMES_THREADS) {
        const long number = long(numbers[i * dim + column]);
        low = min(low, number);
        high = max(high, number);
    }
    lows[t] = low;
    highs[t] = high;
    for (uint half_of = EXTREMES_THREADS / 2; half_of > 0; half_of >>= 1) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < half_of) {
            lows[t] = min(lows[t], lows[t + half_of]);
            highs[t] = max(highs[t], highs[t + half_of]);
        }
    }
    if (t == 0) {
        found[(2 * part) * dim + column] = lows[0];
        found[(2 * part + 1) * dim + column] = highs[0];
    }
}

kernel void floor_quotients(
    device const long* numbers [[buffer(0)]],   // (N)
    device const long* divisors [[buffer(1)]],  // (N), from 1
    device long* found [[buffer(2)]],           // (N)
    constant long* shape [[buffer(3)]],         // N
    uint i [[thread_position_in_grid]])
{
    if (long(i) >= shape[0]) return;
    const long number = numbers[i];
    // of what is not negative, which division rounds down
    const long quotient = (number < 0 ? ~number : number) / divisors[i];
    found[i] = number < 0 ? ~quotient : quotient;
}
