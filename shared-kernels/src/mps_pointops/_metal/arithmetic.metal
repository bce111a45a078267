// Shared text: the arithmetic of a distance and its order. Prepended to every kernel.
// RULE is one of SEPARATE, FMA_XYZ, FMA_YXZ, or COSINE where there are neighbours; DIM is the number
// of coordinates, or 0 when it is an argument. Its meaning in Python: _arithmetic.py.
//
// A squared distance, neither negative nor NaN, is ordered like its bits, so keys are compared as
// integers: that holds in fast math too, where comparisons with infinity and NaN do not.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
#if __METAL_VERSION__ >= 320
#pragma METAL fp math_mode(safe)
#endif

#define SEPARATE 0
#define FMA_XYZ 1
#define FMA_YXZ 2
#define COSINE 3

constant uint INFINITE = 0x7f800000u;  // bits of +inf: smaller keys are finite distances
constant uint NOTHING = 0xffffffffu;   // key, or index, of an empty slot

// Read as bits: in fast math a float is taken to be finite once it is one.
static inline bool is_finite_point(device const float* p, uint dim) {
    device const uint* bits = (device const uint*)p;
    for (uint d = 0; d < dim; ++d)
        if ((bits[d] & INFINITE) == INFINITE) return false;
    return true;
}

// One more coordinate difference: acc + t * t.
static inline float accumulate(float acc, float t) {
#if RULE == SEPARATE
    float product = t * t;
    return acc + product;
#else
    return fma(t, t, acc);
#endif
}

static inline float squared_norm3(float x, float y, float z) {
#if RULE == FMA_YXZ
    return fma(z, z, fma(x, x, y * y));
#else
    return accumulate(accumulate(x * x, y), z);
#endif
}

// Bits of the squared distance of two points; `scale` is a power of two.
static inline uint distance_key(device const float* a, device const float* b, uint dim, float scale) {
#if DIM == 3
    float d2 = squared_norm3((a[0] - b[0]) * scale, (a[1] - b[1]) * scale, (a[2] - b[2]) * scale);
#else
    float d2 = 0.0f;
    for (uint d = 0; d < dim; ++d) d2 = accumulate(d2, (a[d] - b[d]) * scale);
#endif
    return as_type<uint>(d2);
}

#if RULE == COSINE
// Distances may be negative: keys are their bits made ascending.
constant uint FARTHEST = 0xff800000u;    // key of +inf
constant uint MIN_ROOT = 0x20000000u;    // bits of 2^-63: smaller numbers have a square of zero

static inline uint distance_as_key(float distance) {
    uint bits = as_type<uint>(distance);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static inline float key_as_distance(uint key) {
    return as_type<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// All coordinates are finite and the squared norm is not zero, which its largest part tells.
static inline bool takes_part(device const float* p, uint dim) {
    device const uint* bits = (device const uint*)p;
    uint largest = 0;
    for (uint d = 0; d < dim; ++d) largest = max(largest, bits[d] & 0x7fffffffu);
    return largest >= MIN_ROOT && largest < INFINITE;
}
#else
constant uint FARTHEST = 0x7f800000u;  // INFINITE: a constant is not made of another

static inline float key_as_distance(uint key) { return as_type<float>(key); }

static inline bool takes_part(device const float* p, uint dim) { return is_finite_point(p, dim); }
#endif

// Key order: distance first, then index.
static inline bool comes_before(uint key, uint index, uint other_key, uint other_index) {
    return key < other_key || (key == other_key && index < other_index);
}
