// Shared text: (key, index) pairs in threadgroup memory, in segments of equal size that are sorted at
// once by a threadgroup. Comes after simd32.metal. THREADS: of a threadgroup, a power of two from 64.
//
// A thread sorts 8 consecutive pairs in registers, a simdgroup 256 by shuffles; only longer segments go
// through memory between steps. Sizes of segments are powers of two from 8 to PAIRS.

#define PAIRS_PER_THREAD 8
#define PAIRS (THREADS * PAIRS_PER_THREAD)

// Compare pairs a multiple of 2 * STRIDE apart and trade places within the registers of a thread;
// 2 * STRIDE of them ascend, the next as many descend, and so on, unless UP tells that all do as `up`.
template <uint STRIDE, bool ALTERNATE>
static inline void trade_in_thread(thread uint* key, thread uint* index, bool up, uint size) {
    for (uint row = 0; row < PAIRS_PER_THREAD; ++row) {
        if ((row & STRIDE) != 0) continue;
        const bool ascends = ALTERNATE ? (row & size) == 0 : up;
        if (comes_before(key[row + STRIDE], index[row + STRIDE], key[row], index[row]) == ascends) {
            const uint k = key[row], i = index[row];
            key[row] = key[row + STRIDE];
            index[row] = index[row + STRIDE];
            key[row + STRIDE] = k;
            index[row + STRIDE] = i;
        }
    }
}

// Pairs of the thread to or from the places where neighbouring threads have neighbouring addresses.
static inline void exchange(
    threadgroup uint* keys, threadgroup uint* indices, thread uint* key, thread uint* index, uint thread_number,
    uint other_thread, bool keep_smaller) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint row = 0; row < PAIRS_PER_THREAD; ++row) {
        keys[row * THREADS + thread_number] = key[row];
        indices[row * THREADS + thread_number] = index[row];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint row = 0; row < PAIRS_PER_THREAD; ++row) {
        const uint other_key = keys[row * THREADS + other_thread];
        const uint other_index = indices[row * THREADS + other_thread];
        if (comes_before(other_key, other_index, key[row], index[row]) == keep_smaller) {
            key[row] = other_key;
            index[row] = other_index;
        }
    }
}

// Every segment ascending over the registers of its threads. `busy`: this simdgroup has segments in use.
// All threads call it, with memory for PAIRS pairs that nobody else reads or writes meanwhile.
static inline void sort_segments(
    threadgroup uint* keys, threadgroup uint* indices, thread uint* key, thread uint* index, uint segment, bool busy,
    uint thread_number) {
    const ushort lane = ushort(thread_number & 31);
    const uint first = thread_number * PAIRS_PER_THREAD;
    if (busy) {
        trade_in_thread<1, true>(key, index, true, 2);
        trade_in_thread<2, true>(key, index, true, 4);
        trade_in_thread<1, true>(key, index, true, 4);
    }
    for (uint size = PAIRS_PER_THREAD; size <= segment; size <<= 1) {
        const bool ascends = (first & size & (segment - 1)) == 0;
        uint apart = size / 2 / PAIRS_PER_THREAD;  // threads
        for (; apart >= 32; apart >>= 1) {
            exchange(
                keys, indices, key, index, thread_number, thread_number ^ apart,
                ((thread_number & apart) == 0) == ascends);
        }
        if (!busy) continue;
        for (; apart > 0; apart >>= 1) {
            const bool keep_smaller = ((thread_number & apart) == 0) == ascends;
            for (uint row = 0; row < PAIRS_PER_THREAD; ++row)
                trade(key[row], index[row], ushort(apart), keep_smaller);
        }
        trade_in_thread<4, false>(key, index, ascends, 0);
        trade_in_thread<2, false>(key, index, ascends, 0);
        trade_in_thread<1, false>(key, index, ascends, 0);
    }
}

// Memory of a threadgroup that gathers the best pairs of some queries, a segment of `keys` and `indices`
// each.
struct Slots {
    threadgroup uint* keys;           // PAIRS
    threadgroup uint* indices;        // PAIRS
    threadgroup atomic_uint* gathered;  // pairs of a query; more than `segment`: some found no place
    threadgroup uint* bound_key;      // a pair must come before it
    threadgroup uint* bound_index;
    uint count;
    uint segment;
    uint segment_bits;
};

