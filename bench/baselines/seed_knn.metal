// k nearest neighbours by scanning: one simdgroup a query, 32 distances at a time, and those that
// belong into the list are inserted one after another. The list is in threadgroup memory.
// Blocks of 32 come in a scattered order. RULE, DIM: arithmetic.metal.

#define QUERIES 8
#define MOST 256  // places of a list

[[max_total_threads_per_threadgroup(256)]]
kernel void seed_knn(
    device const float* query [[buffer(0)]],  // (B, M, D)
    device const float* ref [[buffer(1)]],    // (B, N, D)
    device float* distance [[buffer(2)]],     // (B, M, k) Euclidean
    device long* index [[buffer(3)]],         // (B, M, k)
    constant long* shape [[buffer(4)]],       // queries in all, M, N, D, k, stride of blocks, first query
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    threadgroup uint all_keys[QUERIES * MOST];
    threadgroup uint all_numbers[QUERIES * MOST];
    threadgroup uint* keys = all_keys + simdgroup * MOST;
    threadgroup uint* numbers = all_numbers + simdgroup * MOST;
    const uint row = uint(shape[6]) + group * QUERIES + simdgroup;
    if (row >= uint(shape[0])) return;
    const uint size = uint(shape[2]);
    const uint dim = uint(shape[3]);
    const uint k = uint(shape[4]);
    const uint stride = uint(shape[5]);
    device const float* centre = query + ulong(row) * dim;
    device const float* points = ref + ulong(row / uint(shape[1])) * size * dim;
    for (uint r = lane; r < k; r += 32) {
        keys[r] = NOTHING;
        numbers[r] = NOTHING;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    uint worst_key = NOTHING;
    uint worst_number = NOTHING;
    const uint blocks = (size + 31) / 32;
    uint block = 0;
    for (uint visit = 0; visit < blocks; ++visit) {
        uint i = block * 32 + lane;
        block += stride;
        if (block >= blocks) block -= blocks;
        uint key = NOTHING;
        if (i < size) key = distance_key(points + ulong(i) * dim, centre, dim, 1.0f);
        uint votes = uint(ulong(simd_vote::vote_t(
            simd_ballot(key != NOTHING && comes_before(key, i, worst_key, worst_number)))));
        while (votes != 0) {
            uint from = ctz(votes);
            votes &= votes - 1;
            uint new_key = simd_shuffle(key, ushort(from));
            uint new_number = simd_shuffle(i, ushort(from));
            if (!comes_before(new_key, new_number, worst_key, worst_number)) continue;
            uint place = 0;
            for (uint base = 0; base < k; base += 32) {
                uint r = base + lane;
                bool before = r < k && comes_before(keys[r], numbers[r], new_key, new_number);
                place += popcount(uint(ulong(simd_vote::vote_t(simd_ballot(before)))));
            }
            for (uint rows = (k + 31) / 32; rows > place / 32; --rows) {
                uint r = (rows - 1) * 32 + lane;
                bool moves = r > place && r < k;
                uint moved_key = moves ? keys[r - 1] : 0;
                uint moved_number = moves ? numbers[r - 1] : 0;
                simdgroup_barrier(mem_flags::mem_threadgroup);
                if (moves) {
                    keys[r] = moved_key;
                    numbers[r] = moved_number;
                }
                simdgroup_barrier(mem_flags::mem_threadgroup);
            }
            if (lane == 0) {
                keys[place] = new_key;
                numbers[place] = new_number;
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
            worst_key = keys[k - 1];
            worst_number = numbers[k - 1];
        }
    }
    for (uint r = lane; r < k; r += 32) {
        bool found = keys[r] != NOTHING;
        distance[ulong(row) * k + r] = found ? precise::sqrt(as_type<float>(keys[r])) : as_type<float>(INFINITE);
        index[ulong(row) * k + r] = found ? long(numbers[r]) : -1;
    }
}
