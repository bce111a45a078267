// Keys that bring points into the order of a tree.
//
// A key is a guess of the place at which a point will be in tree order, so that few bits of it sort
// well whatever the cloud looks like, and keys of different clouds never mix. A sample of the points,
// each as (first row of its cloud, Morton code), is sorted; a point is as far in its cloud as the
// samples are of which it lies between, and in between as far as its code. Whatever keys are, a
// search finds the same: they decide only how many boxes it opens.
//
// frame: lower corner and scale of the grid of the Morton codes, then the samples, each
// (first row of the cloud, upper and lower half of the code, its cloud's samples: first | end << 16).
//
// STEPS: points of a thread of make_keys, whose threadgroup makes the keys of a tile of the sort.

#define SAMPLES 256
#define SIMDGROUPS (SAMPLES / 32)
#define AXIS_BITS 20
#define HALF_BITS 30  // a half of a code is 10 bits of each axis
#define FAR 512.0f
#define DIGITS 1024
#define FRAME_HEAD 4

// The rows of the cloud that holds a row, from the ranges of queries in the order of their clouds.
// Rows that no query looks at are clouds of their own.
static inline uint2 cloud_of(
    uint row, device const long* first, device const long* last, uint size, uint ranges, uint cloud_size) {
    if (ranges == 0) {
        uint begin = row - row % cloud_size;
        return uint2(begin, begin + cloud_size);
    }
    uint low = 0;  // number of ranges that begin at the row or before it
    uint high = ranges;
    while (low < high) {
        uint middle = (low + high) / 2;
        if (first[middle] <= long(row)) low = middle + 1;
        else high = middle;
    }
    long begin = low > 0 ? first[low - 1] : 0;
    long end = low > 0 ? last[low - 1] : 0;
    if (end <= long(row)) {
        begin = max(end, 0l);
        end = low < ranges ? first[low] : long(size);
    }
    // holds for any ranges, also those of a call that will be refused
    return uint2(uint(clamp(begin, 0l, long(row))), uint(clamp(end, long(row) + 1, long(size))));
}

static inline uint spread_bits(uint v) {
    v = (v | v << 16) & 0x030000ffu;
    v = (v | v << 8) & 0x0300f00fu;
    v = (v | v << 4) & 0x030c30c3u;
    return (v | v << 2) & 0x09249249u;
}

static inline uint grid_cell(float x, float low, float scale) {
    return uint(min(max((x - low) * scale, 0.0f), float((1u << AXIS_BITS) - 1)));
}

// Upper and lower half of a Morton code.
static inline uint2 code_of(float3 point, float3 low, float scale) {
    uint x = grid_cell(point.x, low.x, scale);
    uint y = grid_cell(point.y, low.y, scale);
    uint z = grid_cell(point.z, low.z, scale);
    uint upper = spread_bits(x >> 10) | spread_bits(y >> 10) << 1 | spread_bits(z >> 10) << 2;
    uint lower = spread_bits(x & 1023) | spread_bits(y & 1023) << 1 | spread_bits(z & 1023) << 2;
    return uint2(upper, lower);
}

static inline bool sorts_before(uint3 a, uint3 b) {
    return a.x < b.x || (a.x == b.x && (a.y < b.y || (a.y == b.y && a.z < b.z)));
}

