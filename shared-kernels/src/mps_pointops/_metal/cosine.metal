// Shared text: the cosine distance of two vectors that take part, 1 - a.b / (|a| |b|). Every step is
// rounded once, in safe and in fast math; dot products are chains of fma in coordinate order, from zero.
// Comes after arithmetic.metal and division.metal. Its meaning in Python: _arithmetic.py.
#if RULE == COSINE

// Bits of the norm. What may be infinite is handled as bits, out of sight of fast math.
static inline uint norm_of(float squared) {
    return as_type<uint>(squared) >= INFINITE ? INFINITE : as_type<uint>(precise::sqrt(squared));
}

static inline uint norm_bits(device const float* p, uint dim) {
    float squared = 0.0f;
    for (uint d = 0; d < dim; ++d) squared = fma(p[d], p[d], squared);
    return norm_of(squared);
}

// Key of the distance: infinite where the dot product overflows, 1 where only a norm does.
static inline uint cosine_key_of(uint dot_bits, uint norm_a, uint norm_b) {
    if ((dot_bits & 0x7fffffffu) >= INFINITE) return FARTHEST;
    if (norm_a >= INFINITE || norm_b >= INFINITE) return distance_as_key(1.0f);
    const uint norms = as_type<uint>(as_type<float>(norm_a) * as_type<float>(norm_b));
    return distance_as_key(1.0f - as_type<float>(divide_bits(dot_bits, norms)));
}

static inline uint cosine_key(device const float* a, device const float* b, uint dim, uint norm_b) {
    float dot_product = 0.0f;
    for (uint d = 0; d < dim; ++d) dot_product = fma(a[d], b[d], dot_product);
    return cosine_key_of(as_type<uint>(dot_product), norm_bits(a, dim), norm_b);
}
#endif
