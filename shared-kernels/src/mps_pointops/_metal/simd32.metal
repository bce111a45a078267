// Shared text: 32 (key, index) pairs, one a lane of a simdgroup, in ascending order.

// Trade with the lane whose number differs in `stride`; keep the smaller pair, or the larger one.
static inline void trade(thread uint& key, thread uint& index, ushort stride, bool keep_smaller) {
    uint other_key = simd_shuffle_xor(key, stride);
    uint other_index = simd_shuffle_xor(index, stride);
    if (comes_before(other_key, other_index, key, index) == keep_smaller) {
        key = other_key;
        index = other_index;
    }
}

// A sequence that rises and then falls becomes ascending.
static inline void merge_bitonic(thread uint& key, thread uint& index, ushort lane) {
    for (ushort stride = 16; stride > 0; stride >>= 1)
        trade(key, index, stride, (lane & stride) == 0);
}

static inline void sort32(thread uint& key, thread uint& index, ushort lane) {
    for (ushort size = 2; size <= 32; size <<= 1)
        for (ushort stride = size >> 1; stride > 0; stride >>= 1)
            trade(key, index, stride, ((lane & stride) == 0) == ((lane & size) == 0));
}

// Two ascending sequences: the 32 smallest pairs stay, ascending; the 32 largest go to `rest`,
// which rises and falls.
static inline void keep_smallest(
    thread uint& key, thread uint& index, thread uint& rest_key, thread uint& rest_index, ushort lane) {
    uint other_key = simd_shuffle_xor(rest_key, 31);
    uint other_index = simd_shuffle_xor(rest_index, 31);
    if (comes_before(other_key, other_index, key, index)) {
        rest_key = key;
        rest_index = index;
        key = other_key;
        index = other_index;
    } else {
        rest_key = other_key;
        rest_index = other_index;
    }
    merge_bitonic(key, index, lane);
}
