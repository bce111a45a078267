// Mathematical, common, relational, integer and geometric functions.
#pragma once
#pragma clang system_header
// f(T) and f(T, T) ... for one scalar type and its vectors.
#define SHIM_EACH_WIDTH(M, f, T) M(f, T) M(f, T##2) M(f, T##3) M(f, T##4)
#define SHIM_FLOATS(M, f) SHIM_EACH_WIDTH(M, f, float) SHIM_EACH_WIDTH(M, f, half)
#define SHIM_INTEGERS(M, f)                                                                  \
  SHIM_EACH_WIDTH(M, f, char) SHIM_EACH_WIDTH(M, f, uchar) SHIM_EACH_WIDTH(M, f, short)      \
  SHIM_EACH_WIDTH(M, f, ushort) SHIM_EACH_WIDTH(M, f, int) SHIM_EACH_WIDTH(M, f, uint)       \
  SHIM_EACH_WIDTH(M, f, long) SHIM_EACH_WIDTH(M, f, ulong)
#define SHIM_1(f, T) T f(T);
#define SHIM_2(f, T) T f(T, T);
#define SHIM_3(f, T) T f(T, T, T);
#define SHIM_MATH                                                                            \
  SHIM_FLOATS(SHIM_1, acos) SHIM_FLOATS(SHIM_1, acosh) SHIM_FLOATS(SHIM_1, asin)             \
  SHIM_FLOATS(SHIM_1, asinh) SHIM_FLOATS(SHIM_1, atan) SHIM_FLOATS(SHIM_1, atanh)            \
  SHIM_FLOATS(SHIM_1, ceil) SHIM_FLOATS(SHIM_1, cos) SHIM_FLOATS(SHIM_1, cosh)               \
  SHIM_FLOATS(SHIM_1, cospi) SHIM_FLOATS(SHIM_1, exp) SHIM_FLOATS(SHIM_1, exp10)             \
  SHIM_FLOATS(SHIM_1, exp2) SHIM_FLOATS(SHIM_1, fabs) SHIM_FLOATS(SHIM_1, floor)             \
  SHIM_FLOATS(SHIM_1, fract) SHIM_FLOATS(SHIM_1, log) SHIM_FLOATS(SHIM_1, log10)             \
  SHIM_FLOATS(SHIM_1, log2) SHIM_FLOATS(SHIM_1, rint) SHIM_FLOATS(SHIM_1, round)             \
  SHIM_FLOATS(SHIM_1, rsqrt) SHIM_FLOATS(SHIM_1, sin) SHIM_FLOATS(SHIM_1, sinh)              \
  SHIM_FLOATS(SHIM_1, sinpi) SHIM_FLOATS(SHIM_1, sqrt) SHIM_FLOATS(SHIM_1, tan)              \
  SHIM_FLOATS(SHIM_1, tanh) SHIM_FLOATS(SHIM_1, tanpi) SHIM_FLOATS(SHIM_1, trunc)            \
  SHIM_FLOATS(SHIM_1, abs) SHIM_FLOATS(SHIM_2, atan2) SHIM_FLOATS(SHIM_2, copysign)          \
  SHIM_FLOATS(SHIM_2, divide) SHIM_FLOATS(SHIM_2, fdim) SHIM_FLOATS(SHIM_2, fmax)            \
  SHIM_FLOATS(SHIM_2, fmin) SHIM_FLOATS(SHIM_2, fmod) SHIM_FLOATS(SHIM_2, pow)               \
  SHIM_FLOATS(SHIM_2, powr) SHIM_FLOATS(SHIM_2, max) SHIM_FLOATS(SHIM_2, min)                \
  SHIM_FLOATS(SHIM_3, fma) SHIM_FLOATS(SHIM_3, clamp)
