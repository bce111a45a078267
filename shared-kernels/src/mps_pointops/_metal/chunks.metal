// Shared text: chunks of farthest point sampling in registers, and how they meet picks; after
// sampling.metal.

#define MOST_FAR 3.402823466e+38f

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
        // not infinite: fast math takes no number for that
        float4 low = float4(MOST_FAR);
        float4 high = float4(-MOST_FAR);
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
