// For every target the sum of what points to it, one addend after the other in ascending position: the
// same bits on every run, whatever points where.
//
// add_chunks: a threadgroup owns ROWS rows (cloud, channel) and goes through the chunks of positions that
// chunks.metal has sorted. Values are read in order. In a chunk one thread a target adds to the sum,
// which is in threadgroup memory: its own value and those of later positions, which their threads have
// put in threadgroup memory too. Meanwhile the next chunk is read.
// add_far_chunks: the sums are in `out`, where they do not fit.
// add_positions: one thread a sum goes through the inverse index. For few rows of many positions.
//
// WEIGHTED: positions come in threes, each with a weight, and share one value.
// ROWS: 1 or 2. HELD: KiB of threadgroup memory.

#define CHUNK 1024
#define ONLY 0
#define FIRST 1
#define LATER 2
#define NONE 3
#define HELD_FLOATS (HELD * 256)
#define STAGE (CHUNK * ROWS)
#define THREADS 512
#define EACH (CHUNK / THREADS)
#define AT_ONCE 4

static inline float addend(device const float* row, device const float* weights, uint m) {
#if WEIGHTED
    const float part = row[m / 3] * weights[m];
    return part;
#else
    return row[m];
#endif
}

// What a thread needs of a chunk.
struct Chunk {
    float value[EACH * ROWS];
    uint2 task[EACH];
};

// The rows of a threadgroup and what it reads. Where there is one row too few, it is the first again.
struct Task {
    device const float* values[ROWS];
    device const float* weights;
    device const uint2* tasks;
    ulong row;
    uint rows, size, count;
};

static inline Chunk read_chunk(thread const Task& task, uint number, uint t) {
    Chunk chunk;
    const uint begin = number * CHUNK + t;
    device const uint2* tasks = task.tasks + begin;
    for (uint e = 0; e < EACH; ++e) {
        chunk.task[e] = tasks[e * THREADS];  // whole chunks are there
        for (uint r = 0; r < ROWS; ++r)
            chunk.value[e * ROWS + r] =
                begin + e * THREADS < task.count ? addend(task.values[r], task.weights, begin + e * THREADS) : 0.0f;
    }
    return chunk;
}