namespace metal {
SHIM_MATH
namespace precise { SHIM_MATH }
namespace fast { SHIM_MATH }

SHIM_FLOATS(SHIM_1, saturate) SHIM_FLOATS(SHIM_1, sign) SHIM_FLOATS(SHIM_2, nextafter)
SHIM_FLOATS(SHIM_2, step) SHIM_FLOATS(SHIM_3, mix) SHIM_FLOATS(SHIM_3, smoothstep)
SHIM_FLOATS(SHIM_3, fmax3) SHIM_FLOATS(SHIM_3, fmin3) SHIM_FLOATS(SHIM_3, fmedian3)
SHIM_FLOATS(SHIM_3, max3) SHIM_FLOATS(SHIM_3, min3) SHIM_FLOATS(SHIM_3, median3)
#define SHIM_LDEXP(f, T) T f(T, shim_int_like<T>::type);
#define SHIM_OUT(f, T) T f(T, thread T& part);
#define SHIM_FREXP(f, T) T f(T, thread shim_int_like<T>::type& exponent);
#define SHIM_ILOGB(f, T) shim_int_like<T>::type f(T);
template <class T>
struct shim_int_like { typedef int type; };
template <class T, int N>
struct shim_int_like<vec<T, N>> { typedef vec<int, N> type; };
SHIM_FLOATS(SHIM_LDEXP, ldexp) SHIM_FLOATS(SHIM_FREXP, frexp) SHIM_FLOATS(SHIM_ILOGB, ilogb)
SHIM_FLOATS(SHIM_OUT, modf) SHIM_FLOATS(SHIM_OUT, sincos)

SHIM_INTEGERS(SHIM_1, abs) SHIM_INTEGERS(SHIM_1, clz) SHIM_INTEGERS(SHIM_1, ctz)
SHIM_INTEGERS(SHIM_1, popcount) SHIM_INTEGERS(SHIM_1, reverse_bits)
SHIM_INTEGERS(SHIM_2, absdiff) SHIM_INTEGERS(SHIM_2, addsat) SHIM_INTEGERS(SHIM_2, hadd)
SHIM_INTEGERS(SHIM_2, max) SHIM_INTEGERS(SHIM_2, min) SHIM_INTEGERS(SHIM_2, mulhi)
SHIM_INTEGERS(SHIM_2, rhadd) SHIM_INTEGERS(SHIM_2, rotate) SHIM_INTEGERS(SHIM_2, subsat)
SHIM_INTEGERS(SHIM_3, clamp) SHIM_INTEGERS(SHIM_3, madhi) SHIM_INTEGERS(SHIM_3, madsat)
SHIM_INTEGERS(SHIM_3, max3) SHIM_INTEGERS(SHIM_3, min3) SHIM_INTEGERS(SHIM_3, median3)
SHIM_EACH_WIDTH(SHIM_2, mul24, int) SHIM_EACH_WIDTH(SHIM_2, mul24, uint)
SHIM_EACH_WIDTH(SHIM_3, mad24, int) SHIM_EACH_WIDTH(SHIM_3, mad24, uint)
#define SHIM_EXTRACT(f, T) T f(T, uint offset, uint bits);
#define SHIM_INSERT(f, T) T f(T base, T insert, uint offset, uint bits);
SHIM_INTEGERS(SHIM_EXTRACT, extract_bits) SHIM_INTEGERS(SHIM_INSERT, insert_bits)

// Relational: one bool a component.
#define SHIM_TEST_1(f)                                                                       \
  bool f(float); bool2 f(float2); bool3 f(float3); bool4 f(float4);                          \
  bool f(half); bool2 f(half2); bool3 f(half3); bool4 f(half4);
#define SHIM_TEST_2(f)                                                                       \
  bool f(float, float); bool2 f(float2, float2); bool3 f(float3, float3);                    \
  bool4 f(float4, float4); bool f(half, half); bool2 f(half2, half2);                        \
  bool3 f(half3, half3); bool4 f(half4, half4);
SHIM_TEST_1(isfinite) SHIM_TEST_1(isinf) SHIM_TEST_1(isnan) SHIM_TEST_1(isnormal)
SHIM_TEST_1(signbit) SHIM_TEST_2(isordered) SHIM_TEST_2(isunordered)
template <class T, int N> bool all(vec<T, N>);
template <class T, int N> bool any(vec<T, N>);
bool all(bool);
bool any(bool);
#define SHIM_SELECT(T)                                                                       \
  T select(T, T, bool); T##2 select(T##2, T##2, bool2); T##3 select(T##3, T##3, bool3);      \
  T##4 select(T##4, T##4, bool4);
SHIM_SELECT(char) SHIM_SELECT(uchar) SHIM_SELECT(short) SHIM_SELECT(ushort) SHIM_SELECT(int)
SHIM_SELECT(uint) SHIM_SELECT(long) SHIM_SELECT(ulong) SHIM_SELECT(half) SHIM_SELECT(float)
bool select(bool, bool, bool);
bfloat select(bfloat, bfloat, bool);

#define SHIM_GEOMETRY(T)                                                                     \
  T distance(T##2, T##2); T distance(T##3, T##3); T distance(T##4, T##4);                    \
  T distance_squared(T##2, T##2); T distance_squared(T##3, T##3);                            \
  T distance_squared(T##4, T##4); T dot(T##2, T##2); T dot(T##3, T##3); T dot(T##4, T##4);   \
  T length(T##2); T length(T##3); T length(T##4); T length_squared(T##2);                    \
  T length_squared(T##3); T length_squared(T##4); T##2 normalize(T##2);                      \
  T##3 normalize(T##3); T##4 normalize(T##4); T##3 cross(T##3, T##3);                        \
  T##3 reflect(T##3, T##3); T##3 faceforward(T##3, T##3, T##3);
SHIM_GEOMETRY(float) SHIM_GEOMETRY(half)
}  // namespace metal
