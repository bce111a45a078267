// What the Metal language itself gives, before any include, in terms of "C++ for OpenCL".
// Declarations only: this text is type-checked, never run.
#pragma once
#pragma clang system_header
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION __cl_clang_non_portable_kernel_param_types : enable

#define device __global
#define threadgroup __local
#define thread __private

// OpenCL keywords and predeclared types that are ordinary identifiers in Metal.
#define local metal_name_local
#define global metal_name_global
#define generic metal_name_generic
#define pipe metal_name_pipe
#define read_only metal_name_read_only
#define write_only metal_name_write_only
#define read_write metal_name_read_write
#define vec_step metal_name_vec_step
#define addrspace_cast metal_name_addrspace_cast
#define event_t metal_name_event_t
#define queue_t metal_name_queue_t
#define clk_event_t metal_name_clk_event_t
#define reserve_id_t metal_name_reserve_id_t
#define memory_scope metal_name_memory_scope

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef unsigned long uintptr_t;
typedef long intptr_t;
typedef signed char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
typedef __bf16 bfloat;

namespace metal {
template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));

template <class A, class B>
struct shim_same {
  static constant constexpr bool value = false;
};
template <class A>
struct shim_same<A, A> {
  static constant constexpr bool value = true;
};
// A parameter of this type takes no part in deduction, so that ordinary conversions apply to it.
template <class T>
struct shim_identity {
  typedef T type;
};

// Vector constructors. `float3(...)` is no expression in OpenCL, so the names become macros below.
// Every part is cast, as in Metal, so that a narrowing one is no finding.
#define SHIM_MAKE(N)                                  \
  template <class T>                                  \
  inline vec<T, N> shim_make##N() {                   \
    return (vec<T, N>)((T)0);                         \
  }                                                   \
  template <class T, class A>                         \
  inline vec<T, N> shim_make##N(A a) {                \
    return (vec<T, N>)((T)a);                         \
  }                                                   \
  template <class T, class U>                         \
  inline vec<T, N> shim_make##N(vec<U, N> v) {        \
    return __builtin_convertvector(v, vec<T, N>);     \
  }
SHIM_MAKE(2)
SHIM_MAKE(3)
SHIM_MAKE(4)
#undef SHIM_MAKE
template <class T, class A, class B>
inline vec<T, 2> shim_make2(A a, B b) {
  return (vec<T, 2>)((T)a, (T)b);
}
template <class T, class A, class B, class C>
inline vec<T, 3> shim_make3(A a, B b, C c) {
  return (vec<T, 3>)((T)a, (T)b, (T)c);
}
template <class T, class U, class B>
inline vec<T, 3> shim_make3(vec<U, 2> a, B b) {
  return (vec<T, 3>)((T)a.x, (T)a.y, (T)b);
}
template <class T, class A, class U>
inline vec<T, 3> shim_make3(A a, vec<U, 2> b) {
  return (vec<T, 3>)((T)a, (T)b.x, (T)b.y);
}
template <class T, class A, class B, class C, class D>
inline vec<T, 4> shim_make4(A a, B b, C c, D d) {
  return (vec<T, 4>)((T)a, (T)b, (T)c, (T)d);
}
template <class T, class U, class B>
inline vec<T, 4> shim_make4(vec<U, 3> a, B b) {
  return (vec<T, 4>)((T)a.x, (T)a.y, (T)a.z, (T)b);
}
template <class T, class A, class U>
inline vec<T, 4> shim_make4(A a, vec<U, 3> b) {
  return (vec<T, 4>)((T)a, (T)b.x, (T)b.y, (T)b.z);
}
template <class T, class U, class W>
inline vec<T, 4> shim_make4(vec<U, 2> a, vec<W, 2> b) {
  return (vec<T, 4>)((T)a.x, (T)a.y, (T)b.x, (T)b.y);
}
template <class T, class U, class B, class C>
inline vec<T, 4> shim_make4(vec<U, 2> a, B b, C c) {
  return (vec<T, 4>)((T)a.x, (T)a.y, (T)b, (T)c);
}
template <class T, class A, class U, class C>
inline vec<T, 4> shim_make4(A a, vec<U, 2> b, C c) {
  return (vec<T, 4>)((T)a, (T)b.x, (T)b.y, (T)c);
}
template <class T, class A, class B, class U>
inline vec<T, 4> shim_make4(A a, B b, vec<U, 2> c) {
  return (vec<T, 4>)((T)a, (T)b, (T)c.x, (T)c.y);
}
}  // namespace metal