// Two stages take turns, so that one barrier a chunk does.
template <typename Sums>
static inline void add_all(Sums sums, threadgroup float* stages, thread const Task& task, uint chunks, uint t) {
    Chunk chunk = read_chunk(task, 0, t);
    for (uint number = 0; number < chunks; ++number) {
        threadgroup float* stage = stages + (number & 1) * STAGE;
        for (uint e = 0; e < EACH; ++e)
            if (chunk.task[e].x % 4 == LATER)
                for (uint r = 0; r < ROWS; ++r)
                    stage[r * CHUNK + (chunk.task[e].y & 0xffff)] = chunk.value[e * ROWS + r];
        const Chunk now = chunk;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        if (number + 1 < chunks) chunk = read_chunk(task, number + 1, t);
        for (uint e = 0; e < EACH; ++e) {
            const uint kind = now.task[e].x % 4, target = now.task[e].x / 4;
            if (kind == LATER || kind == NONE) continue;
            float sum[ROWS];
            for (uint r = 0; r < ROWS; ++r)
                sum[r] = sums[(r < task.rows ? r : 0) * task.size + target] + now.value[e * ROWS + r];
            if (kind == FIRST) {
                uint k = (now.task[e].y & 0xffff) + 1;
                const uint end = k + (now.task[e].y >> 16);
                for (; k + AT_ONCE <= end; k += AT_ONCE) {
                    float held[AT_ONCE * ROWS];
                    for (uint i = 0; i < AT_ONCE; ++i)
                        for (uint r = 0; r < ROWS; ++r) held[i * ROWS + r] = stage[r * CHUNK + k + i];
                    for (uint i = 0; i < AT_ONCE; ++i)
                        for (uint r = 0; r < ROWS; ++r) sum[r] = sum[r] + held[i * ROWS + r];
                }
                for (; k < end; ++k)
                    for (uint r = 0; r < ROWS; ++r) sum[r] = sum[r] + stage[r * CHUNK + k];
            }
            for (uint r = 0; r < ROWS; ++r)
                if (r < task.rows) sums[r * task.size + target] = sum[r];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

static inline Task task_of(
    device const float* values, device const float* weights, device const uint2* tasks, constant long* shape,
    uint group)
{
    const uint channels = uint(shape[0]), count = uint(shape[2]), chunks = uint(shape[3]);
    const uint blocks = (channels + ROWS - 1) / ROWS;
    const uint cloud = group / blocks, channel = group % blocks * ROWS;
    const uint length = WEIGHTED ? count / 3 : count;
    Task task;
    task.row = ulong(cloud) * channels + channel;
    task.rows = min(uint(ROWS), channels - channel);
    task.size = uint(shape[1]);
    task.count = count;
    for (uint r = 0; r < ROWS; ++r) task.values[r] = values + (task.row + (r < task.rows ? r : 0)) * length;
    task.weights = weights + ulong(cloud) * count;
    task.tasks = tasks + ulong(cloud) * chunks * CHUNK;
    return task;
}

[[max_total_threads_per_threadgroup(512)]]
kernel void add_chunks(
    device const float* values [[buffer(0)]],   // (B, C, M), or (B, C, M / 3)
    device const float* weights [[buffer(1)]],  // (B, M) if WEIGHTED
    device const uint2* tasks [[buffer(2)]],    // (B, chunks, CHUNK)
    device float* out [[buffer(3)]],            // (B, C, N)
    constant long* shape [[buffer(4)]],         // C, N, M, chunks, first group
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]])
{
    threadgroup float held[HELD_FLOATS];  // two stages, then the sums
    const Task task = task_of(values, weights, tasks, shape, group + uint(shape[4]));
    threadgroup float* sums = held + 2 * STAGE;
    for (uint i = t; i < task.rows * task.size; i += THREADS) sums[i] = 0.0f;
    add_all(sums, held, task, uint(shape[3]), t);
    for (uint i = t; i < task.rows * task.size; i += THREADS) out[task.row * task.size + i] = sums[i];
}

[[max_total_threads_per_threadgroup(512)]]
kernel void add_far_chunks(
    device const float* values [[buffer(0)]],
    device const float* weights [[buffer(1)]],
    device const uint2* tasks [[buffer(2)]],
    device float* out [[buffer(3)]],
    constant long* shape [[buffer(4)]],         // as above
    uint group [[threadgroup_position_in_grid]],
    uint t [[thread_index_in_threadgroup]])
{
    threadgroup float stages[2 * STAGE];
    const Task task = task_of(values, weights, tasks, shape, group + uint(shape[4]));
    device float* sums = out + task.row * task.size;
    for (ulong i = t; i < ulong(task.rows) * task.size; i += THREADS) sums[i] = 0.0f;
    add_all(sums, stages, task, uint(shape[3]), t);
}

[[max_total_threads_per_threadgroup(256)]]
kernel void add_positions(
    device const float* values [[buffer(0)]],   // (B, C, M), or (B, C, M / 3)
    device const float* weights [[buffer(1)]],  // (B, M) if WEIGHTED
    device const int* order [[buffer(2)]],      // (B * M) positions by target
    device const long* first [[buffer(3)]],     // (B * N + 1) where those of a target begin
    device float* out [[buffer(4)]],            // (B, C, N)
    constant long* shape [[buffer(5)]],         // C, N, M, first, end
    uint thread_number [[thread_position_in_grid]])
{
    const uint channels = uint(shape[0]), size = uint(shape[1]), count = uint(shape[2]);
    const ulong i = ulong(shape[3]) + thread_number;
    if (i >= ulong(shape[4])) return;
    const uint n = uint(i % size);
    const ulong row = i / size, cloud = row / channels;
    const ulong target = cloud * size + n;
    const uint base = uint(cloud * count);
    device const float* from = values + row * (WEIGHTED ? count / 3 : count);
    device const float* weight = weights + cloud * count;
    float sum = 0.0f;
    ulong j = ulong(first[target]);
    const ulong end = ulong(first[target + 1]);
    for (; j + 2 * AT_ONCE <= end; j += 2 * AT_ONCE) {
        float held[2 * AT_ONCE];
        for (uint k = 0; k < 2 * AT_ONCE; ++k) held[k] = addend(from, weight, uint(order[j + k]) - base);
        for (uint k = 0; k < 2 * AT_ONCE; ++k) sum = sum + held[k];
    }
    for (; j < end; ++j) sum = sum + addend(from, weight, uint(order[j]) - base);
    out[i] = sum;
}
