// k nearest neighbours of a tree's own points among them: 32 queries, the points of a leaf, share a walk.
//
// Each lane has one query and keeps its SLOTS best pairs sorted in registers. The walk begins with the
// leaf of the queries; then, as in tree.metal, the nearest child of the node last opened comes next, by
// the bound of its box to the box of the queries, until it is too far for all of them. In a leaf the
// queries that need it take turns: the 32 lanes look at its points for one of them, and what can be among
// its best waits in its queue. Queues are sorted and merged for all queries at once.
//
// RULE: arithmetic.metal. SLOTS: places kept.

#define LEAVES_PER_GROUP 4
#define QUEUE 8
#ifndef FULL_ENOUGH
#define FULL_ENOUGH 4
#endif

// Two pairs in order.
static inline void put_in_order(thread uint* key, thread uint* number, uint low, uint high) {
    const uint low_key = key[low];
    const uint low_number = number[low];
    const bool swaps = comes_before(key[high], number[high], low_key, low_number);
    key[low] = swaps ? key[high] : low_key;
    number[low] = swaps ? number[high] : low_number;
    key[high] = swaps ? low_key : key[high];
    number[high] = swaps ? low_number : number[high];
}

// The smallest of a sorted list and QUEUE pairs in any order stay in the list, sorted.
static inline void merge_queue(
    thread uint* key, thread uint* number, thread uint* new_key, thread uint* new_number) {
    #pragma unroll
    for (uint size = 2; size <= QUEUE; size <<= 1) {
        #pragma unroll
        for (uint s = 0; s < QUEUE; ++s)
            if (s < (s ^ (size - 1))) put_in_order(new_key, new_number, s, s ^ (size - 1));
        #pragma unroll
        for (uint stride = size >> 2; stride > 0; stride >>= 1) {
            #pragma unroll
            for (uint s = 0; s < QUEUE; ++s)
                if ((s & stride) == 0) put_in_order(new_key, new_number, s, s | stride);
        }
    }
    #pragma unroll
    for (uint s = 0; s < QUEUE; ++s) {
        const uint last = SLOTS - 1 - s;
        const bool enters = comes_before(new_key[s], new_number[s], key[last], number[last]);
        key[last] = enters ? new_key[s] : key[last];
        number[last] = enters ? new_number[s] : number[last];
    }
    #pragma unroll
    for (uint stride = SLOTS / 2; stride > 0; stride >>= 1) {
        #pragma unroll
        for (uint s = 0; s < SLOTS; ++s)
            if ((s & stride) == 0) put_in_order(key, number, s, s | stride);
    }
}

// What waits is merged; the last place of each query is told to all.
static inline void merge_waiting(
    thread uint* key, thread uint* number, threadgroup const uint* waiting_key,
    threadgroup const uint* waiting_number, thread uint& waiting, threadgroup float4* queries, ushort lane) {
    uint new_key[QUEUE];
    uint new_number[QUEUE];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    #pragma unroll
    for (uint s = 0; s < QUEUE; ++s) {
        new_key[s] = s < waiting ? waiting_key[s * 32 + lane] : NOTHING;
        new_number[s] = s < waiting ? waiting_number[s * 32 + lane] : NOTHING;
    }
    waiting = 0;
    merge_queue(key, number, new_key, new_number);
    queries[lane].w = as_type<float>(key[SLOTS - 1]);
    simdgroup_barrier(mem_flags::mem_threadgroup);
}

