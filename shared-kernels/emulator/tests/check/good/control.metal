// Flow that the rules must not take for something else.
#include <metal_stdlib>
using namespace metal;

namespace tools {
template <typename T>
static inline T larger(T a, T b) { return a > b ? a : b; }
template <int N>
struct Stack {
    uint held[N];
    uint count;
    void push(uint value) { held[count++] = value; }
    uint pop() { return held[--count]; }
};
struct Fixed {
    Fixed() = default;
    Fixed(const thread Fixed&) = delete;
    uint value;
};
}  // namespace tools

#define AT(array, i) array[(i)]
#define UNROLL _Pragma("clang loop unroll(full)")

kernel void walk(device uint* x [[buffer(0)]], constant uint& n [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
    tools::Stack<8> stack;
    stack.count = 0;
    stack.push(i);
    uint order[3] = {0, 1, 2};
    uint best = tools::larger(AT(order, 1), x[order[i % 3]]);
    UNROLL for (uint k = 0; k < 3; ++k) best += order[k] * n & 7u;
    while (stack.count > 0) {
        uint node = stack.pop();
        if (node >= n) continue;
        switch (node & 3u) {
            case 0: best += node; break;
            case 1: [[fallthrough]];
            default: best ^= node; break;
        }
    }
    auto twice = best * 2u;
    do {
        --twice;
    } while (twice > n);
    thread uint* slot = &order[0];
    thread uint& first = *slot;
    first += sizeof(float3) == 16 ? 1 : 0;
    x[i] = twice + first + (i < n ? uint(*slot) : 0u);
}
