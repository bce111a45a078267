// Random walks, a thread a walk.
//
// Random numbers are a hash of (walk, step, attempt) under a key, so a later dispatch can continue a
// walk and the order of threads does not matter. An edge of the row is proposed and accepted with its
// weight. Where edges back have the largest weight they are drawn apart, as a group of known weight;
// the others then need few attempts. After ATTEMPTS rejections the row is summed and the edge chosen
// exactly. Everything is an integer: the same walks on every device, in safe and fast math.

#define ATTEMPTS 64
#define ONE 0x100000000ul
#define BACK 0
#define NEAR 1
#define FAR 2

#if WIDE
typedef long place_t;
#else
typedef int place_t;
#endif

// Philox4x32-10.
static inline uint4 philox(uint4 c, uint2 key) {
    for (uint i = 0; i < 10; ++i) {
        uint2 low = uint2(c.x * 0xD2511F53u, c.z * 0xCD9E8D57u);
        uint2 high = uint2(mulhi(c.x, 0xD2511F53u), mulhi(c.z, 0xCD9E8D57u));
        c = uint4(high.y ^ c.y ^ key.x, low.y, high.x ^ c.w ^ key.y, low.x);
        key += uint2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// Upper 64 bits of a product of 64-bit numbers.
static inline ulong high_product(ulong a, ulong b) {
    ulong a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    ulong middle = a1 * b0 + (a0 * b0 >> 32);
    ulong other = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

struct Graph {
    device const place_t* rowptr;
    device const place_t* col;
    long nodes;
    long edges;
};

struct Row {
    uint begin;
    uint size;
};

// Edges of a node; none where the node, or what rowptr says of it, is outside the graph.
static inline Row row_of(Graph graph, long node) {
    Row row = {0, 0};
    if (node < 0 || node >= graph.nodes) return row;
    long begin = graph.rowptr[node], end = graph.rowptr[node + 1];
    if (begin < 0 || end > graph.edges || end <= begin) return row;
    row.begin = uint(begin);
    row.size = uint(end - begin);
    return row;
}

// The first edge of a row whose target is not below `target`.
static inline uint lower_bound(device const place_t* col, Row row, long target) {
    uint low = row.begin, high = row.begin + row.size;
    while (low < high) {
        uint middle = low + (high - low) / 2;
        if (long(col[middle]) < target) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Whether an edge leads back to the previous node, or to one with an edge to it, or to another.
static inline uint kind_of(Graph graph, uint edge, long previous) {
    long target = graph.col[edge];
    if (target == previous) return BACK;
    Row row = row_of(graph, target);
    uint found = lower_bound(graph.col, row, previous);
    return found < row.begin + row.size && long(graph.col[found]) == previous ? NEAR : FAR;
}

static inline ulong joined(uint low, uint high) {
    return ulong(high) << 32 | ulong(low);
}

static inline uint draw_uniform(Row row, uint walk, uint step, uint2 key) {
    return row.begin + mulhi(philox(uint4(walk, step, 0, 0), key).x, row.size);
}

static inline uint draw_weighted(
    Graph graph, Row row, long previous, constant long* weights, uint walk, uint step, uint2 key) {
    const ulong back = ulong(weights[BACK]);
    ulong most = ulong(max(weights[NEAR], weights[FAR]));
    const bool apart = back > most;
    uint first_back = row.begin, returning = 0;
    if (apart) {
        first_back = lower_bound(graph.col, row, previous);
        returning = lower_bound(graph.col, row, previous + 1) - first_back;
    } else {
        most = ONE;
    }
    const ulong group = ulong(returning) * back;
    const ulong all = group + ulong(row.size) * most;
    for (uint attempt = 0; attempt < ATTEMPTS; ++attempt) {
        uint4 words = philox(uint4(walk, step, attempt, 0), key);
        if (returning > 0 && high_product(joined(words.z, words.w), all) < group)
            return first_back + mulhi(words.x, returning);
        uint edge = row.begin + mulhi(words.x, row.size);
        uint kind = kind_of(graph, edge, previous);
        bool may = kind != BACK || !apart;
        if (may && (ulong(words.y) * most >> 32) < ulong(weights[kind])) return edge;
    }
    // all weights, then the edge where a random part of them is reached
    ulong sum = 0;
    const uint end = row.begin + row.size;
    for (uint edge = row.begin; edge < end; ++edge)
        sum += ulong(weights[kind_of(graph, edge, previous)]);
    uint4 words = philox(uint4(walk, step, ATTEMPTS, 0), key);
    const ulong limit = high_product(joined(words.z, words.w), sum);
    sum = 0;
    for (uint edge = row.begin; edge < end; ++edge) {
        sum += ulong(weights[kind_of(graph, edge, previous)]);
        if (sum > limit) return edge;
    }
    return end - 1;  // not reached: the limit is below the sum
}

[[max_total_threads_per_threadgroup(256)]]
kernel void random_walk(
    device const place_t* rowptr [[buffer(0)]],  // (N + 1)
    device const place_t* col [[buffer(1)]],     // (E), with weights ascending in each row
    device const long* start [[buffer(2)]],      // (S)
    device const int* seed [[buffer(3)]],        // (4) 16 bits each
    device long* nodes [[buffer(4)]],            // (S, L + 1)
    device long* edges [[buffer(5)]],            // (S, L)
    constant long* shape [[buffer(6)]],  // 3 weights, uniform, N, E, L, steps from, to, walks from, to
    uint thread_number [[thread_position_in_grid]])
{
    Graph graph = {rowptr, col, shape[4], shape[5]};
    const bool uniform_steps = shape[3] != 0;
    const long length = shape[6], first = shape[7], last = shape[8];
    const long walk = shape[9] + long(thread_number);
    if (walk >= shape[10]) return;

    uint2 key = uint2(
        uint(seed[0] & 0xffff) | uint(seed[1] & 0xffff) << 16,
        uint(seed[2] & 0xffff) | uint(seed[3] & 0xffff) << 16);
    device long* path = nodes + walk * (length + 1);
    device long* taken = edges + walk * length;
    if (first == 0) path[0] = start[walk];
    long node = path[first];
    long previous = first > 0 ? path[first - 1] : -1;

    for (long step = first; step < last; ++step) {
        Row row = row_of(graph, node);
        long edge = -1;
        if (row.size == 1) edge = long(row.begin);
        else if (row.size > 0 && (uniform_steps || step == 0))
            edge = long(draw_uniform(row, uint(walk), uint(step), key));
        else if (row.size > 0)
            edge = long(draw_weighted(graph, row, previous, shape, uint(walk), uint(step), key));
        previous = node;
        if (edge >= 0) node = col[edge];
        taken[step] = edge;
        path[step + 1] = node;
    }
}
