// Greedy matching of a list of edges: in the order of the list, an edge matches if both its ends
// are free. Done in parallel: an edge that comes first among the edges between free nodes at both its
// ends matches, whatever happens elsewhere, so rounds of such matches give the result of the list.
//
// Every node has its edges in the order of the list (entries first[v] ... first[v + 1]) and a pointer
// to the first one that leads to a free node. Pointers only advance, and after a round only the nodes
// that pointed to a node now matched look again: they are the frontier. So all rounds together look at
// an entry a fixed number of times. A round is three steps that must not overlap:
//   advance  a simdgroup a frontier node moves its pointer; its candidate is the edge it finds
//   match    a thread a frontier node: a candidate of both its ends matches
//   spread   a simdgroup a matched node: the nodes whose candidate led to it are the next frontier
// Wide frontiers run as one dispatch a step; `finish` makes the rounds of narrow ones in a single
// threadgroup, a bounded amount of work a dispatch. The order inside the lists of nodes depends on
// timing, the result does not: each node is in a list at most once, and steps treat nodes apart.

// counts: nodes in the frontier in even and in odd rounds, and matched in this round
#define FRONTIER 0
#define FRESH 2
#define FEW 4  // nodes of a frontier that are no work for more than a simdgroup

[[max_total_threads_per_threadgroup(256)]]
kernel void prepare(
    device const int* row [[buffer(0)]],        // (E)
    device const int* col [[buffer(1)]],        // (E)
    device const uint* slots [[buffer(2)]],     // (2E) edge * 2 + end, by node, then in order
    device const uint* first [[buffer(3)]],     // (N + 1) where the entries of a node begin
    device uint* neighbor [[buffer(4)]],        // (2E) where an entry leads
    device uint* pointer [[buffer(5)]],         // (N)
    device uint* candidate [[buffer(6)]],       // (N)
    device uint* mate [[buffer(7)]],            // (N)
    device uint* frontier [[buffer(8)]],        // (N)
    device uint* counts [[buffer(9)]],          // (3)
    constant long* shape [[buffer(10)]],        // N, 2E
    uint i [[thread_position_in_grid]])
{
    const uint nodes = uint(shape[0]);
    if (i < uint(shape[1])) {
        uint slot = slots[i];
        neighbor[i] = uint((slot & 1) ? row[slot >> 1] : col[slot >> 1]);
    }
    if (i < nodes) {
        pointer[i] = first[i];
        candidate[i] = NOTHING;
        mate[i] = NOTHING;
        frontier[i] = i;
    }
    if (i < 3) counts[i] = i == FRONTIER ? nodes : 0;
}

// What the steps read and write.
struct Graph {
    device const uint* slots;
    device const uint* first;
    device const uint* neighbor;
    device uint* pointer;
    device uint* candidate;
    device atomic_uint* mate;
};

static inline bool is_free(Graph graph, uint node) {
    return atomic_load_explicit(&graph.mate[node], memory_order_relaxed) == NOTHING;
}

// By a whole simdgroup.
static inline void advance_node(Graph graph, uint node, uint lane) {
    uint end = graph.first[node + 1];
    uint found = NOTHING;
    for (uint base = graph.pointer[node]; base < end && found == NOTHING; base += 32) {
        uint at = base + lane;
        bool leads_on = at < end && is_free(graph, graph.neighbor[min(at, end - 1)]);
        found = simd_min(leads_on ? at : NOTHING);
    }
    // lanes that went on have met since they read the pointer; if none did, it stays
    if (lane == 0) {
        graph.pointer[node] = min(found, end);
        graph.candidate[node] = found == NOTHING ? NOTHING : graph.slots[found] >> 1;
    }
}

// By a thread: whether it is this call that makes the match of the node; both its ends.
static inline bool match_node(Graph graph, uint node, thread uint& low, thread uint& high) {
    uint edge = graph.candidate[node];
    if (edge == NOTHING) return false;
    uint other = graph.neighbor[graph.pointer[node]];
    if (graph.candidate[other] != edge) return false;
    low = min(node, other);
    high = max(node, other);
    // both ends may be in the frontier: the first one makes the match
    if (atomic_exchange_explicit(&graph.mate[low], high, memory_order_relaxed) != NOTHING) return false;
    atomic_store_explicit(&graph.mate[high], low, memory_order_relaxed);
    return true;
}

// Whether an entry of a node just matched, behind that of its match, leads to a node that has to
// look again. The candidate of a matched node is the edge of its match, so such a node is free; of
// several equal edges one alone is the candidate, so it is told once.
static inline bool must_look(Graph graph, uint at) {
    return graph.candidate[graph.neighbor[at]] == graph.slots[at] >> 1;
}

#define GRAPH \
    Graph graph = {slots, first, neighbor, pointer, candidate, mate}

#define GRAPH_BUFFERS \
    device const uint* slots [[buffer(0)]], \
    device const uint* first [[buffer(1)]], \
    device const uint* neighbor [[buffer(2)]], \
    device uint* pointer [[buffer(3)]], \
    device uint* candidate [[buffer(4)]], \
    device atomic_uint* mate [[buffer(5)]]

[[max_total_threads_per_threadgroup(256)]]
kernel void advance(
    GRAPH_BUFFERS,
    device const uint* frontier [[buffer(6)]],   // (N)
    device uint* counts [[buffer(7)]],           // (3)
    constant long* shape [[buffer(8)]],          // round & 1
    uint i [[thread_position_in_grid]],
    uint threads [[threads_per_grid]],
    uint lane [[thread_index_in_simdgroup]])
{
    GRAPH;
    const uint size = counts[FRONTIER + uint(shape[0])];
    if (i == 0) counts[FRESH] = 0;
    for (uint n = i / 32; n < size; n += threads / 32) advance_node(graph, frontier[n], lane);
}

