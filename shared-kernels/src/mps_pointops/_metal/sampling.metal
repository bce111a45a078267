// Shared text: clouds of farthest point sampling, their tie order, and points and picks.
//
// nearest[i] holds the bits of the squared distance of point i to its nearest pick so far, or -1 for
// a point that is never picked. Points are kept in chunks of 128, which one simdgroup
// updates; a box around those of a chunk that may be picked tells which picks are too far to matter.

#define EACH 4              // points of one thread in a chunk
#define CHUNK (32 * EACH)
#define STAGED 256          // picks in threadgroup memory at a time
#define LISTED 64           // candidates that a threadgroup lists

// Places of the numbers in `shape`.
#define DIMENSION 0
#define EQUAL 1             // all clouds have SIZE points and PICKS picks
#define SIZE 2
#define PICKS 3
#define START 4             // first pick of every cloud, or negative: they differ
#define SKIP 5
#define REVERSED 6
#define CLOUDS 7
#define ALONE 8             // logarithm of the largest cloud that one threadgroup samples by itself
#define GROUP 9             // logarithm of the points of a threadgroup that updates
#define ORDER 10            // of the points in chunks:
#define SORTED 1            // that of `leaves`; else as they come,
#define DEALT 2             // dealt out
#define FIRST 11            // first dispatch for these clouds: nothing was set up
#define MODE 12             // what is done:
#define WHOLE 0             // small clouds from the first pick to the last
#define LISTS 1             // the second half of a round; in `fps_update`, the first
#define REST 2              // what rounds left over
#define BASE 13             // number of the dispatch's first threadgroup
#define ROOM 14             // picks of one round at most
#define BUDGET 15           // distances after which a threadgroup ends, negative for no end
#define HOLD 16             // candidates of one threadgroup at most

struct Cloud {
    uint number;
    uint begin;             // first point in the input
    uint size;
    uint picks;
    ulong out_begin;        // first pick in `out`
    ulong shown;            // a pick is shown as its number in the cloud plus this
    bool reversed;          // tie order: bit-reversed thread of a block, then row
    uint bits;              // logarithm of the block's threads
};

static inline Cloud make_cloud(
    constant long* shape, device const long* ptr, device const long* out_ptr, uint number)
{
    Cloud cloud;
    cloud.number = number;
    if (shape[EQUAL] != 0) {
        cloud.size = uint(shape[SIZE]);
        cloud.picks = uint(shape[PICKS]);
        cloud.begin = number * cloud.size;
        cloud.out_begin = ulong(number) * cloud.picks;
        cloud.shown = 0;
    } else {
        cloud.begin = uint(ptr[number]);
        cloud.size = uint(ptr[number + 1]) - cloud.begin;
        cloud.out_begin = ulong(out_ptr[number]);
        cloud.picks = uint(ulong(out_ptr[number + 1]) - cloud.out_begin);
        cloud.shown = cloud.begin;
    }
    cloud.reversed = shape[REVERSED] != 0;
    cloud.bits = min(9u, 31u - clz(max(cloud.size, 1u)));
    return cloud;
}

// The last cloud that begins in, or before, run `run` of 2^shift points.
static inline uint last_begun(device const long* ptr, uint clouds, uint shift, uint run) {
    uint low = 0, high = clouds;
    while (high - low > 1) {
        uint middle = (low + high) / 2;
        if (uint(ptr[middle]) >> shift <= run) low = middle;
        else high = middle;
    }
    return low;
}

// The first threadgroup of a large cloud among those that update.
static inline uint first_slot(constant long* shape, Cloud cloud) {
    uint shift = uint(shape[GROUP]);
    if (shape[EQUAL] != 0) return cloud.number * ((cloud.size + (1u << shift) - 1) >> shift);
    // twice as many as points would need, so that large clouds, which fill one, do not overlap
    return cloud.begin >> (shift - 1);
}

static inline uint cloud_of_slot(constant long* shape, device const long* ptr, uint slot) {
    uint shift = uint(shape[GROUP]);
    if (shape[EQUAL] != 0) return slot / ((uint(shape[SIZE]) + (1u << shift) - 1) >> shift);
    return last_begun(ptr, uint(shape[CLOUDS]), shift - 1, slot);
}

static inline uint chunks_of_group(constant long* shape) { return (1u << uint(shape[GROUP])) / CHUNK; }

static inline uint start_of(constant long* shape, device const long* start, Cloud cloud) {
    return uint(shape[START] < 0 ? start[cloud.number] : shape[START]);
}

static inline uint rank_of(uint i, Cloud cloud) {
    if (!cloud.reversed) return i;
    uint rows = (cloud.size >> cloud.bits) + 1;
    uint thread_number = i & ((1u << cloud.bits) - 1);
    uint reversed = cloud.bits == 0 ? 0 : reverse_bits(thread_number) >> (32 - cloud.bits);
    return reversed * rows + (i >> cloud.bits);
}

