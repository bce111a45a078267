// Constants, limits and functions of numbers. `precise` is exact under fast math too.
#define INFINITY (__builtin_bit_cast(float, 0x7f800000u))
#define NAN (__builtin_bit_cast(float, 0x7fc00000u))
#define HUGE_VALF INFINITY
#define MAXFLOAT 3.40282346638528859812e+38f
#define FLT_MAX MAXFLOAT
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_EPSILON 1.19209289550781250000e-07f
#define CHAR_BIT 8
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
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.78539816339744830962f
#define M_1_PI_F 0.31830988618379067154f
#define M_SQRT2_F 1.41421356237309504880f
#define M_LN2_F 0.69314718055994530942f
#define M_LOG2E_F 1.44269504088896340736f

namespace metal {
template <class T> struct numeric_limits;
#define MSL_INT_LIMITS(T, LO, HI)                                                              \
  template <> struct numeric_limits<T> {                                                       \
    static constexpr T min() { return LO; }                                                    \
    static constexpr T lowest() { return LO; }                                                 \
    static constexpr T max() { return HI; }                                                    \
  };
MSL_INT_LIMITS(char, SCHAR_MIN, SCHAR_MAX)
MSL_INT_LIMITS(uchar, 0, UCHAR_MAX)
MSL_INT_LIMITS(short, SHRT_MIN, SHRT_MAX)
MSL_INT_LIMITS(ushort, 0, USHRT_MAX)
MSL_INT_LIMITS(int, INT_MIN, INT_MAX)
MSL_INT_LIMITS(uint, 0u, UINT_MAX)
MSL_INT_LIMITS(long, LONG_MIN, LONG_MAX)
MSL_INT_LIMITS(ulong, 0ul, ULONG_MAX)
template <> struct numeric_limits<float> {
  static constexpr float min() { return FLT_MIN; }
  static constexpr float max() { return FLT_MAX; }
  static constexpr float lowest() { return -FLT_MAX; }
  static constexpr float epsilon() { return FLT_EPSILON; }
  static constexpr float infinity() { return INFINITY; }
  static constexpr float quiet_NaN() { return NAN; }
};
template <class A, class B> struct is_same { static constexpr bool value = ::__msl::alike<A, B>::value; };
template <class A, class B> constexpr bool is_same_v = ::__msl::alike<A, B>::value;
template <bool B, class T = void> using enable_if_t = typename ::__msl::enable<B, T>::type;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <class T> MSL_FN void swap(T& a, T& b) {
  T t = a;
  a = b;
  b = t;
}
}  // namespace metal

