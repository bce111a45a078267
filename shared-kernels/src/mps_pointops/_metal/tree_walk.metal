// Shared text: what every walk of the tree of spatial/layout.py is made of. After arithmetic.metal and
// simd32.metal.
//
// Node n of a level has the nodes n * 32 + lane of the level below as children, a node of level 0 the
// places n * 32 + lane of `leaves`. `levels` has two numbers a level: where its boxes start and how many
// they are.
//
// The bound of a box is made by the operations of a distance, in their order. Rounding never swaps two
// numbers, so no point in the box has a key below it, to the bit, and walks need no slack. Of nodes as
// far as the last neighbour the smallest row in them decides.

#define LEVELS 6  // 2^31 points: 2^26 leaves, ..., 64, 2

// As squared_norm3, but added in this order in fast math too, which is free to change it elsewhere and does
// so where coordinates come as vectors: it does not see through a maximum that changes nothing.
static inline float ordered_norm3(float x, float y, float z) {
#if RULE == SEPARATE && __METAL_VERSION__ < 320
    return accumulate(max(accumulate(x * x, y), x * x), z);
#else
    return squared_norm3(x, y, z);
#endif
}

// Key that no point in a box is below, for a query or, `low` and `high`, all queries in a box.
static inline uint gap_key(float4 box_low, float4 box_high, float3 low, float3 high) {
    const float x = max(max(box_low.x - high.x, low.x - box_high.x), 0.0f);
    const float y = max(max(box_low.y - high.y, low.y - box_high.y), 0.0f);
    const float z = max(max(box_low.z - high.z, low.z - box_high.z), 0.0f);
    return as_type<uint>(ordered_norm3(x, y, z));
}

static inline uint point_key(float4 point, float3 query) {
    return as_type<uint>(ordered_norm3(point.x - query.x, point.y - query.y, point.z - query.z));
}

// What a walk has to know of a child, NOTHING in all if no row in it can be one of [begin, end).
struct Child {
    uint bound;  // of its box
    uint size;   // of its box
    uint least;  // smallest row in it
};

static inline Child no_child() {
    Child child = {NOTHING, NOTHING, NOTHING};
    return child;
}

static inline Child look_at_box(
    device const float4* boxes, ulong at, float3 low, float3 high, uint begin, uint end) {
    const float4 box_low = boxes[2 * at];
    const float4 box_high = boxes[2 * at + 1];
    const uint least = as_type<uint>(box_low.w);
    if (least >= end || as_type<uint>(box_high.w) < begin) return no_child();
    Child child;
    child.bound = gap_key(box_low, box_high, low, high);
    child.size = as_type<uint>(box_high.x - box_low.x + (box_high.y - box_low.y) + (box_high.z - box_low.z));
    child.least = least;
    return child;
}

// The lane with the nearest child. Of equally near ones the smallest box comes first, as that is where
// near points are; where only ties can enter, the one with the smallest row.
static inline ushort nearest_child(Child child, uint worst_key) {
    const uint nearest = simd_min(child.bound);
    bool among = child.bound == nearest;
    uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(among))));
    if ((votes & (votes - 1)) != 0 && nearest < worst_key) {
        const uint smallest = simd_min(among ? child.size : NOTHING);
        among = among && child.size == smallest;
        votes = uint(ulong(simd_vote::vote_t(simd_ballot(among))));
    }
    if ((votes & (votes - 1)) != 0) {
        const uint least = simd_min(among ? child.least : NOTHING);
        votes = uint(ulong(simd_vote::vote_t(simd_ballot(among && child.least == least))));
    }
    return ushort(ctz(votes));
}

#ifdef ROWS
// A list of ROWS * 32 pairs in ascending order: slot r * 32 + lane is entry r of that lane. It keeps the
// smallest pairs; its last slot is what others must come before.

// Fill a list with pairs that come after all others, but for the first slots, which no pair enters: then
// the last slot is that of pair number `width`.
static inline void start_list(thread uint* key, thread uint* index, uint width, ushort lane) {
    for (uint r = 0; r < ROWS; ++r) {
        const bool used = r * 32 + lane >= ROWS * 32 - width;
        key[r] = used ? NOTHING : 0;
        index[r] = used ? NOTHING : 0;
    }
}

// 32 pairs in any order, NOTHING where there is none.
static inline void insert_batch(thread uint* key, thread uint* index, uint new_key, uint new_index, ushort lane) {
    sort32(new_key, new_index, lane);
    for (uint r = 0; r < ROWS; ++r) {
        // entries that all come before the batch stay
        const uint first_key = simd_broadcast(new_key, 0);
        const uint first_index = simd_broadcast(new_index, 0);
        const uint last_key = simd_broadcast(key[r], 31);
        const uint last_index = simd_broadcast(index[r], 31);
        if (!comes_before(first_key, first_index, last_key, last_index)) continue;
        keep_smallest(key[r], index[r], new_key, new_index, lane);
        if (r + 1 < ROWS) merge_bitonic(new_key, new_index, lane);
    }
}
#endif