[[max_total_threads_per_threadgroup(128)]]
kernel void tree_knn_own(
    device const float* points [[buffer(0)]],  // (N, D)
    device const float4* leaves [[buffer(1)]], // (32 * leaves) x, y, z, bits of the row
    device const float4* boxes [[buffer(2)]],  // (nodes, 2)
    device const long* first [[buffer(3)]],    // (N) a query's points have the rows first ...; unread if clouds are equal
    device const long* last [[buffer(4)]],     // (N) ... up to before last; unread likewise
    device float* distance [[buffer(5)]],      // (N, k) squared or Euclidean
    device long* index [[buffer(6)]],          // (N, k) counted in the cloud if clouds are equal, else in the input; -1: none
    constant long* shape [[buffer(7)]],
    constant long* levels [[buffer(8)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane_number [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const uint count = uint(shape[2]);
    const bool euclidean = shape[4] != 0;
    const uint k = uint(shape[5]);
    const uint first_leaf = uint(shape[6]);
    const uint end_leaf = uint(shape[7]);
    const uint top = uint(shape[8]);  // number of levels

    threadgroup float4 all_queries[LEAVES_PER_GROUP * 32];
    threadgroup uint queue_key[LEAVES_PER_GROUP * QUEUE * 32];
    threadgroup uint queue_number[LEAVES_PER_GROUP * QUEUE * 32];
    threadgroup uint open_bound[LEAVES_PER_GROUP * (LEVELS - 1) * 32];
    threadgroup uint open_least[LEAVES_PER_GROUP * (LEVELS - 1) * 32];
    const ushort lane = ushort(lane_number);
    threadgroup float4* queries = all_queries + simdgroup * 32;  // x, y, z, bits of the last key
    threadgroup uint* waiting_key = queue_key + simdgroup * QUEUE * 32;
    threadgroup uint* waiting_number = queue_number + simdgroup * QUEUE * 32;
    threadgroup uint* above_bound = open_bound + simdgroup * (LEVELS - 1) * 32 + lane;
    threadgroup uint* above_least = open_least + simdgroup * (LEVELS - 1) * 32 + lane;

    const uint own_leaf = first_leaf + group * LEAVES_PER_GROUP + simdgroup;
    if (own_leaf >= end_leaf) return;
    const uint place = own_leaf * 32 + lane;
    // a point that takes no part is nowhere in the tree
    if (place < count && !is_finite_point(points + ulong(place) * dim, dim)) {
        for (uint s = 0; s < k; ++s) {
            distance[ulong(place) * k + s] = as_type<float>(INFINITE);
            index[ulong(place) * k + s] = -1;
        }
    }

    const float4 own = leaves[place];
    const uint row = as_type<uint>(own.w);
    const bool there = row != NOTHING;
    const float3 q = float3(own.x, own.y, own.z);
    long from = 0;
    long to = 0;
    if (there) {
        from = equal_clouds ? long(row / uint(shape[3])) * shape[3] : first[row];
        to = equal_clouds ? from + shape[3] : last[row];
    }
    const uint begin = uint(from);
    const uint span = to > from ? uint(to - from) : 0;
    const bool searches = span > 0;

    uint key[SLOTS];
    uint number[SLOTS];
    #pragma unroll
    for (uint s = 0; s < SLOTS; ++s) {
        // pair number k is in the last slot: no pair enters the slots before
        key[s] = s + k < SLOTS ? 0 : NOTHING;
        number[s] = s + k < SLOTS ? 0 : NOTHING;
    }
    uint waiting = 0;
    queries[lane] = own;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < 32; i += QUEUE) {
        uint new_key[QUEUE];
        uint new_number[QUEUE];
        #pragma unroll
        for (uint s = 0; s < QUEUE; ++s) {
            const uint candidate = point_key(queries[i + s], q);
            const uint candidate_number = as_type<uint>(queries[i + s].w);
            const bool possible = candidate_number - begin < span;
            new_key[s] = possible ? candidate : NOTHING;
            new_number[s] = possible ? candidate_number : NOTHING;
        }
        merge_queue(key, number, new_key, new_number);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    queries[lane].w = as_type<float>(key[SLOTS - 1]);
    simdgroup_barrier(mem_flags::mem_threadgroup);

    // all queries together
    const float most = 3.402823466e+38f;
    const float3 low = float3(
        simd_min(searches ? q.x : most), simd_min(searches ? q.y : most), simd_min(searches ? q.z : most));
    const float3 high = float3(
        simd_max(searches ? q.x : -most), simd_max(searches ? q.y : -most), simd_max(searches ? q.z : -most));
    const uint all_begin = simd_min(searches ? begin : NOTHING);
    const uint all_end = simd_max(searches ? begin + span : 0);
    // queries of one cloud, and none that does not search
    const bool one_cloud = simd_min(searches ? begin + span : 0) == all_end && simd_max(begin) == all_begin;
    uint worst_key = simd_max(searches ? key[SLOTS - 1] : 0);
    uint worst_number = simd_max(searches && key[SLOTS - 1] == worst_key ? number[SLOTS - 1] : 0);

    uint level = top;  // the children are nodes of the level below; those of level 0 are points
    uint base = 0;     // number of the first child
    Child child = no_child();
    bool arrived = true;
    while (worst_key != 0 || worst_number != 0) {
        if (arrived) {
            arrived = false;
            child = no_child();
            if (base + lane < uint(levels[2 * level - 1])) {
                child = look_at_box(
                    boxes, ulong(levels[2 * level - 2]) + base + lane, low, high, all_begin, all_end);
            }
        }
        const ushort pick = nearest_child(child, worst_key);
        const uint nearest = simd_broadcast(child.bound, pick);
        if (!comes_before(nearest, simd_broadcast(child.least, pick), worst_key, worst_number)) {
            if (level == top) break;
            ++level;
            base = (base >> 10) << 5;
            child.bound = above_bound[(level - 2) * 32];
            child.least = above_least[(level - 2) * 32];
            continue;
        }
        if (lane == pick) child = no_child();
        const uint node = base + pick;
        if (level == 1 && node == own_leaf) continue;
        const Child mine = look_at_box(boxes, ulong(levels[2 * level - 2]) + node, q, q, begin, begin + span);
        const bool needed = comes_before(mine.bound, mine.least, key[SLOTS - 1], number[SLOTS - 1]);
        uint turns = uint(ulong(simd_vote::vote_t(simd_ballot(needed))));
        if (turns == 0) continue;
        if (level > 1) {
            above_bound[(level - 2) * 32] = child.bound;
            above_least[(level - 2) * 32] = child.least;
            base = node * 32;
            --level;
            arrived = true;
            continue;
        }
        const float4 point = leaves[ulong(node) * 32 + lane];
        const uint point_number = as_type<uint>(point.w);
        bool merged = false;
        for (; turns != 0; turns &= turns - 1) {
            const ushort turn = ushort(ctz(turns));
            const float4 query = queries[turn];
            const uint candidate = point_key(point, float3(query.x, query.y, query.z));
            bool wanted = candidate <= as_type<uint>(query.w) && point_number - all_begin < all_end - all_begin;
            if (!one_cloud) {
                const bool inside = point_number - simd_broadcast(begin, turn) < simd_broadcast(span, turn);
                wanted = wanted && inside;
            }
            uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(wanted))));
            while (votes != 0) {
                uint length = simd_broadcast(waiting, turn);
                if (length == QUEUE) {
                    merge_waiting(key, number, waiting_key, waiting_number, waiting, queries, lane);
                    merged = true;
                    length = 0;
                }
                const uint slot = length + popcount(votes & ((1u << lane) - 1u));
                const bool enters = (votes >> lane & 1) != 0 && slot < QUEUE;
                if (enters) {
                    waiting_key[slot * 32 + turn] = candidate;
                    waiting_number[slot * 32 + turn] = point_number;
                }
                const uint gone = uint(ulong(simd_vote::vote_t(simd_ballot(enters))));
                votes &= ~gone;
                if (lane == turn) waiting = length + popcount(gone);
            }
        }
        if (simd_any(waiting >= FULL_ENOUGH)) {
            merge_waiting(key, number, waiting_key, waiting_number, waiting, queries, lane);
            merged = true;
        }
        if (merged) {
            worst_key = simd_max(searches ? key[SLOTS - 1] : 0);
            worst_number = simd_max(searches && key[SLOTS - 1] == worst_key ? number[SLOTS - 1] : 0);
        }
    }
    if (simd_any(waiting > 0)) {
        merge_waiting(key, number, waiting_key, waiting_number, waiting, queries, lane);
    }
    if (!there) return;
    #pragma unroll
    for (uint s = 0; s < SLOTS; ++s) {
        if (s + k < SLOTS) continue;
        const bool found = key[s] != NOTHING;
        const float d = as_type<float>(found ? key[s] : INFINITE);
        const ulong at = ulong(row) * k + (s + k - SLOTS);
        distance[at] = euclidean && found && key[s] < INFINITE ? precise::sqrt(d) : d;
        index[at] = found ? long(number[s]) - (equal_clouds ? from : 0) : -1;
    }
}