// Sort the pairs gathered, keep the first `width`, and lower the bounds to the last of them. Or sort
// `minima` keys of each query, which lie in `keys`: if they are more than a segment, the smallest of
// those a segment apart.
static inline void sort_slots(Slots slots, uint minima, uint width, uint thread_number) {
    const uint segment = slots.segment;
    const uint lanes = min(segment, 256u) / PAIRS_PER_THREAD;  // of a segment, in a simdgroup
    const uint in_segment = thread_number & (lanes - 1);
    uint key[PAIRS_PER_THREAD];
    uint index[PAIRS_PER_THREAD];
    for (uint row = 0; row < PAIRS_PER_THREAD; ++row) {
        const uint at = (thread_number - in_segment) * PAIRS_PER_THREAD + row * lanes + in_segment;
        const uint slot = at >> slots.segment_bits;
        const uint rank = at & (segment - 1);
        key[row] = NOTHING;
        index[row] = NOTHING;
        if (slot >= slots.count) continue;
        if (minima > 0) {
            for (uint m = rank; m < minima; m += segment) key[row] = min(key[row], slots.keys[slot * minima + m]);
        } else if (rank < atomic_load_explicit(&slots.gathered[slot], memory_order_relaxed)) {
            key[row] = slots.keys[at];
            index[row] = slots.indices[at];
        }
    }
    const bool busy = (thread_number & ~31u) * PAIRS_PER_THREAD < slots.count * segment;
    sort_segments(slots.keys, slots.indices, key, index, segment, busy, thread_number);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint row = 0; row < PAIRS_PER_THREAD; ++row) {
        const uint at = thread_number * PAIRS_PER_THREAD + row;
        if (at < slots.count * segment && (at & (segment - 1)) < width) {
            slots.keys[at] = key[row];
            slots.indices[at] = index[row];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_number < slots.count && minima == 0) {
        const uint slot = thread_number;
        const uint found = min(width, atomic_load_explicit(&slots.gathered[slot], memory_order_relaxed));
        atomic_store_explicit(&slots.gathered[slot], found, memory_order_relaxed);
        if (found == width) {
            slots.bound_key[slot] = slots.keys[slot * segment + width - 1];
            slots.bound_index[slot] = slots.indices[slot * segment + width - 1];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

// The gathered pairs of a query into a list of `width` places, which is ascending; by one simdgroup. The
// last place lowers the bound.
static inline void merge_into_list(Slots slots, uint slot, device uint2* list, uint width, ushort lane) {
    const uint gathered = min(slots.segment, atomic_load_explicit(&slots.gathered[slot], memory_order_relaxed));
    for (uint from = 0; from < gathered; from += 32) {
        const bool real = from + lane < gathered;
        uint key = real ? slots.keys[slot * slots.segment + from + lane] : NOTHING;
        uint index = real ? slots.indices[slot * slots.segment + from + lane] : NOTHING;
        sort32(key, index, lane);
        for (uint begin = 0; begin < width; begin += 32) {
            const bool listed = begin + lane < width;
            uint2 kept = uint2(NOTHING, NOTHING);
            if (listed) kept = list[begin + lane];
            uint kept_key = kept.x;
            uint kept_index = kept.y;
            // places that all come before the gathered pairs stay
            const uint first_key = simd_broadcast(key, 0);
            const uint first_index = simd_broadcast(index, 0);
            if (first_key == NOTHING) break;
            if (!comes_before(first_key, first_index, simd_broadcast(kept_key, 31), simd_broadcast(kept_index, 31)))
                continue;
            keep_smallest(kept_key, kept_index, key, index, lane);
            merge_bitonic(key, index, lane);
            if (listed) list[begin + lane] = uint2(kept_key, kept_index);
            if (begin + lane == width - 1 && kept_key != NOTHING) {
                slots.bound_key[slot] = kept_key;
                slots.bound_index[slot] = kept_index;
            }
        }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) atomic_store_explicit(&slots.gathered[slot], 0u, memory_order_relaxed);
}
