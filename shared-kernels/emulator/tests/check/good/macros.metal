#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)

#ifndef SIZE
#define SIZE 32
#endif
#define INPUT(type, name, index) device const type* name [[buffer(index)]]
#define OUTPUT(type, name, index) device type* name [[buffer(index)]]
#define LANES uint lane [[thread_index_in_simdgroup]], uint group [[simdgroup_index_in_threadgroup]]
#define KERNEL(name, type, zero)                                                          \
    kernel void name(INPUT(type, x, 0), OUTPUT(type, y, 1), constant long* sizes [[buffer(2)]], \
                     uint i [[thread_position_in_grid]], LANES) {                         \
        threadgroup type part[SIZE];                                                      \
        type mine = long(i) < sizes[0] ? x[i] : zero;                                     \
        mine = simd_sum(mine);                                                            \
        if (lane == 0) part[group] = mine;                                                \
        threadgroup_barrier(mem_flags::mem_threadgroup);                                  \
        if (i == 0) y[0] = part[0];                                                       \
    }
KERNEL(total_float, float, 0.0f)
KERNEL(total_int, int, 0)
KERNEL(total_half, half, 0.0h)

#if __METAL_VERSION__ >= 320
#error "this branch belongs to a later version"
#endif