static inline uint rank_bits(Cloud cloud) {
    uint ranks = cloud.reversed ? ((cloud.size >> cloud.bits) + 1) << cloud.bits : cloud.size;
    return 32u - clz(ranks);
}

// Where a point is: in registers, and as kept in threadgroup memory.
#if DIM == 3
struct Spot { float x, y, z; };
typedef float4 Kept;

static inline Spot spot_at(device const float* points, uint dim, uint row) {
    device const float* p = points + ulong(row) * dim;
    // missing coordinates of 0 change no distance
    float y = p[dim > 1 ? 1 : 0], z = p[dim > 2 ? 2 : 0];
    Spot spot = {p[0], dim > 1 ? y : 0.0f, dim > 2 ? z : 0.0f};
    return spot;
}
static inline Kept keep(Spot spot) { return float4(spot.x, spot.y, spot.z, 0.0f); }
static inline Spot kept(Kept k) {
    Spot spot = {k.x, k.y, k.z};
    return spot;
}
static inline int distance_of(device const float* points, uint dim, Spot a, Spot b) {
    return as_type<int>(squared_norm3(a.x - b.x, a.y - b.y, a.z - b.z));
}
#else
typedef uint Spot;  // its row in the input
typedef uint Kept;
static inline Spot spot_at(device const float* points, uint dim, uint row) { return row; }
static inline Kept keep(Spot spot) { return spot; }
static inline Spot kept(Kept k) { return k; }
static inline int distance_of(device const float* points, uint dim, Spot a, Spot b) {
    return int(distance_key(points + ulong(a) * dim, points + ulong(b) * dim, dim, 1.0f));
}
#endif

// Keys of N points meet a pick. Reads of the points are under way together.
template <uint N>
static inline void meet(
    thread int* key, thread const Spot* spot, Spot pick, device const float* points, uint dim)
{
#if DIM == 3
    for (uint e = 0; e < N; ++e) key[e] = min(key[e], distance_of(points, dim, spot[e], pick));
#else
    float sum[N];
    for (uint e = 0; e < N; ++e) sum[e] = 0.0f;
    device const float* at = points + ulong(pick) * dim;
    for (uint d = 0; d < dim; ++d) {
        float coordinate = at[d];
        for (uint e = 0; e < N; ++e)
            sum[e] = accumulate(sum[e], points[ulong(spot[e]) * dim + d] - coordinate);
    }
    for (uint e = 0; e < N; ++e) key[e] = min(key[e], as_type<int>(sum[e]));
#endif
}

// What a lane holds of a chunk.
struct Part {
    int key[EACH];
    uint row[EACH];         // in the cloud
    Spot spot[EACH];
#if DIM == 3
    float4 low, high;       // box of the chunk's points that may be picked
#endif
};

// Whether the point in row `row` of the input is a candidate at all.
static inline bool may_be_picked(device const float* points, uint row, Spot spot, constant long* shape) {
    const uint dim = uint(shape[DIMENSION]);
    if (!is_finite_point(points + ulong(row) * dim, dim)) return false;
#if DIM == 3
    // float sum against the double 1e-3: the same as below the next float, 0x3a83126f
    if (shape[SKIP] != 0) return as_type<uint>(squared_norm3(spot.x, spot.y, spot.z)) >= 0x3a83126fu;
#endif
    return true;
}

// Points in a row often lie together, and many far ones would be one threadgroup's, which lists only
// some of its own. Runs of 8 of them can be dealt to chunks instead.
static inline bool deals_runs(constant long* shape) { return shape[ORDER] == DEALT && shape[MODE] != WHOLE; }

// Where a lane's point e of a chunk is among the points of the cloud; not below its size if nowhere.
static inline uint place_of(uint chunk, uint e, uint lane, Cloud cloud, constant long* shape) {
    if (!deals_runs(shape)) return chunk * CHUNK + e * 32 + lane;
    const uint chunks = (cloud.size + CHUNK - 1) / CHUNK;
    if (chunk >= chunks) return cloud.size;
    return ((e * 4 + (lane >> 3)) * chunks + chunk) * 8 + (lane & 7u);
}

