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
