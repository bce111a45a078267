// Arithmetic on every type: vectors, packed vectors, half, bfloat, as_type, select, limits.
#include <metal_stdlib>
using namespace metal;
_Pragma("METAL fp contract(off)")

kernel void numbers(device packed_float3* p [[buffer(0)]], device float3* v [[buffer(1)]],
                    device half* h [[buffer(2)]], device bfloat* b [[buffer(3)]],
                    device long* n [[buffer(4)]], constant float& r [[buffer(5)]],
                    constant long& count [[buffer(6)]], device uchar* bytes [[buffer(7)]],
                    device float2* complex [[buffer(8)]], uint2 at [[thread_position_in_grid]],
                    uint2 block [[threadgroup_position_in_grid]]) {
    uint i = at.x + block.y;
    float3 a = p[i], c = float3(p[i + 1]);
    float3 d = p[i] - p[i + 1];
    p[i] = a * 2.0f + c * d;
    p[i] = packed_float3(1, 2, 3);
    p[i] += a;
    p[i].x = p[i][1] + 2.0f * p[i].z;
    v[i] = max(min(a, c), 0.0f) + clamp(d, -1.0f, 1.0f);
    v[i].xy = a.zx;
    v[i] = float3(a.xy, 1) + float3(int3(a)) + float3(half3(a)) + vec<float, 3>(c);
    float4 w = float4(a, 1.0f);
    w.w = dot(a, c) + length(d) + distance_squared(a, c);
    w = select(w, float4(0.0f), w > 1.0f);
    float x = select(w.x, w.y, w.z < w.w);
    x = fma(x, x, precise::sqrt(x)) + precise::divide(x, 3.0f) + fast::exp(x) + powr(x, 2.0f);
    x += isfinite(x) && !isnan(r) ? INFINITY : numeric_limits<float>::max();
    x = abs(x) + fabs(x) + floor(x) + rint(x) + sign(x) + fmod(x, 2.0f) + FLT_MAX + M_PI_F;
    bool every = all(a == c) || any(isnan(a)) || all(bool2(true, false));
    h[i] = h[i] * half(2) + 0.5h;
    h[i] = half(x);
    bfloat t = bfloat(x) * b[i];
    b[i] = t;
    b[i] = 0.5bf;
    x = b[i];
    x += h[i];
    uint bits = as_type<uint>(x);
    bits = (bits & 0x80000000u) ? ~bits : (bits | 0x80000000u);
    uint2 halves = as_type<uint2>(n[i]);
    ushort s = as_type<ushort>(h[i]);
    bits += halves.x + s + reverse_bits(bits) + rotate(bits, 3u) + mulhi(bits, 7u) + every;
    n[i] = clamp(count, 0L, 4L) + long(extract_bits(bits, 2u, 3u)) + min(n[i], LONG_MAX);
    bytes[i] = uchar(uint(n[i]) & 255u);
    uchar4 quarter = uchar4(1, 2, 3, 4);
    constexpr uint steps = 3;
    uint2 cells = uint2(n[i], count) + uint2(x, h[i]) + uint2() + uint2(true, steps);
    bytes[i] += uchar(cells.x);
    int e;
    float m = frexp(x, e);
    complex[i] = float2(ldexp(m, e), as_type<float>(as_type<uint>(quarter)));
}
