/* Address spaces: helpers overloaded on them, casts, structs, threadgroup arrays of structs,
   references, program-scope constants. */
#include <metal_stdlib>
#include <metal_simdgroup>
using namespace metal;
#pragma METAL fp contract(off)

constant float limit = 4.0f;
constant constexpr uint width = 32;
constexpr constant uint table[4] = {1u, 2u, 4u, 8u};
static constant uint other = 7;
enum Order : uint { ascending = 0, descending = 1 };

struct Pair {
    float d;
    uint i;
};
struct Best {
    Pair first;
    float rest[4];
};
typedef uint3 Place;
using Index = ulong;

static inline float read(device const float* p, uint i) { return p[i]; }
static inline float read(threadgroup const float* p, uint i) { return p[i]; }
static inline float read(thread const float* p, uint i) { return p[i]; }
static inline float read(constant float* p, uint i) { return p[i]; }
inline bool before(float d, uint i, float e, uint j) { return d < e || (d == e && i < j); }
inline void exchange(thread Pair& a, thread Pair& b) {
    Pair held = a;
    a = b;
    b = held;
}
inline void keep(threadgroup Pair* best, const thread Pair& mine) {
    if (before(mine.d, mine.i, best->d, best->i)) *best = mine;
}
// A product is not a declaration: limit * x, table[0] & table[1].
static inline float product(float x) { return limit * x + float(table[0] & table[1]) + float(other); }

[[max_total_threads_per_threadgroup(1024)]]
kernel void nearest(device const float* x [[buffer(0)]], device Pair* out [[buffer(1)]],
                    constant Pair& seed [[buffer(2)]], device const float* y [[buffer(3)]],
                    constant packed_float3& centre [[buffer(4)]], device bool* flags [[buffer(5)]],
                    Place at [[thread_position_in_grid]], const uint3 grid [[threads_per_grid]],
                    uint3 local [[thread_position_in_threadgroup]],
                    uint3 size [[threads_per_threadgroup]],
                    uint index [[thread_index_in_threadgroup]]) {
    threadgroup Pair best[width];
    threadgroup Best whole;
    threadgroup float cache[32][4], spare[4];
    float own[3] = {centre.x, centre.y, centre.z};
    Pair mine = {seed.d, seed.i};
    Pair next = {read(x, at.x), at.x};
    exchange(mine, next);
    device const float* row = y + Index(at.x) * 3;
    const device float* same = row;
    cache[index][0] = read(row, 0) + read(own, 1) + read(&limit, 0) + same[1];
    spare[index & 3] = read(&cache[index][0], 0) + product(own[0]);
    if (index == 0) best[0] = mine;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    keep(best, mine);
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    whole.first = best[0];
    whole.rest[3] = as_type<float>(as_type<uint>(spare[0]) & 0x7fffffffu);
    out[at.x] = whole.first;
    flags[at.x] = local.x < size.x && grid.y == 1 && ascending == 0;
}