// Floats as integers in the same order, and back.
static inline uint ordered(float x) {
    uint bits = as_type<uint>(x);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static inline float from_ordered(uint key) {
    return as_type<float>((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// The smallest of the lanes' keys without one that is `least`.
static inline uint next_smallest(thread uint& key, uint least, uint lane) {
    uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(key == least))));
    if (lane == ctz(votes)) key = NOTHING;
    return simd_min(key);
}

// One threadgroup. Long loops are kept as loops: it runs once, and its text would take longer to fetch.
[[max_total_threads_per_threadgroup(256)]]
kernel void make_frame(
    device const uint* points [[buffer(0)]],  // (N, D) bits
    device const long* first [[buffer(1)]],   // (ranges) ascending
    device const long* last [[buffer(2)]],    // (ranges)
    device uint* frame [[buffer(3)]],
    constant long* shape [[buffer(4)]],       // N, D, ranges, size of equal clouds
    uint number [[thread_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint size = uint(shape[0]);
    const uint row = uint(ulong(number) * size / SAMPLES);
    float3 point;
    const bool finite = load_point(points, row, uint(shape[1]), point);
    const uint cloud = cloud_of(row, first, last, size, uint(shape[2]), uint(shape[3])).x;

    // Bounds of six sides, -x being a side too: of all samples, and of their bulk, which is the second
    // smallest of 32 samples, in the middle of those of all simdgroups.
    threadgroup uint found[12 * SIMDGROUPS];
    threadgroup float bounds[12];
    uint least[6];
    uint second[6];
    for (uint side = 0; side < 6; ++side) {
        float x = side < 2 ? point.x : side < 4 ? point.y : point.z;
        uint key = ordered(finite ? ((side & 1) != 0 ? -x : x) : LARGEST);
        least[side] = simd_min(key);
        second[side] = next_smallest(key, least[side], lane);
    }
    if (lane == 0) {
        for (uint side = 0; side < 6; ++side) {
            found[side * SIMDGROUPS + simdgroup] = least[side];
            found[(6 + side) * SIMDGROUPS + simdgroup] = second[side];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup < 6) {
        uint at = simdgroup * SIMDGROUPS + lane % SIMDGROUPS;
        uint unused = lane < SIMDGROUPS ? 0 : NOTHING;
        uint all = simd_min(found[at]);
        uint key = found[6 * SIMDGROUPS + at] | unused;
        uint bulk = simd_min(key);
        for (uint taken = 0; taken < SIMDGROUPS / 2 - 1; ++taken)
            bulk = next_smallest(key, bulk, lane);
        if (lane == 0) {
            bounds[simdgroup] = from_ordered(all);
            bounds[6 + simdgroup] = from_ordered(bulk);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // The grid covers the sample, but for what is further out than FAR times the spread of the bulk.
    const float spread = max(max(-bounds[7] - bounds[6], -bounds[9] - bounds[8]), -bounds[11] - bounds[10]);
    const float reach = FAR * spread;
    float3 low = float3(bounds[0], bounds[2], bounds[4]);
    float3 high = -float3(bounds[1], bounds[3], bounds[5]);
    if (spread > 0.0f) {
        low = max(low, float3(bounds[6], bounds[8], bounds[10]) - reach);
        high = min(high, reach - float3(bounds[7], bounds[9], bounds[11]));
    }
    const float extent = max(max(max(high.x - low.x, high.y - low.y), high.z - low.z), 0.0f);
    // the power of two that makes the extent 2^19 to 2^20
    const uint exponent = as_type<uint>(extent) >> 23;
    const uint scale = min(254u, 127u + AXIS_BITS - 1 + 127u - exponent) << 23;
    if (number == 0) {
        for (uint d = 0; d < 3; ++d) frame[d] = as_type<uint>(low[d]);
        frame[3] = scale;
    }

    uint2 code = uint2((1u << HALF_BITS) - 1);
    if (finite) code = code_of(point, low, as_type<float>(scale));
    uint3 own = uint3(cloud, code.x, code.y);
    threadgroup uint samples[3 * SAMPLES];
    #pragma unroll 1
    for (uint run = 2; run <= SAMPLES; run <<= 1) {
        #pragma unroll 1
        for (uint stride = run >> 1; stride > 0; stride >>= 1) {
            uint3 other = own;
            if (stride >= 32) {
                threadgroup_barrier(mem_flags::mem_threadgroup);
                for (uint i = 0; i < 3; ++i) samples[i * SAMPLES + number] = own[i];
                threadgroup_barrier(mem_flags::mem_threadgroup);
                for (uint i = 0; i < 3; ++i) other[i] = samples[i * SAMPLES + (number ^ stride)];
            } else {
                for (uint i = 0; i < 3; ++i) other[i] = simd_shuffle_xor(own[i], ushort(stride));
            }
            bool keeps_smaller = ((number & stride) == 0) == ((number & run) == 0);
            if (keeps_smaller ? sorts_before(other, own) : sorts_before(own, other)) own = other;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    samples[number] = own.x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint ends = 0;
    #pragma unroll 1
    for (uint i = 0; i < 2; ++i) {  // how many samples are of clouds before this one, or of it too
        uint begin = 0;
        uint end = SAMPLES;
        while (begin < end) {
            uint middle = (begin + end) / 2;
            if (samples[middle] < own.x + i) begin = middle + 1;
            else end = middle;
        }
        ends |= begin << (16 * i);
    }
    device uint* entry = frame + FRAME_HEAD + number * 4;
    for (uint i = 0; i < 3; ++i) entry[i] = own[i];
    entry[3] = ends;
}

[[max_total_threads_per_threadgroup(256)]]
kernel void make_keys(
    device const uint* points [[buffer(0)]],  // (N, D) bits
    device const long* first [[buffer(1)]],   // (ranges) ascending
    device const long* last [[buffer(2)]],    // (ranges)
    device const uint* frame [[buffer(3)]],
    device uint* keys [[buffer(4)]],          // (N)
    device uint* table [[buffer(5)]],         // (tiles, DIGITS) keys by their last digit
    constant long* shape [[buffer(6)]],       // N, D, ranges, size of equal clouds, keys a place
    uint tile [[threadgroup_position_in_grid]],
    uint thread_number [[thread_index_in_threadgroup]])
{
    const uint size = uint(shape[0]);
    const uint keys_each = uint(shape[4]);
    threadgroup uint4 samples[SAMPLES];
    threadgroup atomic_uint counts[DIGITS];
    for (uint d = thread_number; d < DIGITS; d += 256)
        atomic_store_explicit(&counts[d], 0u, memory_order_relaxed);
    device const uint* entry = frame + FRAME_HEAD + thread_number * 4;
    samples[thread_number] = uint4(entry[0], entry[1], entry[2], entry[3]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float3 low = float3(as_type<float>(frame[0]), as_type<float>(frame[1]), as_type<float>(frame[2]));
    const float scale = as_type<float>(frame[3]);

    #pragma unroll 1
    for (uint i = 0; i < STEPS; ++i) {
        const uint row = (tile * STEPS + i) * 256 + thread_number;
        if (row >= size) break;
        const uint2 cloud = cloud_of(row, first, last, size, uint(shape[2]), uint(shape[3]));
        const uint width = (cloud.y - cloud.x) * keys_each;
        float3 point;
        const bool finite = load_point(points, row, uint(shape[1]), point);
        const uint2 halves = code_of(point, low, scale);
        const uint3 own = uint3(cloud.x, halves.x, halves.y);
        uint before = 0;  // samples up to this point
        uint above = SAMPLES;
        while (before < above) {
            uint middle = (before + above) / 2;
            if (sorts_before(own, samples[middle].xyz)) above = middle;
            else before = middle + 1;
        }
        // the gap between samples of the cloud, or its ends, in which the point is
        ulong gap_begin = 0;
        ulong gap_end = (1ul << (2 * HALF_BITS)) - 1;
        uint begin = before;
        uint end = before;
        if (before < SAMPLES) {
            uint4 next = samples[before];
            if (next.x == cloud.x) {
                gap_end = ulong(next.y) << HALF_BITS | next.z;
                begin = next.w & 0xffffu;
                end = next.w >> 16;
            }
        }
        if (before > 0) {
            uint4 previous = samples[before - 1];
            if (previous.x == cloud.x) {
                gap_begin = ulong(previous.y) << HALF_BITS | previous.z;
                begin = previous.w & 0xffffu;
                end = previous.w >> 16;
            }
        }
        // how far in the gap, of 2^15
        const ulong gap = gap_end - gap_begin;
        const uint upper = uint(gap >> 32);
        const uint bits = upper != 0 ? 64 - clz(upper) : 32 - clz(uint(gap));
        const uint shift = bits > 16 ? bits - 16 : 0;
        const uint offset = uint(((ulong(halves.x) << HALF_BITS | halves.y) - gap_begin) >> shift);
        const uint part = (offset << 15) / (uint(gap >> shift) + 1);
        // the gaps share the keys of the cloud evenly
        const uint gaps = end - begin + 1;
        const uint gap_number = before - begin;
        const uint share = width / gaps;
        const uint rest = width - share * gaps;
        const uint start = share * gap_number + min(gap_number, rest);
        const uint share_here = share + (gap_number < rest ? 1 : 0);
        const uint within = finite ? start + mulhi(part << 17, share_here) : NOTHING;
        const uint key = cloud.x * keys_each + min(within, width - 1);
        keys[row] = key;
        atomic_fetch_add_explicit(&counts[key % DIGITS], 1u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint d = thread_number; d < DIGITS; d += 256)
        table[ulong(tile) * DIGITS + d] = atomic_load_explicit(&counts[d], memory_order_relaxed);
}
