// Shared text: rows cut into parts, one a threadgroup. A part leaves one row of PART_NUMBERS numbers
// for the host, which adds the parts up when it reads them: a sum, the largest addend, and flags.

#define PART_THREADS 256
#define PART_NUMBERS 4

// What the threads of a group found, together, for each of them. Leaves the lists free.
struct Summary {
    long sum;
    long most;
    uint flags;
};

static inline void summarise(
    thread Summary& mine, threadgroup long* sums, threadgroup long* mosts, threadgroup uint* flags, uint t)
{
    sums[t] = mine.sum;
    mosts[t] = mine.most;
    flags[t] = mine.flags;
    for (uint half_of = PART_THREADS / 2; half_of > 0; half_of >>= 1) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < half_of) {
            sums[t] += sums[t + half_of];
            mosts[t] = max(mosts[t], mosts[t + half_of]);
            flags[t] |= flags[t + half_of];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    mine.sum = sums[0];
    mine.most = mosts[0];
    mine.flags = flags[0];
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

// Sum over the threads before this one, and over all. `space` has a place a simdgroup; two barriers.
static inline uint sum_before(
    uint value, thread uint& total, threadgroup uint* space, uint lane, uint simdgroup)
{
    const uint before = simd_prefix_exclusive_sum(value);
    if (lane == 31) space[simdgroup] = before + value;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint earlier = 0;
    total = 0;
    for (uint s = 0; s < PART_THREADS / 32; ++s) {
        const uint here = space[s];
        if (s < simdgroup) earlier += here;
        total += here;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return earlier + before;
}

// First place in an ascending list of `count` numbers that is not below `value`; or, `after`, above it.
static inline uint place_of(device const long* list, uint count, long value, bool after) {
    uint low = 0;
    while (count > 0) {
        const uint step = count >> 1;
        const long here = list[low + step];
        const bool go_on = after ? here <= value : here < value;
        low = go_on ? low + step + 1 : low;
        count = go_on ? count - step - 1 : step;
    }
    return low;
}

// Whether number i of a list is below the one before it.
static inline bool descends(device const long* list, uint i) {
    return i > 0 && list[i] < list[i - 1];
}
