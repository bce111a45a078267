// Shared text: the arithmetic of a squared distance and its order. Prepended to every kernel.
// RULE is one of SEPARATE, FMA_XYZ, FMA_YXZ; DIM is the number of coordinates, or 0 when it is an
// argument. Its meaning in Python: _arithmetic.py.
//
// A distance that is not negative and not NaN is ordered like its bits, so keys are compared as
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

// Key order: distance first, then index.
static inline bool comes_before(uint key, uint index, uint other_key, uint other_index) {
    return key < other_key || (key == other_key && index < other_index);
}
