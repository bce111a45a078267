// Shared text: a threshold that a bounded number of keys beat, found by counting.
//
// A key is (int, rank): larger ints come first, then smaller ranks; ranks are unique and negative
// ints take no part. (key, rank) beats (other, other_rank) if it comes before it. A search starts
// from a floor and raises it until at most `limit` of the keys that beat the floor beat the
// threshold. Each pass counts keys in 256 bins: of the largest octave first, then, inside the bin
// where the count passes the limit, ever finer ones, and of equal keys by rank. So many equal keys
// cost a few passes more, never a key too many.
//
//     begin; do { for all keys: tally; settle; barrier; } while (narrow(...))
//
// The threads of a threadgroup search together. Three sets of bins take turns: one is counted in,
// one is read, one is cleared, so that a pass needs one barrier.

#define BINS 256

struct Search {
    int floor_key;
    uint floor_rank;
    int high;        // keys above are among `found`
    uint base;       // ranks below, of keys equal to `high`, are too, once by_rank
    uint shift;      // keys, or ranks, of one bin, as a power of two
    bool by_rank;
    bool inside;     // the limit is passed within the bins
    uint rank_bits;  // ranks are below its power of two
    uint pass;
    uint rest;       // keys that this thread put into the last bin
    int key;         // the threshold
    uint rank;
    uint found;      // keys that beat it
};

static inline bool beats(int key, uint rank, int other, uint other_rank) {
    return key > other || (key == other && rank < other_rank);
}

static inline uint shift_for(uint range) { return 24u - min(24u, clz(range)); }

// All keys are at most `high`.
static inline void begin_search(thread Search& s, int high, int floor_key, uint floor_rank) {
    s.floor_key = floor_key;
    s.floor_rank = floor_rank;
    s.high = high;
    s.base = 0;
    s.shift = shift_for(min(uint(high - floor_key), 1u << 23));
    s.by_rank = false;
    s.inside = false;
    s.key = floor_key;
    s.rank = floor_rank;
    s.found = 0;
    s.rest = 0;
}

static inline void clear_bins(threadgroup atomic_uint* bins, uint thread_number, uint threads) {
    for (uint i = thread_number; i < 3 * BINS; i += threads)
        atomic_store_explicit(&bins[i], 0u, memory_order_relaxed);
}

// Whether ranks matter in this pass; the same for all threads. Else `tally` gets any.
static inline bool asks_ranks(thread const Search& s) { return s.by_rank || s.floor_rank != 0; }

static inline void tally(thread Search& s, threadgroup atomic_uint* bins, int key, uint rank) {
    bool counts = key <= s.high && key > s.floor_key;
    uint offset = uint(s.high - key);
    if (asks_ranks(s)) {
        counts = key <= s.high && beats(key, rank, s.floor_key, s.floor_rank);
        if (s.by_rank) {
            counts = counts && key == s.high && rank >= s.base;
            offset = rank - s.base;
        }
    }
    uint bin = offset >> s.shift;
    if (!counts) return;
    if (bin >= BINS - 1) {  // most keys, often: not one by one
        ++s.rest;
        return;
    }
    // a lane of `narrow` reads 8 bins in a row, at 8 places 32 apart
    uint place = (bin & 7u) * 32u + (bin >> 3);
    atomic_fetch_add_explicit(&bins[(s.pass % 3u) * BINS + place], 1u, memory_order_relaxed);
}

// After the last key of a pass, by all threads.
static inline void settle(thread Search& s, threadgroup atomic_uint* bins, uint lane) {
    uint rest = simd_sum(s.rest);
    s.rest = 0;
    if (lane == 0 && rest != 0)
        atomic_fetch_add_explicit(&bins[(s.pass % 3u) * BINS + BINS - 1], rest, memory_order_relaxed);
}

// Reads the counts; true if one more pass is due. `enough` keys end the search.
static inline bool narrow(
    thread Search& s, threadgroup atomic_uint* bins, uint limit, uint enough, uint thread_number,
    uint threads, uint lane)
{
    threadgroup atomic_uint* counts = bins + (s.pass % 3u) * BINS;
    threadgroup atomic_uint* used = bins + ((s.pass + 2u) % 3u) * BINS;
    for (uint i = thread_number; i < BINS; i += threads)
        atomic_store_explicit(&used[i], 0u, memory_order_relaxed);
    ++s.pass;
    uint count[8];
    uint own = 0;
    for (uint i = 0; i < 8; ++i) count[i] = atomic_load_explicit(&counts[i * 32 + lane], memory_order_relaxed);
    for (uint i = 0; i < 8; ++i) {
        own += count[i];
        count[i] = own;
    }
    uint before = s.found + simd_prefix_exclusive_sum(own);
    uint whole = 0;  // bins that fit
    uint fit = s.found;
    for (uint i = 0; i < 8; ++i) {
        bool fits = before + count[i] <= limit;
        whole += fits ? 1u : 0u;
        fit = fits ? before + count[i] : fit;
    }
    whole = simd_sum(whole);
    s.found = simd_max(fit);
    if (whole == BINS) {  // only where nothing was cut off yet: all keys that beat the floor
        s.key = s.floor_key;
        s.rank = s.floor_rank;
        return false;
    }
    if (s.by_rank) {
        s.rank = s.base + (whole << s.shift);
        if (s.found >= enough || s.shift == 0) return false;
        s.base = s.rank;
        s.shift -= min(s.shift, 8u);
        return true;
    }
    s.key = s.high - int(whole << s.shift);
    s.rank = 0;
    if (s.found >= enough) return false;
    s.high = s.key;
    if (whole == BINS - 1 && !s.inside) {
        s.shift = 23;  // that bin held all the smaller keys
    } else if (s.shift > 0) {
        s.shift -= min(s.shift, 8u);
    } else {
        s.by_rank = true;
        s.shift = s.rank_bits - min(s.rank_bits, 8u);
    }
    s.inside = true;
    return true;
}