#define SHIM_VECTORS(T)          \
  typedef metal::vec<T, 2> T##2; \
  typedef metal::vec<T, 3> T##3; \
  typedef metal::vec<T, 4> T##4;
SHIM_VECTORS(char)
SHIM_VECTORS(uchar)
SHIM_VECTORS(short)
SHIM_VECTORS(ushort)
SHIM_VECTORS(int)
SHIM_VECTORS(uint)
SHIM_VECTORS(long)
SHIM_VECTORS(ulong)
SHIM_VECTORS(half)
SHIM_VECTORS(bfloat)
SHIM_VECTORS(float)
#undef SHIM_VECTORS
typedef int2 bool2;  // vector comparisons give int vectors here
typedef int3 bool3;
typedef int4 bool4;

// Packed vectors: arrays of scalars that convert to and from the aligned vector in every space.
namespace metal {
#define SHIM_IN_EVERY_SPACE(X) X(device) X(constant) X(threadgroup) X(thread)
#define SHIM_READ(space)                                   \
  operator vec_type() const space;                         \
  const space T& operator[](size_t at) const space;
#define SHIM_WRITE(space)                                  \
  space T& operator[](size_t at) space;                    \
  space type& operator+=(vec_type) space;                  \
  space type& operator-=(vec_type) space;                  \
  space type& operator*=(vec_type) space;                  \
  space type& operator/=(vec_type) space;
template <class T>
struct packed_vec2 {
  typedef packed_vec2 type;
  typedef vec<T, 2> vec_type;
  T x, y;
  packed_vec2() = default;
  packed_vec2(T a, T b) : x(a), y(b) {}
  packed_vec2(T a) : x(a), y(a) {}
  packed_vec2(vec_type v) : x(v.x), y(v.y) {}
  SHIM_IN_EVERY_SPACE(SHIM_READ)
  SHIM_WRITE(device) SHIM_WRITE(threadgroup) SHIM_WRITE(thread)
};
template <class T>
struct packed_vec3 {
  typedef packed_vec3 type;
  typedef vec<T, 3> vec_type;
  T x, y, z;
  packed_vec3() = default;
  packed_vec3(T a, T b, T c) : x(a), y(b), z(c) {}
  packed_vec3(T a) : x(a), y(a), z(a) {}
  packed_vec3(vec_type v) : x(v.x), y(v.y), z(v.z) {}
  SHIM_IN_EVERY_SPACE(SHIM_READ)
  SHIM_WRITE(device) SHIM_WRITE(threadgroup) SHIM_WRITE(thread)
};
template <class T>
struct packed_vec4 {
  typedef packed_vec4 type;
  typedef vec<T, 4> vec_type;
  T x, y, z, w;
  packed_vec4() = default;
  packed_vec4(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  packed_vec4(T a) : x(a), y(a), z(a), w(a) {}
  packed_vec4(vec_type v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
  SHIM_IN_EVERY_SPACE(SHIM_READ)
  SHIM_WRITE(device) SHIM_WRITE(threadgroup) SHIM_WRITE(thread)
};
#undef SHIM_READ
#undef SHIM_WRITE
// Vector with vector is found through the conversions; vector with scalar is not.
#define SHIM_WITH_SCALAR(N, op)                                                    \
  template <class T>                                                               \
  vec<T, N> operator op(packed_vec##N<T>, typename shim_identity<T>::type);        \
  template <class T>                                                               \
  vec<T, N> operator op(typename shim_identity<T>::type, packed_vec##N<T>);
#define SHIM_EACH_SIZE(op) SHIM_WITH_SCALAR(2, op) SHIM_WITH_SCALAR(3, op) SHIM_WITH_SCALAR(4, op)
SHIM_EACH_SIZE(+) SHIM_EACH_SIZE(-) SHIM_EACH_SIZE(*) SHIM_EACH_SIZE(/)
#undef SHIM_WITH_SCALAR
#undef SHIM_EACH_SIZE
template <class T>
vec<T, 2> shim_make2(packed_vec2<T> v);
template <class T>
vec<T, 3> shim_make3(packed_vec3<T> v);
template <class T>
vec<T, 4> shim_make4(packed_vec4<T> v);
}  // namespace metal
#define SHIM_PACKED(T)                       \
  typedef metal::packed_vec2<T> packed_##T##2; \
  typedef metal::packed_vec3<T> packed_##T##3; \
  typedef metal::packed_vec4<T> packed_##T##4;
SHIM_PACKED(char)
SHIM_PACKED(uchar)
SHIM_PACKED(short)
SHIM_PACKED(ushort)
SHIM_PACKED(int)
SHIM_PACKED(uint)
SHIM_PACKED(long)
SHIM_PACKED(half)
SHIM_PACKED(bfloat)
SHIM_PACKED(float)
#undef SHIM_PACKED

#define char2(...) metal::shim_make2<char>(__VA_ARGS__)
#define char3(...) metal::shim_make3<char>(__VA_ARGS__)
#define char4(...) metal::shim_make4<char>(__VA_ARGS__)
#define uchar2(...) metal::shim_make2<uchar>(__VA_ARGS__)
#define uchar3(...) metal::shim_make3<uchar>(__VA_ARGS__)
#define uchar4(...) metal::shim_make4<uchar>(__VA_ARGS__)
#define short2(...) metal::shim_make2<short>(__VA_ARGS__)
#define short3(...) metal::shim_make3<short>(__VA_ARGS__)
#define short4(...) metal::shim_make4<short>(__VA_ARGS__)
#define ushort2(...) metal::shim_make2<ushort>(__VA_ARGS__)
#define ushort3(...) metal::shim_make3<ushort>(__VA_ARGS__)
#define ushort4(...) metal::shim_make4<ushort>(__VA_ARGS__)
#define int2(...) metal::shim_make2<int>(__VA_ARGS__)
#define int3(...) metal::shim_make3<int>(__VA_ARGS__)
#define int4(...) metal::shim_make4<int>(__VA_ARGS__)
#define uint2(...) metal::shim_make2<uint>(__VA_ARGS__)
#define uint3(...) metal::shim_make3<uint>(__VA_ARGS__)
#define uint4(...) metal::shim_make4<uint>(__VA_ARGS__)
#define long2(...) metal::shim_make2<long>(__VA_ARGS__)
#define long3(...) metal::shim_make3<long>(__VA_ARGS__)
#define long4(...) metal::shim_make4<long>(__VA_ARGS__)
#define ulong2(...) metal::shim_make2<ulong>(__VA_ARGS__)
#define ulong3(...) metal::shim_make3<ulong>(__VA_ARGS__)
#define ulong4(...) metal::shim_make4<ulong>(__VA_ARGS__)
#define half2(...) metal::shim_make2<half>(__VA_ARGS__)
#define half3(...) metal::shim_make3<half>(__VA_ARGS__)
#define half4(...) metal::shim_make4<half>(__VA_ARGS__)
#define bfloat2(...) metal::shim_make2<bfloat>(__VA_ARGS__)
#define bfloat3(...) metal::shim_make3<bfloat>(__VA_ARGS__)
#define bfloat4(...) metal::shim_make4<bfloat>(__VA_ARGS__)
#define float2(...) metal::shim_make2<float>(__VA_ARGS__)
#define float3(...) metal::shim_make3<float>(__VA_ARGS__)
#define float4(...) metal::shim_make4<float>(__VA_ARGS__)
#define bool2(...) metal::shim_make2<int>(__VA_ARGS__)
#define bool3(...) metal::shim_make3<int>(__VA_ARGS__)
#define bool4(...) metal::shim_make4<int>(__VA_ARGS__)

namespace metal {
template <class T, class U, bool same_size>
struct shim_as_type {
  static T cast(U u) { return __builtin_astype(u, T); }
};
template <class T, class U>
struct shim_as_type<T, U, false> {
  static_assert(sizeof(T) == 0 * sizeof(U), "as_type needs two types of the same size");
  static T cast(U);
};
}  // namespace metal
template <class T, class U>
inline T as_type(U u) {
  return metal::shim_as_type<T, U, sizeof(T) == sizeof(U)>::cast(u);
}
