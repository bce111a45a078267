// The one or three nearest of few points, for many queries, by (squared distance, index).
//
// Points are staged in threadgroup memory; a query belongs to `lanes` neighbouring lanes, each of which looks
// at every lanes-th point and keeps its best in registers. Points are met in ascending index, so of
// equal distances the first stays; what the lanes of a query found is merged in the end.
//
// RULE: arithmetic.metal. NEAREST: places kept, 1 or 3. DIM is 3: missing coordinates are zero.

#define GROUP 256
#define SIMDGROUPS (GROUP / 32)
#define TILE 1024
#define EACH 2  // queries of a lane

static inline float3 load_point(device const float* p, uint dim) {
    return float3(p[0], dim > 1 ? p[1] : 0.0f, dim > 2 ? p[2] : 0.0f);
}

struct Best {
    uint key[NEAREST];
    uint index[NEAREST];
};

// The pair goes to its place, which is before the last one.
static inline void insert(thread Best& best, uint key, uint index) {
#if NEAREST == 3
    const bool first = comes_before(key, index, best.key[0], best.index[0]);
    const bool second = comes_before(key, index, best.key[1], best.index[1]);
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

[[max_total_threads_per_threadgroup(GROUP)]]
kernel void few_nearest(
    device const float* query [[buffer(0)]],  // (M, D), D <= 3
    device const float* ref [[buffer(1)]],    // (N, D)
    device const long* first [[buffer(2)]],   // (M) a query's points are ref[first] ...; unread if clouds are equal
    device const long* last [[buffer(3)]],    // (M) ... up to before ref[last]; unread likewise
    device float* distance [[buffer(4)]],     // (M, k) squared or Euclidean
    device long* index [[buffer(5)]],         // (M, k) counted in the cloud if clouds are equal, else in the input; -1: none
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
    const uint lanes = uint(shape[6]);
    const uint first_row = uint(shape[7]);
    const uint end_row = uint(shape[8]);

    threadgroup float4 tile[TILE];  // coordinates; not 0 if the point takes part
    threadgroup uint lows[SIMDGROUPS];
    threadgroup uint highs[SIMDGROUPS];

    uint rows[EACH];
    float3 centre[EACH];
    uint begin[EACH];
    uint end[EACH];
    uint lowest = NOTHING;
    uint highest = 0;
    for (uint e = 0; e < EACH; ++e) {
        const uint row = first_row + (group * EACH + e) * (GROUP / lanes) + thread_number / lanes;
        rows[e] = row;
        centre[e] = float3(0.0f);
        begin[e] = end[e] = 0;
        if (row >= end_row) continue;
        device const float* own = query + ulong(row) * dim;
        centre[e] = load_point(own, dim);
        begin[e] = equal_clouds ? row / uint(shape[2]) * uint(shape[3]) : uint(first[row]);
        end[e] = equal_clouds ? begin[e] + uint(shape[3]) : uint(last[row]);
        if (end[e] <= begin[e] || !is_finite_point(own, dim)) {
            end[e] = begin[e];
        } else {
            lowest = min(lowest, begin[e]);
            highest = max(highest, end[e]);
        }
    }

    // what any query of the threadgroup looks at
    lowest = simd_min(lowest);
    highest = simd_max(highest);
    if (lane == 0) {
        lows[simdgroup] = lowest;
        highs[simdgroup] = highest;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint low = NOTHING, high = 0;
    for (uint s = 0; s < SIMDGROUPS; ++s) {
        low = min(low, lows[s]);
        high = max(high, highs[s]);
    }

    Best best[EACH];
    for (uint e = 0; e < EACH; ++e) {
        for (uint n = 0; n < NEAREST; ++n) {
            best[e].key[n] = FARTHEST + 1;  // infinitely far is a distance too
            best[e].index[n] = NOTHING;
        }
    }
    const uint part = thread_number & (lanes - 1);
    for (uint base = low; base < high; base += TILE) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = thread_number; t < TILE && base + t < high; t += GROUP) {
            device const float* p = ref + ulong(base + t) * dim;
            tile[t] = takes_part(p, dim) ? float4(load_point(p, dim), 1.0f) : float4(INFINITY, INFINITY, INFINITY, 0.0f);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        // one loop for all queries of a lane: most often their clouds are the same
        uint i = NOTHING;
        uint stop = 0;
        for (uint e = 0; e < EACH; ++e) {
            i = min(i, max(begin[e], base) + part);
            stop = max(stop, min(end[e], base + TILE));
        }
        for (; i < stop; i += lanes) {
            const float4 p = tile[i - base];
            for (uint e = 0; e < EACH; ++e) {
                const uint key = as_type<uint>(squared_norm3(p.x - centre[e].x, p.y - centre[e].y, p.z - centre[e].z));
                if (key < best[e].key[NEAREST - 1] && p.w != 0.0f && i >= begin[e] && i < end[e]) insert(best[e], key, i);
            }
        }
    }

    for (uint e = 0; e < EACH; ++e) {
        for (ushort stride = 1; stride < lanes; stride <<= 1) {
            Best other;
            for (uint n = 0; n < NEAREST; ++n) {
                other.key[n] = simd_shuffle_xor(best[e].key[n], stride);
                other.index[n] = simd_shuffle_xor(best[e].index[n], stride);
            }
            for (uint n = 0; n < NEAREST; ++n) {
                if (comes_before(other.key[n], other.index[n], best[e].key[NEAREST - 1], best[e].index[NEAREST - 1]))
                    insert(best[e], other.key[n], other.index[n]);
            }
        }
        if (rows[e] >= end_row || part != 0) continue;
        const uint shown = equal_clouds ? begin[e] : 0;
        for (uint n = 0; n < NEAREST && n < k; ++n) {
            const bool found = best[e].index[n] != NOTHING;
            const float d = as_type<float>(found ? best[e].key[n] : FARTHEST);
            const ulong place = ulong(rows[e]) * k + n;
            distance[place] = euclidean && found && best[e].key[n] < FARTHEST ? precise::sqrt(d) : d;
            index[place] = found ? long(best[e].index[n] - shown) : -1;
        }
    }
}
