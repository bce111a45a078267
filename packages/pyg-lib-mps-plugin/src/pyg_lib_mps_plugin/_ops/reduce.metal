// Reduction of segments, one thread a result: values in ascending position, so every result is the
// same bits on every run. Sums and products are those of a loop over the input.
//
// TYPE: 0 float, 1 int, 2 long. OP: 0 sum, 1 product, 2 smallest, 3 largest. ORDERED: positions of a
// segment come through `order`; else they are consecutive.
//
// A dispatch sees `window` positions of every segment and goes on from the results of the one
// before, so that one long segment cannot hold the GPU for long.

#if TYPE == 0
typedef float value_t;
typedef float sum_t;
#elif TYPE == 1
typedef int value_t;
typedef uint sum_t;  // sums wrap
#else
typedef long value_t;
typedef ulong sum_t;
#endif

#if TYPE == 0
// Orders floats as integers, which holds in fast math too; both zeros are equal.
static inline int order_of(float v) {
    int bits = as_type<int>(v);
    if ((bits & 0x7fffffff) == 0) return 0;
    return bits < 0 ? int(0x80000000u) - bits : bits;
}
static inline bool is_number(float v) { return (as_type<uint>(v) & 0x7fffffffu) <= 0x7f800000u; }
#else
static inline value_t order_of(value_t v) { return v; }
static inline bool is_number(value_t) { return true; }
#endif

[[max_total_threads_per_threadgroup(256)]]
kernel void reduce(
    device const value_t* values [[buffer(0)]],  // (positions, K)
    device const int* order [[buffer(1)]],       // (positions) if ORDERED
    device const long* begin [[buffer(2)]],      // (segments)
    device const long* end [[buffer(3)]],        // (segments)
    device value_t* out [[buffer(4)]],           // (segments, K)
    device long* arg [[buffer(5)]],              // (segments, K) if OP >= 2: position, or -1
    constant long* shape [[buffer(6)]],          // K, positions, window begin, window, first, last
    uint thread_number [[thread_position_in_grid]])
{
    const uint channels = uint(shape[0]);
    const long positions = shape[1];
    const ulong i = ulong(shape[4]) + thread_number;
    if (i >= ulong(shape[5])) return;
    const uint k = uint(i % channels);
    const ulong segment = i / channels;
    const long last = min(end[segment], positions);
    const long from = max(begin[segment], 0l) + shape[2];
    const long to = min(last, from + shape[3]);
    const bool fresh = shape[2] == 0;
    if (!fresh && from >= to) return;
#if OP < 2
    sum_t so_far = fresh ? sum_t(OP) : sum_t(out[i]);
    for (long j = from; j < to; ++j) {
        ulong position = ORDERED ? ulong(uint(order[j])) : ulong(j);
        sum_t value = sum_t(values[position * channels + k]);
        so_far = OP == 0 ? so_far + value : so_far * value;
    }
    out[i] = value_t(so_far);
#else
    long best = fresh ? -1 : arg[i];
    value_t so_far = fresh ? value_t(0) : out[i];
    for (long j = from; j < to; ++j) {
        ulong position = ORDERED ? ulong(uint(order[j])) : ulong(j);
        value_t value = values[position * channels + k];
        if (!is_number(value)) continue;
        bool better = OP == 2 ? order_of(value) < order_of(so_far) : order_of(value) > order_of(so_far);
        if (best < 0 || better) {
            best = long(position);
            so_far = value;
        }
    }
    out[i] = so_far;
    arg[i] = best;
#endif
}
