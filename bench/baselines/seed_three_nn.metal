// Three nearest neighbours: one thread a query looks at every point. RULE, DIM: arithmetic.metal.

[[max_total_threads_per_threadgroup(256)]]
kernel void seed_three_nn(
    device const float* unknown [[buffer(0)]],  // (B, M, 3)
    device const float* known [[buffer(1)]],    // (B, N, 3)
    device float* distance [[buffer(2)]],       // (B, M, 3) Euclidean
    device long* index [[buffer(3)]],           // (B, M, 3)
    constant long* shape [[buffer(4)]],         // queries in all, M, N
    uint row [[thread_position_in_grid]])
{
    if (row >= uint(shape[0])) return;
    const uint size = uint(shape[2]);
    device const float* centre = unknown + ulong(row) * 3;
    device const float* points = known + ulong(row / uint(shape[1])) * size * 3;
    uint key[3] = {NOTHING, NOTHING, NOTHING};
    uint number[3] = {NOTHING, NOTHING, NOTHING};
    for (uint i = 0; i < size; ++i) {
        uint here = distance_key(points + ulong(i) * 3, centre, 3, 1.0f);
        if (here >= key[2]) continue;  // of equal ones the first stays
        bool second = here < key[1];
        bool first = here < key[0];
        key[2] = second ? key[1] : here;
        number[2] = second ? number[1] : i;
        if (second) {
            key[1] = first ? key[0] : here;
            number[1] = first ? number[0] : i;
        }
        if (first) {
            key[0] = here;
            number[0] = i;
        }
    }
    for (uint r = 0; r < 3; ++r) {
        bool found = key[r] != NOTHING;
        distance[ulong(row) * 3 + r] = found ? precise::sqrt(as_type<float>(key[r])) : as_type<float>(INFINITE);
        index[ulong(row) * 3 + r] = found ? long(number[r]) : -1;
    }
}
