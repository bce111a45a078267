// Structures copied out of constant memory, whole and in parts.
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

struct Box {
    packed_float3 low;
    packed_float3 high;
};
struct Scene {
    Box boxes[2];
    uint count;
};
constant Box unit = {packed_float3(0, 0, 0), packed_float3(1, 1, 1)};

static inline float width(Box box) { return box.high.x - box.low.x; }

kernel void boxes(constant Scene& scene [[buffer(0)]], constant packed_float3* points [[buffer(1)]],
                  device Box* out [[buffer(2)]], device float* x [[buffer(3)]],
                  uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
    threadgroup Box shared_box;
    Box first = scene.boxes[0];
    Box second = unit;
    if (t == 0) shared_box = scene.boxes[1];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    first.low = points[i];
    second = scene.boxes[i & 1];
    x[i] = width(scene.boxes[0]) + width(second) + width(shared_box);
    out[i] = first;
}
