// The smallest kernel: no include at all, language built-ins only.
kernel void scale(device float* x [[buffer(0)]], constant float& by [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
#pragma METAL fp contract(off)
    x[i] = x[i] * by;
}
