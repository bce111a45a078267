// Farthest point sampling: one threadgroup a cloud, all picks in order.
//
// nearest[i] holds the bits of the squared distance of point i to its nearest pick so far, or -1 for
// a point that is never picked. A pick: every thread updates its points and keeps its best, a
// simdgroup reduces 32 threads, the threadgroup reduces the simdgroups through slots that alternate,
// so that one barrier a pick is enough. Best is: largest distance, then smallest rank (TIES).
// A dispatch makes the picks [first_pick, last_pick) of every cloud; the one before is read back
// from `out`, so long work can be cut into several dispatches.
//
// RULE, DIM: arithmetic.metal. TIES: 0 lowest index, 1 bit-reversed thread order.

#define TOGETHER 2  // points of one thread that are read at once

// Number of points drawn on, and how their tie order is made.
struct Cloud {
    uint size;
    uint block;  // power of two: threads of the block whose tie order is followed
    uint bits;   // its logarithm
};

static inline Cloud make_cloud(uint size) {
    Cloud cloud;
    cloud.size = size;
    cloud.bits = min(9u, 31u - clz(max(size, 1u)));
    cloud.block = 1u << cloud.bits;
    return cloud;
}

static inline uint reverse_low_bits(uint x, uint bits) {
    return bits == 0 ? 0 : reverse_bits(x) >> (32 - bits);
}

static inline uint rank_of(uint i, Cloud cloud) {
#if TIES == 1
    uint rows = cloud.size / cloud.block + 1;
    return reverse_low_bits(i & (cloud.block - 1), cloud.bits) * rows + (i >> cloud.bits);
#else
    return i;
#endif
}

static inline uint index_of(uint rank, Cloud cloud) {
#if TIES == 1
    uint rows = cloud.size / cloud.block + 1;
    return reverse_low_bits(rank / rows, cloud.bits) + ((rank % rows) << cloud.bits);
#else
    return rank;
#endif
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void fps(
    device const float* points [[buffer(0)]],   // (N, D)
    device const long* ptr [[buffer(1)]],       // (B + 1) where a cloud begins; unread if clouds are equal
    device const long* out_ptr [[buffer(2)]],   // (B + 1) where its picks begin; unread likewise
    device const long* start [[buffer(3)]],     // (B) its first pick, counted in the cloud; likewise
    device int* nearest [[buffer(4)]],          // (N)
    device long* out [[buffer(5)]],             // (S) picks, counted in the cloud if clouds are equal, else in the input
    constant long* shape [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const bool skip_near_origin = shape[5] != 0;
    const uint first_pick = uint(shape[6]);
    const uint cloud_number = uint(shape[8]) + group;

    threadgroup int slot_key[64];
    threadgroup uint slot_rank[64];

    long begin = equal_clouds ? shape[2] * cloud_number : ptr[cloud_number];
    long end = equal_clouds ? begin + shape[2] : ptr[cloud_number + 1];
    long out_begin = equal_clouds ? shape[3] * cloud_number : out_ptr[cloud_number];
    long out_end = equal_clouds ? out_begin + shape[3] : out_ptr[cloud_number + 1];
    const uint picks = uint(out_end - out_begin);
    const uint last_pick = min(picks, uint(shape[7]));
    if (end <= begin || first_pick >= last_pick) return;

    const Cloud cloud = make_cloud(uint(end - begin));
    device const float* cloud_points = points + ulong(begin) * dim;
    device int* cloud_nearest = nearest + begin;
    device long* cloud_out = out + out_begin;
    const long shown = equal_clouds ? 0 : begin;

    uint pick;
    uint next = first_pick;
    if (first_pick == 0) {
        pick = uint(equal_clouds ? shape[4] : start[cloud_number]);
        for (uint i = thread_number; i < cloud.size; i += threads) {
            device const float* p = cloud_points + ulong(i) * dim;
            bool eligible = is_finite_point(p, dim);
#if DIM == 3
            // float sum against the double 1e-3: the same as below the next float, 0x3a83126f
            if (skip_near_origin && as_type<uint>(squared_norm3(p[0], p[1], p[2])) < 0x3a83126fu) eligible = false;
#endif
            cloud_nearest[i] = eligible ? int(INFINITE) : -1;
        }
        if (thread_number == 0) cloud_out[0] = long(pick) + shown;
        next = 1;
    } else {
        pick = uint(cloud_out[first_pick - 1] - shown);
    }

    for (; next < last_pick; ++next) {
        device const float* centre = cloud_points + ulong(pick) * dim;
        int best = -1;
        uint best_rank = NOTHING;
        // reads of several points are under way together
        for (uint base = thread_number; base < cloud.size; base += threads * TOGETHER) {
            uint distance[TOGETHER];
            int key[TOGETHER];
            for (uint u = 0; u < TOGETHER; ++u) {
                uint i = base + u * threads;
                bool inside = i < cloud.size;
                uint safe = inside ? i : base;
                distance[u] = distance_key(cloud_points + ulong(safe) * dim, centre, dim, 1.0f);
                key[u] = inside ? cloud_nearest[safe] : -1;
            }
            for (uint u = 0; u < TOGETHER; ++u) {
                uint i = base + u * threads;
                if (key[u] >= 0 && distance[u] < uint(key[u])) {
                    key[u] = int(distance[u]);
                    cloud_nearest[i] = key[u];
                }
#if TIES == 0
                // a thread meets its points in ascending order
                if (key[u] > best) {
                    best = key[u];
                    best_rank = i;
                }
#else
                if (key[u] >= 0 && key[u] >= best) {
                    uint rank = rank_of(i, cloud);
                    if (key[u] > best || rank < best_rank) {
                        best = key[u];
                        best_rank = rank;
                    }
                }
#endif
            }
        }
        int group_best = simd_max(best);
        uint group_rank = simd_min(best == group_best ? best_rank : NOTHING);
        uint slot = (next & 1) * 32;
        if (lane == 0) {
            slot_key[slot + simdgroup] = group_best;
            slot_rank[slot + simdgroup] = group_rank;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int key = lane < simdgroups ? slot_key[slot + lane] : -1;
        uint rank = lane < simdgroups ? slot_rank[slot + lane] : NOTHING;
        int farthest = simd_max(key);
        uint winner = simd_min(key == farthest ? rank : NOTHING);
        // nothing eligible: the first point
        pick = farthest < 0 ? 0 : index_of(winner, cloud);
        if (thread_number == 0) cloud_out[next] = long(pick) + shown;
    }
}
