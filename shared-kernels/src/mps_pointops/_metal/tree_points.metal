// Shared text: points as those who build a tree take them.

#define LARGEST 3.402823466e+38f  // an empty box is from LARGEST to -LARGEST

// Coordinates as layout.py tells, by bits; false and 0 if one is not finite.
static inline bool load_point(device const uint* points, uint row, uint dim, thread float3& point) {
    uint bits[3];
    bool finite = true;
    for (uint d = 0; d < 3; ++d) {
        bits[d] = d < dim ? points[ulong(row) * dim + d] : 0;
        uint exponent = bits[d] & INFINITE;
        finite = finite && exponent != INFINITE;
        if (exponent == 0) bits[d] = 0;
    }
    point = finite ? float3(as_type<float>(bits[0]), as_type<float>(bits[1]), as_type<float>(bits[2]))
                   : float3(0.0f);
    return finite;
}
