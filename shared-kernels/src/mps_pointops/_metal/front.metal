// Shared text: candidates of farthest point sampling, and the front: its best ones in order, sampled
// at once.

#define HELD 8       // candidates of one thread
#define FRONT 64     // two a lane

static inline uint votes_of(bool vote) { return uint(ulong(simd_vote::vote_t(simd_ballot(vote)))); }

// What a thread holds.
struct Candidates {
    int key[HELD];
    uint row[HELD];  // in the cloud
    Spot spot[HELD];
};

// The first N of them meet picks of the front.
template <uint N>
static inline void meet_front(
    thread Candidates& set, uint picks, threadgroup const Kept* spots, device const float* points, uint dim)
{
    for (; picks != 0; picks &= picks - 1)
        meet<N>(set.key, set.spot, kept(spots[ctz(picks)]), points, dim);
}

// The front of a threadgroup, in threadgroup memory.
struct Front {
    threadgroup uint2* found;       // key, rank: as they were found
    threadgroup uint* found_row;
    threadgroup Kept* found_spot;
    threadgroup int* key;           // in order
    threadgroup uint* row;
    threadgroup Kept* spot;
    threadgroup uint4* near;        // candidates before that are near: low half, high half; new key; key
};

// Candidates that beat the threshold of `search` become the front; places that stay empty come last
// in every order and are near to nothing. `gathered` is 0.
static inline void find_front(
    Front front, thread const Search& search, thread const Candidates& set, uint candidates, Cloud cloud,
    threadgroup atomic_uint* gathered, uint thread_number, uint threads)
{
    uint wanted = 0;
    for (uint e = 0; e < HELD; ++e) {
        if (e * threads >= candidates) break;
        bool beaten = set.key[e] > search.key;
        if (search.rank != 0) beaten = beats(set.key[e], rank_of(set.row[e], cloud), search.key, search.rank);
        wanted |= beaten ? 1u << e : 0u;
    }
    if (wanted != 0) {
        uint place = atomic_fetch_add_explicit(gathered, popcount(wanted), memory_order_relaxed);
        for (uint e = 0; e < HELD; ++e) {
            if ((wanted >> e & 1u) == 0) continue;
            front.found[place] = uint2(uint(set.key[e]), rank_of(set.row[e], cloud));
            front.found_row[place] = set.row[e];
            front.found_spot[place] = keep(set.spot[e]);
            ++place;
        }
    }
    for (uint c = search.found + thread_number; c < FRONT; c += threads) {
        front.found[c] = uint2(NOTHING, NOTHING);
        front.key[c] = -1;
        front.spot[c] = keep(set.spot[0]);
    }
}

// Puts it in order: four threads a candidate.
static inline void order_front(Front front, uint count, uint thread_number, uint threads) {
    for (uint t = thread_number; t < 4 * FRONT; t += threads) {
        const uint c = t / 4;
        const uint2 its = front.found[c];
        uint place = 0;
        for (uint j = 0; j < FRONT / 4; ++j) {
            uint2 other = front.found[4 * j + (t & 3)];
            place += beats(int(other.x), other.y, int(its.x), its.y) ? 1u : 0u;
        }
        place += simd_shuffle_xor(place, 1);
        place += simd_shuffle_xor(place, 2);
        if (c < count && (t & 3) == 0) {
            front.key[place] = int(its.x);
            front.row[place] = front.found_row[c];
            front.spot[place] = front.found_spot[c];
        }
    }
}

// Which candidates before one are nearer to it than its key, and the largest key, not below
// `lowest`, that one of those would leave it.
static inline void compare_front(
    Front front, int lowest, device const float* points, uint dim, uint thread_number, uint threads)
{
    for (uint t = thread_number; t < 4 * FRONT; t += threads) {
        const uint c = t / 4;
        const int its_key = front.key[c];
        const Spot its_spot = kept(front.spot[c]);
        uint low = 0, high_half = 0;
        int raised = -1;
        for (uint block = 0; block < FRONT; block += 16) {
            Spot other[4];
            int distance[4];
            for (uint j = 0; j < 4; ++j) {
                other[j] = kept(front.spot[block + 4 * j + (t & 3)]);
                distance[j] = int(INFINITE);
            }
            meet<4>(distance, other, its_spot, points, dim);
            for (uint j = 0; j < 4; ++j) {
                uint at = block + 4 * j + (t & 3);
                bool nearer = at < c && distance[j] < its_key;
                uint bit = nearer ? 1u << (at & 31) : 0u;
                if (block < 32) low |= bit;
                else high_half |= bit;
                raised = max(raised, nearer && distance[j] >= lowest ? distance[j] : -1);
            }
        }
        low |= simd_shuffle_xor(low, 1);
        low |= simd_shuffle_xor(low, 2);
        high_half |= simd_shuffle_xor(high_half, 1);
        high_half |= simd_shuffle_xor(high_half, 2);
        raised = max(raised, simd_shuffle_xor(raised, 1));
        raised = max(raised, simd_shuffle_xor(raised, 2));
        if ((t & 3) == 0) front.near[c] = uint4(low, high_half, uint(raised), uint(its_key));
    }
}

struct Picks {
    uint a, b;      // which of the front, in order: low and high half
    int threshold;  // no candidate has a larger key now, unless it is in `search`
    bool over;      // more picks change nothing
};

