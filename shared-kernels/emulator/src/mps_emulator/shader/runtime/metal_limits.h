// Constants, numeric_limits and type traits.
#pragma once

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF INFINITY
#define MAXFLOAT 3.40282346638528859812e+38f
#define FLT_MAX MAXFLOAT
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_EPSILON 1.19209289550781250000e-07f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_EXP 128
#define FLT_MIN_EXP (-125)
#define HALF_MAX 65504.0f16
#define HALF_MIN 6.103515625e-05f16
#define HALF_EPSILON 0.0009765625f16
#define MAXHALF HALF_MAX
#define HUGE_VALH ((half)INFINITY)
#define CHAR_BIT 8
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807L
#define LONG_MIN (-9223372036854775807L - 1L)
#define ULONG_MAX 18446744073709551615UL
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
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.70710678118654752440f
#define M_PI_H 3.140625f16

namespace metal {
template <class T> struct numeric_limits;
#define MSL_INT_LIMITS(T, LO, HI, DIGITS)                                          \
  template <> struct numeric_limits<T> {                                           \
    static constexpr bool is_specialized = true, is_signed = __msl::is_signed<T>;  \
    static constexpr bool is_integer = true, has_infinity = false;                 \
    static constexpr int digits = DIGITS;                                          \
    static constexpr T min() { return LO; }                                        \
    static constexpr T lowest() { return LO; }                                     \
    static constexpr T max() { return HI; }                                        \
    static constexpr T infinity() { return 0; }                                    \
  };
MSL_INT_LIMITS(char, SCHAR_MIN, SCHAR_MAX, 7)
MSL_INT_LIMITS(signed char, SCHAR_MIN, SCHAR_MAX, 7)
MSL_INT_LIMITS(uchar, 0, UCHAR_MAX, 8)
MSL_INT_LIMITS(short, SHRT_MIN, SHRT_MAX, 15)
MSL_INT_LIMITS(ushort, 0, USHRT_MAX, 16)
MSL_INT_LIMITS(int, INT_MIN, INT_MAX, 31)
MSL_INT_LIMITS(uint, 0u, UINT_MAX, 32)
MSL_INT_LIMITS(long, LONG_MIN, LONG_MAX, 63)
MSL_INT_LIMITS(ulong, 0ul, ULONG_MAX, 64)
template <> struct numeric_limits<bool> {
  static constexpr bool is_specialized = true, is_signed = false, is_integer = true;
  static constexpr bool has_infinity = false;
  static constexpr int digits = 1;
  static constexpr bool min() { return false; }
  static constexpr bool lowest() { return false; }
  static constexpr bool max() { return true; }
};
#define MSL_FLOAT_LIMITS(T, MIN, MAX, EPS, DIGITS)                                 \
  template <> struct numeric_limits<T> {                                           \
    static constexpr bool is_specialized = true, is_signed = true;                 \
    static constexpr bool is_integer = false, has_infinity = true;                 \
    static constexpr int digits = DIGITS;                                          \
    static constexpr T min() { return (T)MIN; }                                    \
    static constexpr T max() { return (T)MAX; }                                    \
    static constexpr T lowest() { return (T)-MAX; }                                \
    static constexpr T epsilon() { return (T)EPS; }                                \
    static constexpr T infinity() { return (T)INFINITY; }                          \
    static constexpr T quiet_NaN() { return (T)NAN; }                              \
    static constexpr T signaling_NaN() { return (T)NAN; }                          \
    static constexpr T denorm_min() { return (T)MIN; }                             \
  };
MSL_FLOAT_LIMITS(float, FLT_MIN, FLT_MAX, FLT_EPSILON, 24)
MSL_FLOAT_LIMITS(half, 6.103515625e-05f, 65504.0f, 0.0009765625f, 11)
MSL_FLOAT_LIMITS(bfloat, FLT_MIN, 3.38953138925153547590e+38f, 0.0078125f, 8)

// ---- type traits
template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  typedef T value_type;
  typedef integral_constant type;
  constexpr operator T() const { return V; }
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <bool B> using bool_constant = integral_constant<bool, B>;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class...> using void_t = void;
#define MSL_TRAIT(name, ...)                                                \
  template <class T> struct name : bool_constant<(__VA_ARGS__)> {};         \
  template <class T> constexpr bool name##_v = name<T>::value;
template <class A, class B> struct is_same : bool_constant<__is_same(A, B)> {};
template <class A, class B> constexpr bool is_same_v = __is_same(A, B);
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> constexpr bool is_convertible_v = __is_convertible(A, B);
MSL_TRAIT(is_floating_point, __msl::is_float<T>)
MSL_TRAIT(is_integral, __msl::is_int<T> || __msl::is_bool<T>)
MSL_TRAIT(is_arithmetic, __msl::scalar<T>)
MSL_TRAIT(is_scalar, __msl::scalar<T> || __is_pointer(T) || __is_enum(T))
MSL_TRAIT(is_enum, __is_enum(T))
MSL_TRAIT(is_class, __is_class(T))
MSL_TRAIT(is_pointer, __is_pointer(T))
MSL_TRAIT(is_const, __is_const(T))
MSL_TRAIT(is_void, __is_void(T))
MSL_TRAIT(is_signed, __is_signed(T))
MSL_TRAIT(is_unsigned, __is_unsigned(T))
MSL_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
MSL_TRAIT(is_vector, __msl::vector<T>)
#define MSL_CHANGE(name, builtin)                                \
  template <class T> struct name { typedef builtin(T) type; };   \
  template <class T> using name##_t = builtin(T);
MSL_CHANGE(remove_const, __remove_const)
MSL_CHANGE(remove_volatile, __remove_volatile)
MSL_CHANGE(remove_cv, __remove_cv)
MSL_CHANGE(remove_reference, __remove_reference_t)
MSL_CHANGE(remove_pointer, __remove_pointer)
MSL_CHANGE(decay, __decay)
MSL_CHANGE(make_signed, __make_signed)
MSL_CHANGE(make_unsigned, __make_unsigned)
MSL_CHANGE(underlying_type, __underlying_type)
template <class T> __add_rvalue_reference(T) declval();
template <class T> MSL_FN constexpr __remove_reference_t(T)&& move(T&& x) {
  return static_cast<__remove_reference_t(T)&&>(x);
}
template <class T> MSL_FN constexpr T&& forward(__remove_reference_t(T)& x) {
  return static_cast<T&&>(x);
}
template <class T> MSL_FN void swap(T& a, T& b) {
  T t = a;
  a = b;
  b = t;
}
template <class T, size_t N> struct array {
  T __data[N];
  MSL_FN constexpr T& operator[](size_t i) { return __data[i]; }
  MSL_FN constexpr const T& operator[](size_t i) const { return __data[i]; }
  constexpr size_t size() const { return N; }
  MSL_FN T* data() { return __data; }
  MSL_FN const T* data() const { return __data; }
  MSL_FN T* begin() { return __data; }
  MSL_FN const T* begin() const { return __data; }
  MSL_FN T* end() { return __data + N; }
  MSL_FN const T* end() const { return __data + N; }
};
}  // namespace metal
