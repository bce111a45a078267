// Declarations of the Metal 3.1 standard library that compute kernels use; see language.h.
#pragma once
#pragma clang system_header
#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF INFINITY
#define MAXFLOAT FLT_MAX
#define FLT_MAX 3.40282346638528859812e+38f
#define FLT_MIN 1.175494350822287508e-38f
#define FLT_EPSILON 1.19209290e-7f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_RADIX 2
#define HALF_MAX 6.5504e+4h
#define HALF_MIN 6.103515625e-5h
#define HALF_EPSILON 9.765625e-4h
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-127 - 1)
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32767 - 1)
#define USHRT_MAX 65535
#define INT_MAX 0x7fffffff
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffffu
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.43429448190325182765f
#define M_LN2_F 0.69314718055994530942f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_2_PI_F 0.63661977236758134308f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_PI_H 3.14159265358979323846h

// ---- type traits and numeric limits -------------------------------------------------------------
namespace metal {
template <class T, T V>
struct integral_constant {
  typedef T value_type;
  typedef integral_constant type;
  static constant constexpr T value = V;
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <class A, class B>
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <class T>
struct remove_const { typedef T type; };
template <class T>
struct remove_const<const T> { typedef T type; };
template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> { typedef T type; };
template <bool B, class T, class F>
struct conditional { typedef T type; };
template <class T, class F>
struct conditional<false, T, F> { typedef F type; };
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;
template <class T>
struct is_integral : false_type {};
template <class T>
struct is_floating_point : false_type {};
template <class T>
struct is_signed : false_type {};
template <class T>
struct is_unsigned : false_type {};
template <class T>
struct make_signed {};
template <class T>
struct make_unsigned {};
template <class T>
struct numeric_limits;
#define SHIM_TRUE(trait, T) template <> struct trait<T> : true_type {};
#define SHIM_LIMITS(T, low, high)                                  \
  template <> struct numeric_limits<T> {                           \
    static constexpr T min() { return (T)(low); }                  \
    static constexpr T lowest() { return (T)(low); }               \
    static constexpr T max() { return (T)(high); }                 \
  };
#define SHIM_INTEGER(S, U, low, high, uhigh)                       \
  SHIM_TRUE(is_integral, S) SHIM_TRUE(is_integral, U)              \
  SHIM_TRUE(is_signed, S) SHIM_TRUE(is_unsigned, U)                \
  template <> struct make_signed<S> { typedef S type; };           \
  template <> struct make_signed<U> { typedef S type; };           \
  template <> struct make_unsigned<S> { typedef U type; };         \
  template <> struct make_unsigned<U> { typedef U type; };         \
  SHIM_LIMITS(S, low, high) SHIM_LIMITS(U, 0, uhigh)
SHIM_INTEGER(char, uchar, CHAR_MIN, CHAR_MAX, UCHAR_MAX)
SHIM_INTEGER(short, ushort, SHRT_MIN, SHRT_MAX, USHRT_MAX)
SHIM_INTEGER(int, uint, INT_MIN, INT_MAX, UINT_MAX)
SHIM_INTEGER(long, ulong, LONG_MIN, LONG_MAX, ULONG_MAX)
SHIM_TRUE(is_integral, bool) SHIM_TRUE(is_unsigned, bool) SHIM_LIMITS(bool, 0, 1)
#define SHIM_FLOATING(T, low, high)                                \
  SHIM_TRUE(is_floating_point, T) SHIM_TRUE(is_signed, T)          \
  template <> struct numeric_limits<T> {                           \
    static constexpr T min() { return (T)(low); }                  \
    static constexpr T lowest() { return (T)(-(high)); }           \
    static constexpr T max() { return (T)(high); }                 \
    static constexpr T infinity() { return (T)INFINITY; }          \
    static constexpr T quiet_NaN() { return (T)NAN; }              \
    static constexpr T epsilon() { return (T)(0); }                \
  };
SHIM_FLOATING(float, FLT_MIN, FLT_MAX)
SHIM_FLOATING(half, HALF_MIN, HALF_MAX)
SHIM_FLOATING(bfloat, FLT_MIN, 3.3895e38f)
#undef SHIM_TRUE
#undef SHIM_LIMITS
#undef SHIM_INTEGER
#undef SHIM_FLOATING
template <class A, class B>
constant constexpr bool is_same_v = is_same<A, B>::value;
template <class T>
constant constexpr bool is_integral_v = is_integral<T>::value;
template <class T>
constant constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T>
constant constexpr bool is_signed_v = is_signed<T>::value;
template <class T>
constant constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T, size_t N>
struct array {
  T elements[N];
  static constexpr size_t size() { return N; }
#define SHIM_AT(space)                                         \
  space T& operator[](size_t at) space;                        \
  const space T& operator[](size_t at) const space;
  SHIM_AT(device) SHIM_AT(threadgroup) SHIM_AT(thread)
  const constant T& operator[](size_t at) const constant;
#undef SHIM_AT
};
}  // namespace metal

#include "math.h"
#include "simdgroup.h"
#include "atomic.h"
