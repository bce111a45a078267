// Cell of every point in a regular grid. One thread a point; the contract is README.md.
//
// Floats are looked at as bits, so fast math makes nothing of NaN and infinity. Ids are sums modulo
// 2^64. A cell number that a long does not hold makes the id -1.

constant uint TOO_LARGE = 0x5f000000u;  // bits of 2^63

// Toward zero, for numbers below 2^63.
static inline long truncated(uint bits) {
    const int exponent = int((bits >> 23) & 255u) - 127;
    if (exponent < 0) return 0;
    const ulong digits = (bits & 0x007fffffu) | 0x00800000u;
    const ulong size = exponent < 23 ? digits >> (23 - exponent) : digits << (exponent - 23);
    return (bits >> 31) ? -long(size) : long(size);
}

// Whether a long holds (p - start) / size, and what it is.
static inline bool cell_number(float p, float start, float size, thread long& number) {
    const uint quotient = divide_bits(as_type<uint>(p - start), as_type<uint>(size));
    if ((quotient & 0x7fffffffu) >= TOO_LARGE) return false;  // NaN and infinity too
    number = truncated(quotient);
    return true;
}

static inline bool cell_number(long p, long start, long size, thread long& number) {
    const long difference = long(ulong(p) - ulong(start));
    if (((p ^ start) & (p ^ difference)) < 0 || size == 0) return false;
    if (size == -1) {
        number = long(0ul - ulong(difference));
        return difference == 0 || number != difference;  // the lowest long has no opposite
    }
    number = difference / size;
    return true;
}

template <typename T>
static inline long cell_id(
    device const T* p, device const T* size, device const T* start, device const T* end, uint dim) {
    ulong id = 0;
    ulong stride = 1;
    for (uint d = 0; d < dim; ++d) {
        long number = 0;
        if (!cell_number(p[d], start[d], size[d], number)) return -1;
        id += stride * ulong(number);
        if (d + 1 == dim) break;
        if (!cell_number(end[d], start[d], size[d], number)) return -1;
        stride *= ulong(number) + 1ul;
    }
    return long(id);
}

#define GRID_KERNEL(NAME, T)                                    \
    [[max_total_threads_per_threadgroup(256)]]                  \
    kernel void NAME(                                           \
        device const T* points [[buffer(0)]],    /* (n, dim) */ \
        device const T* size [[buffer(1)]],      /* (dim) */    \
        device const T* start [[buffer(2)]],     /* (dim) */    \
        device const T* end [[buffer(3)]],       /* (dim) */    \
        device long* ids [[buffer(4)]],          /* (n) */      \
        constant long* shape [[buffer(5)]],      /* dim, first point, last point */ \
        uint thread_number [[thread_position_in_grid]])         \
    {                                                           \
        const uint dim = uint(shape[0]);                        \
        const ulong i = ulong(shape[1]) + thread_number;        \
        if (i >= ulong(shape[2])) return;                       \
        ids[i] = cell_id(points + i * dim, size, start, end, dim); \
    }

GRID_KERNEL(grid_cluster, float)
GRID_KERNEL(grid_cluster_integers, long)