// Functions of scalars, which the functions of the library apply to every component.
namespace __msl {
using metal::uint;
using metal::ulong;
template <class T> struct unsigned_of { typedef T type; };
template <> struct unsigned_of<char> { typedef unsigned char type; };
template <> struct unsigned_of<short> { typedef unsigned short type; };
template <> struct unsigned_of<int> { typedef unsigned type; };
template <> struct unsigned_of<long> { typedef unsigned long type; };
template <class T> using unsigned_t = typename unsigned_of<T>::type;

template <class T> MSL_FN constexpr T less(T x, T y) { return y < x ? y : x; }
template <class T> MSL_FN constexpr T more(T x, T y) { return x < y ? y : x; }
// a NaN is dropped
MSL_FN float less(float x, float y) { return x != x ? y : y < x ? y : x; }
MSL_FN float more(float x, float y) { return x != x ? y : x < y ? y : x; }
template <class T> MSL_FN constexpr T size_of_number(T x) { return T(x < 0 ? T(0) - x : x); }
MSL_FN float size_of_number(float x) { return ::fabsf(x); }
template <class T> MSL_FN T sign_of(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
MSL_FN float fraction(float x) {
  float f = x - ::floorf(x);
  return f < 0x1.fffffep-1f ? f : x != x ? x : 0x1.fffffep-1f;
}
template <class T> MSL_FN T ones(T x) { return T(::__popcll(unsigned_t<T>(x))); }
template <class T> MSL_FN T high_zeros(T x) {
  return T(::__clzll((long long)(ulong)unsigned_t<T>(x)) - (64 - 8 * int(sizeof(T))));
}
template <class T> MSL_FN T low_zeros(T x) { return x ? T(::__ffsll((long long)x) - 1) : T(8 * sizeof(T)); }
MSL_FN uint ones(uint x) { return uint(::__popc(x)); }
MSL_FN int ones(int x) { return ::__popc(uint(x)); }
MSL_FN uint high_zeros(uint x) { return uint(::__clz(int(x))); }
MSL_FN int high_zeros(int x) { return ::__clz(x); }
MSL_FN uint low_zeros(uint x) { return x ? uint(::__ffs(int(x)) - 1) : 32u; }
template <class T> MSL_FN T turned_round(T x) {
  return T(::__brevll(unsigned_t<T>(x)) >> (64 - 8 * sizeof(T)));
}
MSL_FN uint turned_round(uint x) { return ::__brev(x); }
template <class T> MSL_FN T high_product(T a, T b) {
  static_assert(sizeof(T) <= 4, "");
  return T((long(a) * long(b)) >> (8 * sizeof(T)));
}
MSL_FN uint high_product(uint a, uint b) { return ::__umulhi(a, b); }
MSL_FN int high_product(int a, int b) { return ::__mulhi(a, b); }
MSL_FN ulong high_product(ulong a, ulong b) { return ::__umul64hi(a, b); }
MSL_FN long high_product(long a, long b) { return ::__mul64hi(a, b); }
template <class T> MSL_FN T rotated(T a, T b) {
  uint w = 8 * sizeof(T), k = uint(b) & (w - 1);
  return k ? T((unsigned_t<T>(a) << k) | (unsigned_t<T>(a) >> (w - k))) : a;
}
template <class T> MSL_FN T gap(T a, T b) { return a > b ? T(a - b) : T(b - a); }
}  // namespace __msl

namespace metal {
// name(x) for scalars and vectors of one kind; `expr` is of a scalar e of type E
#define MSL_UNARY(name, WHICH, expr)                                                           \
  template <class E, MSL_IF(::__msl::WHICH<E> && ::__msl::scalar<E>)>                          \
  MSL_FN E name(E e) { return E(expr); }                                                       \
  template <class E, int N, MSL_IF(::__msl::WHICH<E>)> MSL_FN vec<E, N> name(vec<E, N> x) {    \
    return ::__msl::each(x, [](E e) { return E(expr); });                                      \
  }
#define MSL_BINARY(name, WHICH, expr)                                                          \
  template <class E, MSL_IF(::__msl::WHICH<E> && ::__msl::scalar<E>)>                          \
  MSL_FN E name(E a, E b) { return E(expr); }                                                  \
  template <class E, int N, MSL_IF(::__msl::WHICH<E>)>                                         \
  MSL_FN vec<E, N> name(vec<E, N> x, vec<E, N> y) {                                            \
    return ::__msl::each2<E>(x, y, [](E a, E b) { return E(expr); });                          \
  }                                                                                            \
  template <class E, int N, MSL_IF(::__msl::WHICH<E>)>                                         \
  MSL_FN vec<E, N> name(vec<E, N> x, ::__msl::same_t<E> y) { return name(x, vec<E, N>(y)); }
#define MSL_TEST(name, expr)                                                                   \
  MSL_FN bool name(float e) { return expr; }                                                   \
  template <int N> MSL_FN vec<bool, N> name(vec<float, N> x) {                                 \
    vec<bool, N> r;                                                                            \
    for (int i = 0; i < N; ++i) r[i] = name(x[i]);                                             \
    return r;                                                                                  \
  }
#define MSL_COMPARING                                                                          \
  MSL_BINARY(min, number, ::__msl::less(a, b))                                                 \
  MSL_BINARY(max, number, ::__msl::more(a, b))                                                 \
  MSL_BINARY(fmin, real, ::__msl::less(a, b))                                                  \
  MSL_BINARY(fmax, real, ::__msl::more(a, b))                                                  \
  template <class T, MSL_IF(::__msl::number<T>)>                                               \
  MSL_FN T clamp(T x, ::__msl::same_t<T> lo, ::__msl::same_t<T> hi) {                          \
    return min(max(x, lo), hi);                                                                \
  }                                                                                            \
  template <class T, MSL_IF(::__msl::real<T>)> MSL_FN T saturate(T x) {                        \
    return clamp(x, T(0), T(1));                                                               \
  }
// what has one meaning in safe and in fast math
#define MSL_EXACT                                                                              \
  MSL_COMPARING                                                                                \
  MSL_UNARY(fabs, real, ::fabsf(e))                                                            \
  MSL_UNARY(floor, real, ::floorf(e))                                                          \
  MSL_UNARY(ceil, real, ::ceilf(e))                                                            \
  MSL_UNARY(trunc, real, ::truncf(e))                                                          \
  MSL_UNARY(rint, real, ::rintf(e))                                                            \
  MSL_UNARY(round, real, ::roundf(e))                                                          \
  MSL_UNARY(fract, real, ::__msl::fraction(e))                                                 \
  MSL_BINARY(copysign, real, ::copysignf(a, b))                                                \
  MSL_BINARY(fmod, real, ::fmodf(a, b))                                                        \
  template <class T, MSL_IF(::__msl::is_float<T>)> MSL_FN T fma(T a, T b, T c) {               \
    return ::__fmaf_rn(a, b, c);                                                               \
  }                                                                                            \
  template <int N>                                                                             \
  MSL_FN vec<float, N> fma(vec<float, N> a, vec<float, N> b, vec<float, N> c) {                \
    vec<float, N> r;                                                                           \
    for (int i = 0; i < N; ++i) r[i] = ::__fmaf_rn(a[i], b[i], c[i]);                          \
    return r;                                                                                  \
  }
#define MSL_APPROXIMATE(SQRT, DIVIDE)                                                          \
  MSL_UNARY(sqrt, real, SQRT(e))                                                               \
  MSL_UNARY(rsqrt, real, DIVIDE(1.0f, SQRT(e)))                                                \
  MSL_BINARY(divide, real, DIVIDE(a, b))                                                       \
  MSL_BINARY(pow, real, ::powf(a, b))                                                          \
  MSL_BINARY(powr, real, ::powf(a, b))                                                         \
  MSL_BINARY(atan2, real, ::atan2f(a, b))                                                      \
  MSL_UNARY(exp, real, ::expf(e))                                                              \
  MSL_UNARY(exp2, real, ::exp2f(e))                                                            \
  MSL_UNARY(exp10, real, ::exp10f(e))                                                          \
  MSL_UNARY(log, real, ::logf(e))                                                              \
  MSL_UNARY(log2, real, ::log2f(e))                                                            \
  MSL_UNARY(log10, real, ::log10f(e))                                                          \
  MSL_UNARY(sin, real, ::sinf(e))                                                              \
  MSL_UNARY(cos, real, ::cosf(e))                                                              \
  MSL_UNARY(tan, real, ::tanf(e))                                                              \
  MSL_UNARY(asin, real, ::asinf(e))                                                            \
  MSL_UNARY(acos, real, ::acosf(e))                                                            \
  MSL_UNARY(atan, real, ::atanf(e))                                                            \
  MSL_UNARY(sinh, real, ::sinhf(e))                                                            \
  MSL_UNARY(cosh, real, ::coshf(e))                                                            \
  MSL_UNARY(tanh, real, ::tanhf(e))
}  // namespace metal
namespace __msl {
MSL_FN float quotient(float a, float b) { return a / b; }  // as the mode has it
}  // namespace __msl
namespace metal {
MSL_EXACT
MSL_APPROXIMATE(::sqrtf, ::__msl::quotient)
namespace precise {
MSL_EXACT
MSL_APPROXIMATE(::__fsqrt_rn, ::__fdiv_rn)
}  // namespace precise
namespace fast {
MSL_EXACT
MSL_APPROXIMATE(::sqrtf, ::__fdividef)
}  // namespace fast

MSL_TEST(isnan, (as_type<uint>(e) & 0x7fffffffu) > 0x7f800000u)
MSL_TEST(isinf, (as_type<uint>(e) & 0x7fffffffu) == 0x7f800000u)
MSL_TEST(isfinite, (as_type<uint>(e) & 0x7f800000u) != 0x7f800000u)
MSL_TEST(signbit, (as_type<uint>(e) >> 31) != 0)
MSL_FN bool any(bool b) { return b; }
MSL_FN bool all(bool b) { return b; }
template <int N> MSL_FN bool any(vec<bool, N> b) {
  bool r = false;
  for (int i = 0; i < N; ++i) r |= b[i];
  return r;
}
template <int N> MSL_FN bool all(vec<bool, N> b) {
  bool r = true;
  for (int i = 0; i < N; ++i) r &= b[i];
  return r;
}
template <class T> MSL_FN T select(T a, ::__msl::same_t<T> b, bool c) { return c ? b : a; }
template <class T, int N> MSL_FN vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = c[i] ? b[i] : a[i];
  return r;
}
MSL_UNARY(abs, number, ::__msl::size_of_number(e))
MSL_UNARY(sign, real, ::__msl::sign_of(e))
MSL_BINARY(fdim, real, a > b ? a - b : 0.0f)
MSL_BINARY(nextafter, real, ::nextafterf(a, b))
MSL_FN float ldexp(float x, int k) { return ::ldexpf(x, k); }
template <class T, MSL_IF(::__msl::number<T>)> MSL_FN T min3(T a, T b, T c) { return min(min(a, b), c); }
template <class T, MSL_IF(::__msl::number<T>)> MSL_FN T max3(T a, T b, T c) { return max(max(a, b), c); }
template <class T, MSL_IF(::__msl::number<T>)> MSL_FN T median3(T a, T b, T c) {
  return max(min(a, b), min(max(a, b), c));
}
template <class T, MSL_IF(::__msl::real<T>)>
MSL_FN T mix(T a, T b, ::__msl::same_t<T> t) { return a + (b - a) * t; }

// ---- geometry
template <int N> MSL_FN float dot(vec<float, N> a, vec<float, N> b) {
  float r = a[0] * b[0];
  for (int i = 1; i < N; ++i) r = r + a[i] * b[i];
  return r;
}
template <int N> MSL_FN float length_squared(vec<float, N> a) { return dot(a, a); }
template <int N> MSL_FN float length(vec<float, N> a) { return sqrt(dot(a, a)); }
template <int N> MSL_FN float distance_squared(vec<float, N> a, vec<float, N> b) { return length_squared(a - b); }
template <int N> MSL_FN float distance(vec<float, N> a, vec<float, N> b) { return length(a - b); }
template <int N> MSL_FN vec<float, N> normalize(vec<float, N> a) { return a * rsqrt(dot(a, a)); }
MSL_FN float3 cross(float3 a, float3 b) {
  return float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

// ---- integers
MSL_UNARY(popcount, integer, ::__msl::ones(e))
MSL_UNARY(clz, integer, ::__msl::high_zeros(e))
MSL_UNARY(ctz, integer, ::__msl::low_zeros(e))
MSL_UNARY(reverse_bits, integer, ::__msl::turned_round(e))
MSL_BINARY(mulhi, integer, ::__msl::high_product(a, b))
MSL_BINARY(rotate, integer, ::__msl::rotated(a, b))
MSL_BINARY(absdiff, integer, ::__msl::gap(a, b))
template <class T, MSL_IF(::__msl::is_int<T>)> MSL_FN T extract_bits(T x, uint offset, uint count) {
  typedef ::__msl::unsigned_t<T> U;
  uint w = 8 * sizeof(T);
  if (!count) return 0;
  U up = U(U(x) << (w - count - offset));
  return ::__msl::is_signed<T> ? T(T(up) >> (w - count)) : T(U(up >> (w - count)));
}
template <class T, MSL_IF(::__msl::is_int<T>)>
MSL_FN T insert_bits(T base, T insert, uint offset, uint count) {
  typedef ::__msl::unsigned_t<T> U;
  U mask = U((count >= 8 * sizeof(T) ? ~U(0) : U((U(1) << count) - 1)) << offset);
  return T((U(base) & U(~mask)) | ((U(insert) << offset) & mask));
}
}  // namespace metal