[[max_total_threads_per_threadgroup(256)]]
kernel void match(
    GRAPH_BUFFERS,
    device const uint* frontier [[buffer(6)]],   // (N)
    device uint* fresh [[buffer(7)]],            // (N) nodes matched in this round
    device atomic_uint* counts [[buffer(8)]],    // (3)
    constant long* shape [[buffer(9)]],          // round & 1
    uint i [[thread_position_in_grid]],
    uint threads [[threads_per_grid]])
{
    GRAPH;
    const uint odd = uint(shape[0]);
    const uint size = atomic_load_explicit(&counts[FRONTIER + odd], memory_order_relaxed);
    if (i == 0) atomic_store_explicit(&counts[FRONTIER + (odd ^ 1)], 0u, memory_order_relaxed);
    for (uint n = i; n < size; n += threads) {
        uint low, high;
        if (!match_node(graph, frontier[n], low, high)) continue;
        uint place = atomic_fetch_add_explicit(&counts[FRESH], 2u, memory_order_relaxed);
        fresh[place] = low;
        fresh[place + 1] = high;
    }
}

[[max_total_threads_per_threadgroup(256)]]
kernel void spread(
    GRAPH_BUFFERS,
    device uint* frontier [[buffer(6)]],         // (N) of the next round
    device const uint* fresh [[buffer(7)]],      // (N)
    device atomic_uint* counts [[buffer(8)]],    // (3)
    constant long* shape [[buffer(9)]],          // round & 1
    uint i [[thread_position_in_grid]],
    uint threads [[threads_per_grid]],
    uint lane [[thread_index_in_simdgroup]])
{
    GRAPH;
    const uint next = FRONTIER + (uint(shape[0]) ^ 1);
    const uint size = atomic_load_explicit(&counts[FRESH], memory_order_relaxed);
    for (uint n = i / 32; n < size; n += threads / 32) {
        uint node = fresh[n];
        uint end = first[node + 1];
        for (uint at = pointer[node] + 1 + lane; at < end; at += 32) {
            if (!must_look(graph, at)) continue;
            frontier[atomic_fetch_add_explicit(&counts[next], 1u, memory_order_relaxed)] = neighbor[at];
        }
    }
}

// Who makes a round meets between its steps: the threadgroup, or its first simdgroup alone.
static inline void meet(bool alone) {
    if (alone) {
        simdgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    } else {
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
}

[[max_total_threads_per_threadgroup(1024)]]
kernel void finish(
    GRAPH_BUFFERS,
    device uint* frontier [[buffer(6)]],         // (N)
    device uint* fresh [[buffer(7)]],            // (N)
    device uint* counts [[buffer(8)]],           // (3)
    constant long* shape [[buffer(9)]],          // round & 1, budget, cost of a round
    uint thread_number [[thread_index_in_threadgroup]],
    uint threads [[threads_per_threadgroup]],
    uint lane [[thread_index_in_simdgroup]],
    uint simdgroup [[simdgroup_index_in_threadgroup]],
    uint simdgroups [[simdgroups_per_threadgroup]])
{
    GRAPH;
    threadgroup atomic_uint frontier_size;
    threadgroup atomic_uint fresh_size;
    threadgroup uint shared_spent;
    const uint slot = FRONTIER + uint(shape[0]);
    const uint budget = uint(shape[1]);
    uint size = counts[slot];
    uint spent = 0;
    while (size != 0 && spent < budget) {
        // a path of falling weights has one node to look at, round after round
        const bool alone = size <= FEW;
        const uint workers = alone ? 1 : simdgroups;
        const uint stride = alone ? 32 : threads;
        if (!alone || simdgroup == 0) {
            do {
                if (thread_number == 0) {
                    atomic_store_explicit(&fresh_size, 0u, memory_order_relaxed);
                    atomic_store_explicit(&frontier_size, 0u, memory_order_relaxed);
                }
                for (uint n = simdgroup; n < size; n += workers) advance_node(graph, frontier[n], lane);
                meet(alone);
                for (uint n = thread_number; n < size; n += stride) {
                    uint low, high;
                    if (!match_node(graph, frontier[n], low, high)) continue;
                    uint place = atomic_fetch_add_explicit(&fresh_size, 2u, memory_order_relaxed);
                    fresh[place] = low;
                    fresh[place + 1] = high;
                }
                meet(alone);
                const uint matched = atomic_load_explicit(&fresh_size, memory_order_relaxed);
                for (uint n = simdgroup; n < matched; n += workers) {
                    uint node = fresh[n];
                    uint end = first[node + 1];
                    for (uint at = pointer[node] + 1 + lane; at < end; at += 32) {
                        if (!must_look(graph, at)) continue;
                        uint place = atomic_fetch_add_explicit(&frontier_size, 1u, memory_order_relaxed);
                        frontier[place] = neighbor[at];
                    }
                }
                meet(alone);
                spent += size + uint(shape[2]);
                size = atomic_load_explicit(&frontier_size, memory_order_relaxed);
                meet(alone);  // all have read the sizes
            } while (alone && size != 0 && size <= FEW && spent < budget);
        }
        if (alone) {
            if (thread_number == 0) shared_spent = spent;
            threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
            size = atomic_load_explicit(&frontier_size, memory_order_relaxed);
            spent = shared_spent;
            threadgroup_barrier(mem_flags::mem_threadgroup);  // all have read them
        }
    }
    if (thread_number == 0) counts[slot] = size;
}