// A candidate is picked if no pick before it is near, and dropped if one is: then its key falls below
// the front, or to what `near` says at most. All simdgroups find out alike.
static inline Picks pick_front(Front front, uint count, uint room, uint lane) {
    const uint4 a = front.near[lane], b = front.near[lane + 32];
    uint open_a = count < 32 ? (1u << count) - 1 : NOTHING;
    uint open_b = count <= 32 ? 0 : count < 64 ? (1u << (count - 32)) - 1 : NOTHING;
    uint picks_a = 0, picks_b = 0;
    bool dropped_a = false, dropped_b = false;
    while ((open_a | open_b) != 0) {
        bool is_open = (open_a >> lane & 1u) != 0;
        dropped_a = dropped_a || (is_open && ((a.x & picks_a) | (a.y & picks_b)) != 0);
        bool picked_a = is_open && !dropped_a && ((a.x & open_a) | (a.y & open_b)) == 0;
        is_open = (open_b >> lane & 1u) != 0;
        dropped_b = dropped_b || (is_open && ((b.x & picks_a) | (b.y & picks_b)) != 0);
        bool picked_b = is_open && !dropped_b && ((b.x & open_a) | (b.y & open_b)) == 0;
        picks_a |= votes_of(picked_a);
        picks_b |= votes_of(picked_b);
        open_a &= ~(picks_a | votes_of(dropped_a));
        open_b &= ~(picks_b | votes_of(dropped_b));
    }
    // picks in order, while they are above the new keys
    int threshold = max(dropped_a ? int(a.z) : -1, dropped_b ? int(b.z) : -1);
    threshold = simd_max(threshold);
    picks_a &= votes_of(int(a.w) > threshold);
    picks_b &= votes_of(int(b.w) > threshold);
    uint zeros_a = picks_a & votes_of(a.w == 0), zeros_b = picks_b & votes_of(b.w == 0);
    if (((picks_a & ~zeros_a) | (picks_b & ~zeros_b)) != 0) {
        // keys of the others fall to 0 with this front, and their ranks may come before: zeros wait
        if ((zeros_a | zeros_b) != 0) threshold = max(threshold, 0);
        picks_a &= ~zeros_a;
        picks_b &= ~zeros_b;
        zeros_a = zeros_b = 0;
    }
    // one key of 0 is enough: from then on picks change nothing
    const bool over = (zeros_a | zeros_b) != 0;
    if (zeros_a != 0) picks_b = 0;
    if (zeros_a != 0) picks_a &= (zeros_a & (0u - zeros_a)) * 2 - 1;
    else if (zeros_b != 0) picks_b &= (zeros_b & (0u - zeros_b)) * 2 - 1;
    uint taken = popcount(picks_a) + popcount(picks_b);
    for (; taken > room; --taken) {  // the last ones have to wait
        if (picks_b != 0) picks_b &= ~(0x80000000u >> clz(picks_b));
        else picks_a &= ~(0x80000000u >> clz(picks_a));
    }
    Picks picks = {picks_a, picks_b, threshold, over};
    return picks;
}

// A tiny cloud by one simdgroup, pick by pick: nothing to wait for.
static inline void sample_tiny(
    Cloud cloud, device const float* points, uint pick, device long* out, constant long* shape, uint lane)
{
    const uint dim = uint(shape[DIMENSION]);
    Candidates set;
    for (uint e = 0; e < HELD; ++e) {
        uint i = e * 32 + lane;
        bool inside = i < cloud.size;
        set.row[e] = inside ? i : 0;
        set.spot[e] = spot_at(points, dim, cloud.begin + set.row[e]);
        bool eligible = inside && may_be_picked(points, cloud.begin + set.row[e], set.spot[e], shape);
        set.key[e] = eligible ? int(INFINITE) : -1;
    }
    // a start that is not finite has no distance to anything
    bool meets = is_finite_point(points + ulong(cloud.begin + pick) * dim, dim);
    for (uint made = 1; made < cloud.picks; ++made) {
        if (meets) {
            Spot centre = spot_at(points, dim, cloud.begin + pick);
            if (cloud.size <= 64) meet<2>(set.key, set.spot, centre, points, dim);
            else if (cloud.size <= 128) meet<4>(set.key, set.spot, centre, points, dim);
            else meet<HELD>(set.key, set.spot, centre, points, dim);
        }
        meets = true;
        int most = -1;
        uint rank = NOTHING, row = 0;
        for (uint e = 0; e < HELD; ++e) {
            if (e * 32 >= cloud.size) break;
            uint its_rank = rank_of(set.row[e], cloud);
            if (set.key[e] < 0 || !beats(set.key[e], its_rank, most, rank)) continue;
            most = set.key[e];
            rank = its_rank;
            row = set.row[e];
        }
        int farthest = simd_max(most);
        uint least = simd_min(most == farthest ? rank : NOTHING);
        pick = least;
        if (cloud.reversed) pick = simd_min(most == farthest && rank == least ? row : NOTHING);
        if (farthest < 0) pick = 0;  // nothing may be picked: the first point
        if (farthest <= 0) {  // picks change nothing any more
            for (uint i = made + lane; i < cloud.picks; i += 32) out[i] = long(pick + cloud.shown);
            return;
        }
        if (lane == 0) out[made] = long(pick + cloud.shown);
    }
}
