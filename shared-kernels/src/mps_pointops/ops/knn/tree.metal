// k nearest neighbours by (distance, index) in a tree: one simdgroup a query.
//
// The 32 lanes look at the 32 children of a node; the nearest child comes next, then the nearest of
// its children, down to a leaf, whose 32 points are looked at together. When the nearest child left is too
// far, or none is left, the walk goes on one level above. Queries that are points of the tree begin with
// the leaf they lie in.
// The ROWS * 32 best pairs live in registers, sorted across lanes and rows. Points before the last place
// wait in a queue; BATCH of them or more are sorted and merged at once.
// A dispatch fills the places [place, place + width) of every row of the result; a later one takes only
// pairs after the last place before it, so k is not limited.
//
// RULE: arithmetic.metal. ROWS: places kept, in 32s.

#define QUERIES_PER_GROUP 8
#define BATCH (ROWS <= 4 ? 24 : 32)  // at most 32; the longer a list, the more a merge costs

[[max_total_threads_per_threadgroup(256)]]
kernel void tree_knn(
    device const float* query [[buffer(0)]],   // (M, D)
    device const float4* leaves [[buffer(1)]], // (32 * leaves) x, y, z, bits of the row
    device const float4* boxes [[buffer(2)]],  // (nodes, 2)
    device const long* first [[buffer(3)]],    // (M) a query's points have the rows first ...; unread if clouds are equal
    device const long* last [[buffer(4)]],     // (M) ... up to before last; unread likewise
    device float* distance [[buffer(5)]],      // (M, k) squared or Euclidean
    device long* index [[buffer(6)]],          // (M, k) counted in the cloud if clouds are equal, else in the input; -1: none
    device uint* taken [[buffer(7)]],          // (M, 2) last pair of the dispatch before; unread if k fits in one
    constant long* shape [[buffer(8)]],
    constant long* levels [[buffer(9)]],
    uint group [[threadgroup_position_in_grid]],
    uint lane_number [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]])
{
    const uint dim = uint(shape[0]);
    const bool equal_clouds = shape[1] != 0;
    const bool euclidean = shape[4] != 0;
    const ulong k = ulong(shape[5]);
    const uint place = uint(shape[6]);
    const uint width = uint(shape[7]);
    const uint first_row = uint(shape[8]);
    const uint end_row = uint(shape[9]);
    const uint top = uint(shape[10]);     // number of levels
    const bool own_points = shape[11] != 0;  // the queries are the points, and taken in tree order

    threadgroup uint queue_key[QUERIES_PER_GROUP * 64];
    threadgroup uint queue_index[QUERIES_PER_GROUP * 64];
    threadgroup uint open_bound[QUERIES_PER_GROUP * (LEVELS - 1) * 32];
    threadgroup uint open_least[QUERIES_PER_GROUP * (LEVELS - 1) * 32];
    const ushort lane = ushort(lane_number);
    threadgroup uint* waiting_key = queue_key + simdgroup * 64;
    threadgroup uint* waiting_index = queue_index + simdgroup * 64;
    threadgroup uint* above_bound = open_bound + simdgroup * (LEVELS - 1) * 32 + lane;
    threadgroup uint* above_least = open_least + simdgroup * (LEVELS - 1) * 32 + lane;

    const uint turn = first_row + group * QUERIES_PER_GROUP + simdgroup;
    if (turn >= end_row) return;
    device const float* centre = query + ulong(turn) * dim;
    bool open = is_finite_point(centre, dim);
    uint row = turn;
    uint own_leaf = NOTHING;
    float3 q;
    if (own_points) {
        // a point that takes no part is nowhere in the tree
        for (uint slot = lane; !open && slot < width; slot += 32) {
            ((device uint*)distance)[ulong(turn) * k + place + slot] = INFINITE;
            index[ulong(turn) * k + place + slot] = -1;
        }
        const float4 own = leaves[turn];
        row = as_type<uint>(own.w);
        if (row == NOTHING) return;
        q = float3(own.x, own.y, own.z);
        own_leaf = turn / 32;
        open = true;
    } else {
        const float coordinate = lane < dim ? centre[lane] : 0.0f;
        q = float3(simd_broadcast(coordinate, 0), simd_broadcast(coordinate, 1), simd_broadcast(coordinate, 2));
    }
    const long cloud = equal_clouds ? row / uint(shape[2]) : 0;
    const long from = equal_clouds ? cloud * shape[3] : first[row];
    const long to = equal_clouds ? from + shape[3] : last[row];
    const uint begin = uint(from);
    const uint end = to > from ? uint(to) : begin;

    uint key[ROWS];
    uint number[ROWS];
    start_list(key, number, width, lane);
    uint worst_key = NOTHING;
    uint worst_index = NOTHING;
    uint waiting = 0;

    // pairs up to the last place of the dispatch before are taken
    const bool any_taken = place > 0;
    const uint taken_key = any_taken ? taken[2 * ulong(row)] : 0;
    const uint taken_index = any_taken ? taken[2 * ulong(row) + 1] : 0;
    open = open && begin < end && !(any_taken && taken_index == NOTHING);

    uint level = top;  // the children are nodes of the level below; those of level 0 are points
    uint base = 0;     // number of the first child
    Child child = no_child();
    bool arrived = true;
    bool at_own = own_points;
    while (open) {
        uint leaf = own_leaf;
        if (!at_own) {
            if (arrived) {
                arrived = false;
                child = no_child();
                if (base + lane < uint(levels[2 * level - 1])) {
                    child = look_at_box(boxes, ulong(levels[2 * level - 2]) + base + lane, q, q, begin, end);
                }
            }
            const ushort pick = nearest_child(child, worst_key);
            const uint nearest = simd_broadcast(child.bound, pick);
            if (comes_before(nearest, simd_broadcast(child.least, pick), worst_key, worst_index)) {
                if (lane == pick) child = no_child();
                leaf = base + pick;
                if (level > 1) {
                    above_bound[(level - 2) * 32] = child.bound;
                    above_least[(level - 2) * 32] = child.least;
                    base = leaf * 32;
                    --level;
                    arrived = true;
                    continue;
                }
                if (leaf == own_leaf) continue;
            } else if (level != top) {
                ++level;
                base = (base >> 10) << 5;
                child.bound = above_bound[(level - 2) * 32];
                child.least = above_least[(level - 2) * 32];
                continue;
            } else {
                open = false;
            }
        }
        at_own = false;
        if (open) {
            const float4 point = leaves[ulong(leaf) * 32 + lane];
            const uint candidate_index = as_type<uint>(point.w);
            const uint candidate = point_key(point, q);
            bool wanted = candidate_index >= begin && candidate_index < end &&
                comes_before(candidate, candidate_index, worst_key, worst_index);
            if (any_taken) wanted = wanted && comes_before(taken_key, taken_index, candidate, candidate_index);
            const uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(wanted))));
            if (votes == 0) continue;
            if (wanted) {
                const uint place_in_queue = waiting + popcount(votes & ((1u << lane) - 1u));
                waiting_key[place_in_queue] = candidate;
                waiting_index[place_in_queue] = candidate_index;
            }
            waiting += popcount(votes);
        }
        if (waiting < (open ? BATCH : 1)) continue;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        const uint rest = waiting > 32 ? waiting - 32 : 0;
        const bool filled = rest + lane < waiting;
        const uint new_key = filled ? waiting_key[rest + lane] : NOTHING;
        const uint new_index = filled ? waiting_index[rest + lane] : NOTHING;
        insert_batch(key, number, new_key, new_index, lane);
        waiting = rest;
        worst_key = simd_broadcast(key[ROWS - 1], 31);
        worst_index = simd_broadcast(number[ROWS - 1], 31);
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
    const uint unused = ROWS * 32 - width;
    for (uint r = 0; r < ROWS; ++r) {
        const uint slot = r * 32 + lane;
        if (slot < unused) continue;
        const bool found = key[r] != NOTHING;
        const float d = as_type<float>(found ? key[r] : INFINITE);
        const ulong at = row * k + place + (slot - unused);
        distance[at] = euclidean && found && key[r] < INFINITE ? precise::sqrt(d) : d;
        index[at] = found ? long(number[r]) - (equal_clouds ? from : 0) : -1;
    }
    if (place + width < k && lane == 31) {
        taken[2 * ulong(row)] = key[ROWS - 1];
        taken[2 * ulong(row) + 1] = number[ROWS - 1];
    }
}
