// The one or three nearest of few points, for many queries, by (squared distance, index).
//
// Points are staged in threadgroup memory; a query belongs to `lanes` neighbouring lanes, each of which
// looks at every lanes-th point and keeps its best in registers. A lane meets points in ascending index,
// so of equal distances the first stays; what the lanes of a query found is merged in the end.
// Points are tested four at a time, and one by one only if the nearest of them is near enough.
//
// RULE: arithmetic.metal. NEAREST: places kept, 1 or 3. DIM is 3: missing coordinates are zero.

#define GROUP 256
#define SIMDGROUPS (GROUP / 32)
#define TILE 1024
#define AT_ONCE 4
#define LARGEST 3.402823466e+38f

struct Best {
    uint key[NEAREST];
    uint index[NEAREST];
};

// The pair goes to its place, before the first (before the second) or not: it comes before the last one.
static inline void insert(thread Best& best, uint key, uint index, bool first, bool second) {
#if NEAREST == 3
    best.key[2] = second ? best.key[1] : key;
    best.index[2] = second ? best.index[1] : index;
    best.key[1] = first ? best.key[0] : second ? key : best.key[1];
    best.index[1] = first ? best.index[0] : second ? index : best.index[1];
    best.key[0] = first ? key : best.key[0];
    best.index[0] = first ? index : best.index[0];
#else
    best.key[0] = key;
    best.index[0] = index;
#endif
}

static inline float3 load_point(device const float* p, uint dim) {
    return float3(p[0], dim > 1 ? p[1] : 0.0f, dim > 2 ? p[2] : 0.0f);
}

[[max_total_threads_per_threadgroup(GROUP)]]
kernel void few_nearest(
    device const float* query [[buffer(0)]],  // (M, D), D <= 3
    device const float* ref [[buffer(1)]],    // (N, D)
    device const long* first [[buffer(2)]],   // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(3)]],    // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(4)]],     // (M, k) squared or Euclidean
    device long* index [[buffer(5)]],         // (M, k) counted in the cloud if clouds are equal, else in the input; `absent`: none
    constant long* shape [[buffer(6)]],
    uint group [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const bool euclidean = shape[4] != 0;
    const uint k = uint(shape[5]);
    const long absent = shape[6];
    const uint lanes = uint(shape[7]);
    const uint first_row = uint(shape[8]);
    const uint end_row = uint(shape[9]);

    threadgroup float4 tile[TILE + (AT_ONCE - 1) * 32];  // coordinates; not 0 if the point takes part
    threadgroup uint lows[SIMDGROUPS];
    threadgroup uint highs[SIMDGROUPS];

    const uint row = first_row + (group * GROUP + thread_number) / lanes;
    const uint part = thread_number & (lanes - 1);
    float3 centre = float3(0.0f);
    uint begin = 0;
    uint end = 0;
    if (row < end_row) {
        device const float* own = query + ulong(row) * dim;
        centre = load_point(own, dim);
        begin = equal_clouds ? row / uint(shape[2]) * uint(shape[3]) : uint(first[row]);
        end = equal_clouds ? begin + uint(shape[3]) : uint(last[row]);
        if (end < begin || !is_finite_point(own, dim)) end = begin;
    }

    // what any query of the threadgroup looks at
    const uint lowest = simd_min(begin < end ? begin : NOTHING);
    const uint highest = simd_max(begin < end ? end : 0);
    if (lane == 0) {
        lows[simdgroup] = lowest;
        highs[simdgroup] = highest;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint low = NOTHING;
    uint high = 0;
    for (uint s = 0; s < SIMDGROUPS; ++s) {
        low = min(low, lows[s]);
        high = max(high, highs[s]);
    }

    Best best;
    for (uint n = 0; n < NEAREST; ++n) {
        best.key[n] = FARTHEST + 1;  // infinitely far is a distance too
        best.index[n] = NOTHING;
    }
    for (uint base = low; base < high; base += TILE) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = thread_number; t < TILE + (AT_ONCE - 1) * 32; t += GROUP) {
            device const float* p = ref + ulong(min(base + t, high - 1)) * dim;
            const bool there = base + t < high && takes_part(p, dim);
            tile[t] = there ? float4(load_point(p, dim), 1.0f) : float4(LARGEST, LARGEST, LARGEST, 0.0f);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const uint stop = min(end, base + TILE);
        for (uint i = max(begin, base) + part; i < stop; i += AT_ONCE * lanes) {
            float4 p[AT_ONCE];
            uint key[AT_ONCE];
            uint least = NOTHING;
            for (uint n = 0; n < AT_ONCE; ++n) {
                p[n] = tile[i - base + n * lanes];
                key[n] = as_type<uint>(squared_norm3(p[n].x - centre.x, p[n].y - centre.y, p[n].z - centre.z));
                least = min(least, key[n]);
            }
            if (least >= best.key[NEAREST - 1]) continue;
            for (uint n = 0; n < AT_ONCE; ++n) {
                const uint number = i + n * lanes;
                if (key[n] < best.key[NEAREST - 1] && p[n].w != 0.0f && number < stop)
                    insert(best, key[n], number, key[n] < best.key[0], key[n] < best.key[NEAREST / 2]);
            }
        }
    }

    for (ushort stride = 1; stride < lanes; stride <<= 1) {
        Best other;
        for (uint n = 0; n < NEAREST; ++n) {
            other.key[n] = simd_shuffle_xor(best.key[n], stride);
            other.index[n] = simd_shuffle_xor(best.index[n], stride);
        }
        for (uint n = 0; n < NEAREST; ++n) {
            bool before[NEAREST];
            for (uint m = 0; m < NEAREST; ++m)
                before[m] = comes_before(other.key[n], other.index[n], best.key[m], best.index[m]);
            if (before[NEAREST - 1]) insert(best, other.key[n], other.index[n], before[0], before[NEAREST / 2]);
        }
    }
    if (row >= end_row || part != 0) return;
    for (uint n = 0; n < NEAREST && n < k; ++n) {
        const bool found = best.index[n] != NOTHING;
        const float d = as_type<float>(found ? best.key[n] : FARTHEST);
        const ulong place = ulong(row) * k + n;
        distance[place] = euclidean && found && best.key[n] < FARTHEST ? precise::sqrt(d) : d;
        index[place] = found ? long(best.index[n] - (equal_clouds ? begin : 0)) : absent;
    }
}