// Chunk number `chunk` of the cloud; in the first dispatch it is set up. Its box is kept in `box`
// where chunks are loaded often.
static inline void load_chunk(
    thread Part& part, Cloud cloud, uint chunk, device const float* points,
    device const float4* leaves, device const int* nearest, device float4* box,
    constant long* shape, bool first, uint lane)
{
    const bool boxed = shape[MODE] != WHOLE;
    const uint dim = uint(shape[DIMENSION]);
    for (uint e = 0; e < EACH; ++e) {
        uint i = place_of(chunk, e, lane, cloud, shape);
        bool inside = i < cloud.size;
        uint place = cloud.begin + (inside ? i : 0);
        uint row = place;
#if DIM == 3
        if (shape[ORDER] == SORTED) {
            float4 leaf = leaves[place];
            Spot spot = {leaf.x, leaf.y, leaf.z};
            part.spot[e] = spot;
            row = as_type<uint>(leaf.w);
        } else {
            part.spot[e] = spot_at(points, dim, row);
        }
#else
        part.spot[e] = row;
#endif
        part.row[e] = row - cloud.begin;
        if (first) {
            bool eligible = inside && row != NOTHING && may_be_picked(points, row, part.spot[e], shape);
            part.key[e] = eligible ? int(INFINITE) : -1;
        } else {
            int key = nearest[place];
            part.key[e] = inside ? key : -1;
        }
    }
#if DIM == 3
    if (first || !boxed) {
        float4 low = INFINITY;
        float4 high = -INFINITY;
        for (uint e = 0; e < EACH; ++e) {
            float4 at = keep(part.spot[e]);
            if (part.key[e] >= 0) {
                low = min(low, at);
                high = max(high, at);
            }
        }
        part.low = float4(simd_min(low.x), simd_min(low.y), simd_min(low.z), 0.0f);
        part.high = float4(simd_max(high.x), simd_max(high.y), simd_max(high.z), 0.0f);
        if (boxed && lane == 0) {
            box[0] = part.low;
            box[1] = part.high;
        }
    } else {
        part.low = box[0];
        part.high = box[1];
    }
#endif
}

// The farthest point of a chunk, for all lanes.
static inline int farthest_of(thread const Part& part) {
    return simd_max(max(max(part.key[0], part.key[1]), max(part.key[2], part.key[3])));
}

// The points of a chunk meet the picks in `staged`. No distance to one of those is NaN.
static inline void meet_picks(
    thread Part& part, device const float* points, uint dim, threadgroup const Kept* staged,
    uint count, uint lane)
{
    int farthest = farthest_of(part);
    for (uint base = 0; base < count; base += 32) {
        bool near = base + lane < count;
#if DIM == 3
        if (near) {
            Spot pick = kept(staged[base + lane]);
            // the operations of a distance in their order: rounding never lifts it above one
            float x = max(max(part.low.x - pick.x, pick.x - part.high.x), 0.0f);
            float y = max(max(part.low.y - pick.y, pick.y - part.high.y), 0.0f);
            float z = max(max(part.low.z - pick.z, pick.z - part.high.z), 0.0f);
            near = as_type<int>(squared_norm3(x, y, z)) < farthest;
        }
#endif
        uint votes = uint(ulong(simd_vote::vote_t(simd_ballot(near))));
        if (votes == 0) continue;
        if (votes == 0xffffffffu) {
            for (uint j = 0; j < 32; ++j)
                meet<EACH>(part.key, part.spot, kept(staged[base + j]), points, dim);
        } else {
            for (; votes != 0; votes &= votes - 1)
                meet<EACH>(part.key, part.spot, kept(staged[base + ctz(votes)]), points, dim);
        }
        farthest = farthest_of(part);
    }
}

static inline void store_chunk(
    thread const Part& part, Cloud cloud, uint chunk, device int* nearest, constant long* shape, uint lane)
{
    for (uint e = 0; e < EACH; ++e) {
        uint i = place_of(chunk, e, lane, cloud, shape);
        if (i < cloud.size) nearest[cloud.begin + i] = part.key[e];
    }
}

// Brings up to STAGED picks, from number `from` on, into threadgroup memory; returns how many.
// Call between barriers.
static inline uint stage(
    threadgroup Kept* staged, Cloud cloud, device const float* points, device const long* out,
    uint dim, uint from, uint to, uint thread_number, uint threads)
{
    uint count = min(to - from, uint(STAGED));
    for (uint i = thread_number; i < count; i += threads) {
        uint row = uint(ulong(out[cloud.out_begin + from + i]) - cloud.shown) + cloud.begin;
        staged[i] = keep(spot_at(points, dim, row));
    }
    return count;
}

// The same for the start, which has no distance to anything if it is not finite.
static inline uint stage_start(
    threadgroup Kept* staged, Cloud cloud, device const float* points, device const long* start,
    constant long* shape, uint dim, uint thread_number)
{
    uint row = start_of(shape, start, cloud) + cloud.begin;
    if (thread_number == 0) staged[0] = keep(spot_at(points, dim, row));
    return is_finite_point(points + ulong(row) * dim, dim) ? 1 : 0;
}

// Entry i of a cloud's lists, or of its points: where its key is, and its row in the cloud. In lists
// a row lies LISTED places behind its key.
static inline uint place_of_entry(uint i, bool listed) { return listed ? i + (i & ~(LISTED - 1u)) : i; }

static inline uint row_of_entry(
    uint place, bool listed, device const int* keys, constant long* shape, Cloud cloud,
    device const float4* leaves)
{
    if (listed) return uint(keys[place + LISTED]);
    if (shape[ORDER] != SORTED) return place;
    return as_type<uint>(leaves[cloud.begin + place].w) - cloud.begin;
}
