// Leaves and boxes of a tree, of points in its order: layout.py tells what they are.

// The box of the lanes' boxes, in every lane.
static inline void join_boxes(
    thread float3& low, thread float3& high, thread uint& least, thread int& most) {
    for (uint d = 0; d < 3; ++d) {
        low[d] = simd_min(low[d]);
        high[d] = simd_max(high[d]);
    }
    least = simd_min(least);
    most = simd_max(most);
}

static inline void store_box(
    device float4* boxes, ulong at, float3 low, float3 high, uint least, int most) {
    boxes[2 * at] = float4(low, as_type<float>(least));
    boxes[2 * at + 1] = float4(high, as_type<float>(most));
}

// Two levels of boxes: each simdgroup joins 32 of the parts that its lanes hold, and the first one
// the boxes of all 32. `next`: where the second level begins, 0 if there is none.
#define JOIN_TWO_LEVELS \
    threadgroup float sides[32 * 6]; \
    threadgroup uint rows[32 * 2]; \
    join_boxes(low, high, least, most); \
    const uint node = group * 32 + simdgroup; \
    if (lane == 0) { \
        if (node < count) store_box(boxes, begin + node, low, high, least, most); \
        for (uint d = 0; d < 3; ++d) { \
            sides[d * 32 + simdgroup] = low[d]; \
            sides[(3 + d) * 32 + simdgroup] = high[d]; \
        } \
        rows[simdgroup] = least; \
        rows[32 + simdgroup] = as_type<uint>(most); \
    } \
    threadgroup_barrier(mem_flags::mem_threadgroup); \
    if (next == 0 || simdgroup != 0) return; \
    for (uint d = 0; d < 3; ++d) { \
        low[d] = sides[d * 32 + lane]; \
        high[d] = sides[(3 + d) * 32 + lane]; \
    } \
    least = rows[lane]; \
    most = as_type<int>(rows[32 + lane]); \
    join_boxes(low, high, least, most); \
    if (lane == 0) store_box(boxes, next + group, low, high, least, most);

[[max_total_threads_per_threadgroup(1024)]]
kernel void make_leaves(
    device const uint* points [[buffer(0)]],  // (N, D) bits
    device const uint* order [[buffer(1)]],   // (N) rows by place
    device float4* leaves [[buffer(2)]],
    device float4* boxes [[buffer(3)]],
    constant long* shape [[buffer(4)]],       // N, D, leaves, start of the level after them
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint count = uint(shape[2]);
    const ulong begin = 0;
    const ulong next = ulong(shape[3]);
    const uint place = (group * 32 + simdgroup) * 32 + lane;
    float3 point = float3(0.0f);
    uint least = NOTHING;
    if (place < uint(shape[0])) {
        uint row = order[place];
        if (load_point(points, row, uint(shape[1]), point)) least = row;
    }
    if (place < count * 32) leaves[place] = float4(point, as_type<float>(least));
    float3 low = least != NOTHING ? point : float3(LARGEST);
    float3 high = least != NOTHING ? point : float3(-LARGEST);
    int most = as_type<int>(least);
    JOIN_TWO_LEVELS
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void make_levels(
    device float4* boxes [[buffer(0)]],
    constant long* shape [[buffer(1)]],  // start and number of nodes of a level, then of the next, start after
    uint group [[threadgroup_position_in_grid]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const ulong begin = ulong(shape[2]);
    const uint count = uint(shape[3]);
    const ulong next = ulong(shape[4]);
    const uint child = (group * 32 + simdgroup) * 32 + lane;
    float3 low = float3(LARGEST);
    float3 high = float3(-LARGEST);
    uint least = NOTHING;
    int most = -1;
    if (child < uint(shape[1])) {
        float4 lower = boxes[2 * (ulong(shape[0]) + child)];
        float4 upper = boxes[2 * (ulong(shape[0]) + child) + 1];
        low = lower.xyz;
        high = upper.xyz;
        least = as_type<uint>(lower.w);
        most = as_type<int>(upper.w);
    }
    JOIN_TWO_LEVELS
}
