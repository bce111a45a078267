// Math, integer, relational and geometric functions. Everything that must not change under fast
// math is compiled with precise semantics; comparisons and NaN tests follow the mode.
#pragma once

namespace metal {
// min and max drop a NaN operand; of two equal zeros the first is returned.
#define MSL_MIN_MAX                                                                        \
  template <class T, MSL_IF(__msl::is_float<T>)> MSL_FN T __min(T x, T y) {                \
    return __builtin_isnan((float)x) ? y : (y < x ? y : x);                                \
  }                                                                                        \
  template <class T, MSL_IF(__msl::is_float<T>)> MSL_FN T __max(T x, T y) {                \
    return __builtin_isnan((float)x) ? y : (x < y ? y : x);                                \
  }                                                                                        \
  template <class T, MSL_IF(__msl::is_int<T>)> MSL_FN constexpr T __min(T x, T y) {        \
    return y < x ? y : x;                                                                  \
  }                                                                                        \
  template <class T, MSL_IF(__msl::is_int<T>)> MSL_FN constexpr T __max(T x, T y) {        \
    return x < y ? y : x;                                                                  \
  }
#define MSL_BINARY_FORMS(name, scalar_name, WHICH)                                             \
  template <class T, MSL_IF(__msl::WHICH<T> && !__msl::vector<T>)>                             \
  MSL_FN constexpr T name(T x, T y) { return scalar_name(x, y); }                              \
  template <class T, MSL_IF(__msl::WHICH<T> && __msl::vector<T>)> MSL_FN T name(T x, T y) {    \
    return __msl::map(x, y, [](auto a, auto b) __attribute__((always_inline, nodebug)) {       \
      return scalar_name(a, b);                                                                \
    });                                                                                        \
  }                                                                                            \
  template <class T, MSL_IF(__msl::WHICH<T> && __msl::vector<T>)>                              \
  MSL_FN T name(T x, __msl::elem_t<T> y) { return name(x, T(y)); }                             \
  template <class T, MSL_IF(__msl::WHICH<T> && __msl::vector<T>)>                              \
  MSL_FN T name(__msl::elem_t<T> x, T y) { return name(T(x), y); }

// Functions of real types alone also take an integer beside a real: pow(x, 2).
#define MSL_REAL_FORMS(name, scalar_name)                                                      \
  MSL_BINARY_FORMS(name, scalar_name, real)                                                    \
  template <class T, class S, MSL_IF(__msl::is_float<T> && __msl::is_int<S>)>                  \
  MSL_FN T name(T x, S y) { return name(x, T(y)); }                                            \
  template <class T, class S, MSL_IF(__msl::is_float<T> && __msl::is_int<S>)>                  \
  MSL_FN T name(S x, T y) { return name(T(x), y); }

#define MSL_COMPARING                                                                          \
  MSL_MIN_MAX                                                                                  \
  MSL_BINARY_FORMS(min, __min, number)                                                         \
  MSL_BINARY_FORMS(max, __max, number)                                                         \
  MSL_REAL_FORMS(fmin, __min)                                                          \
  MSL_REAL_FORMS(fmax, __max)                                                          \
  template <class T, MSL_IF(__msl::number<T>)> MSL_FN T clamp(T x, T lo, T hi) {               \
    return min(max(x, lo), hi);                                                                \
  }                                                                                            \
  template <class T, MSL_IF(__msl::number<T> && __msl::vector<T>)>                             \
  MSL_FN T clamp(T x, __msl::elem_t<T> lo, __msl::elem_t<T> hi) {                              \
    return min(max(x, T(lo)), T(hi));                                                          \
  }                                                                                            \
  template <class T, MSL_IF(__msl::real<T>)> MSL_FN T saturate(T x) {                          \
    return clamp(x, T(0), T(1));                                                               \
  }
MSL_COMPARING

#define MSL_TEST(name, expr)                                                                   \
  template <class T, MSL_IF(__msl::real<T>)> MSL_FN __msl::bool_t<T> name(T x) {               \
    return __msl::test(x, [](auto e) __attribute__((always_inline, nodebug)) {                 \
      float v = (float)e;                                                                      \
      (void)v;                                                                                 \
      return expr;                                                                             \
    });                                                                                        \
  }
MSL_TEST(isnan, __builtin_isnan(v))
MSL_TEST(isinf, __builtin_isinf(v) != 0)
MSL_TEST(isfinite, __builtin_isfinite(v))
MSL_TEST(isnormal, __builtin_isnormal(v))
MSL_TEST(signbit, __builtin_signbit(v) != 0)
template <class T, MSL_IF(__msl::real<T>)> MSL_FN __msl::bool_t<T> isordered(T x, T y) {
  return !isnan(x) && !isnan(y);
}
template <class T, MSL_IF(__msl::real<T>)> MSL_FN __msl::bool_t<T> isunordered(T x, T y) {
  return isnan(x) || isnan(y);
}
MSL_FN bool any(bool b) { return b; }
MSL_FN bool all(bool b) { return b; }
#define MSL_ANY_ALL(N, ANY, ALL)                                          \
  MSL_FN bool any(bool##N b) { return ANY; }                              \
  MSL_FN bool all(bool##N b) { return ALL; }
MSL_ANY_ALL(2, b.x || b.y, b.x && b.y)
MSL_ANY_ALL(3, b.x || b.y || b.z, b.x && b.y && b.z)
MSL_ANY_ALL(4, b.x || b.y || b.z || b.w, b.x && b.y && b.z && b.w)

template <class T, MSL_IF(__msl::scalar<T>)> MSL_FN constexpr T select(T a, T b, bool c) {
  return c ? b : a;
}
template <class T, MSL_IF(__msl::vector<T>)> MSL_FN T select(T a, T b, bool c) {
  return c ? b : a;
}
template <class T, MSL_IF(__msl::vector<T>)>
MSL_FN T select(T a, T b, __msl::same_t<__msl::bool_t<T>> c) {
  T r;
  for (int i = 0; i < __msl::traits<T>::n; ++i) r[i] = c[i] ? b[i] : a[i];
  return r;
}
}  // namespace metal

#pragma float_control(precise, on, push)
namespace metal {
#define MSL_UNARY(name, WHICH, ...)                                                             \
  template <class T, MSL_IF(__msl::WHICH<T>)> MSL_FN T name(T x) { return __VA_ARGS__; }
#define MSL_EACH(expr) __msl::map(x, [](auto e) __attribute__((always_inline, nodebug)) { \
    typedef decltype(e) E; return (E)(expr); })
#define MSL_PRECISE                                                                             \
  MSL_UNARY(sqrt, real, __builtin_elementwise_sqrt(x))                                          \
  MSL_UNARY(rsqrt, real, T(1) / __builtin_elementwise_sqrt(x))                                  \
  MSL_UNARY(floor, real, __builtin_elementwise_floor(x))                                        \
  MSL_UNARY(ceil, real, __builtin_elementwise_ceil(x))                                          \
  MSL_UNARY(trunc, real, __builtin_elementwise_trunc(x))                                        \
  MSL_UNARY(rint, real, __builtin_elementwise_roundeven(x))                                     \
  MSL_UNARY(round, real, __builtin_elementwise_round(x))                                        \
  MSL_UNARY(fabs, real, __builtin_elementwise_abs(x))                                           \
  MSL_UNARY(exp, real, MSL_EACH(__builtin_expf((float)e)))                                      \
  MSL_UNARY(exp2, real, MSL_EACH(__builtin_exp2f((float)e)))                                    \
  MSL_UNARY(exp10, real, MSL_EACH(__builtin_exp10f((float)e)))                                  \
  MSL_UNARY(log, real, MSL_EACH(__builtin_logf((float)e)))                                      \
  MSL_UNARY(log2, real, MSL_EACH(__builtin_log2f((float)e)))                                    \
  MSL_UNARY(log10, real, MSL_EACH(__builtin_log10f((float)e)))                                  \
  MSL_UNARY(sin, real, MSL_EACH(__builtin_sinf((float)e)))                                      \
  MSL_UNARY(cos, real, MSL_EACH(__builtin_cosf((float)e)))                                      \
  MSL_UNARY(tan, real, MSL_EACH(__builtin_tanf((float)e)))                                      \
  MSL_UNARY(asin, real, MSL_EACH(__builtin_asinf((float)e)))                                    \
  MSL_UNARY(acos, real, MSL_EACH(__builtin_acosf((float)e)))                                    \
  MSL_UNARY(atan, real, MSL_EACH(__builtin_atanf((float)e)))                                    \
  MSL_UNARY(sinh, real, MSL_EACH(__builtin_sinhf((float)e)))                                    \
  MSL_UNARY(cosh, real, MSL_EACH(__builtin_coshf((float)e)))                                    \
  MSL_UNARY(tanh, real, MSL_EACH(__builtin_tanhf((float)e)))                                    \
  MSL_UNARY(asinh, real, MSL_EACH(__builtin_asinhf((float)e)))                                  \
  MSL_UNARY(acosh, real, MSL_EACH(__builtin_acoshf((float)e)))                                  \
  MSL_UNARY(atanh, real, MSL_EACH(__builtin_atanhf((float)e)))                                  \
  MSL_UNARY(sinpi, real, MSL_EACH(__builtin_sinf((float)e * M_PI_F)))                           \
  MSL_UNARY(cospi, real, MSL_EACH(__builtin_cosf((float)e * M_PI_F)))                           \
  MSL_UNARY(tanpi, real, MSL_EACH(__builtin_tanf((float)e * M_PI_F)))                           \
  MSL_UNARY(fract, real, MSL_EACH(__msl::fraction((float)e)))                                   \
  MSL_REAL_FORMS(pow, __msl::power)                                                     \
  MSL_REAL_FORMS(powr, __msl::power)                                                    \
  MSL_REAL_FORMS(fmod, __msl::modulo)                                                   \
  MSL_REAL_FORMS(atan2, __msl::angle)                                                   \
  MSL_REAL_FORMS(copysign, __msl::with_sign)                                            \
  template <class T, MSL_IF(__msl::real<T>)> MSL_FN T divide(T x, T y) { return x / y; }        \
  template <class T, MSL_IF(__msl::real<T>)> MSL_FN T fma(T a, T b, T c) {                      \
    return __builtin_elementwise_fma(a, b, c);                                                  \
  }                                                                                             \
  template <class T, MSL_IF(__msl::real<T>)> MSL_FN T sincos(T x, T& c) {                       \
    c = cos(x);                                                                                 \
    return sin(x);                                                                              \
  }
}  // namespace metal
namespace __msl {
MSL_FN float fraction(float x) {
  float f = x - __builtin_floorf(x);
  return f < 0x1.fffffep-1f ? f : __builtin_isnan(x) ? x : 0x1.fffffep-1f;
}
template <class T> MSL_FN T power(T x, T y) { return (T)__builtin_powf((float)x, (float)y); }
template <class T> MSL_FN T modulo(T x, T y) { return (T)__builtin_fmodf((float)x, (float)y); }
template <class T> MSL_FN T angle(T x, T y) { return (T)__builtin_atan2f((float)x, (float)y); }
template <class T> MSL_FN T with_sign(T x, T y) { return (T)__builtin_copysignf((float)x, (float)y); }
template <class T> MSL_FN T rest(T x, T y) { return (T)__builtin_remainderf((float)x, (float)y); }
template <class T> MSL_FN T difference(T x, T y) { return x > y ? T(x - y) : T(0); }
MSL_FN float after(float x, float y) { return __builtin_nextafterf(x, y); }
template <class T> MSL_FN T sign_of(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
}  // namespace __msl
namespace metal {
MSL_PRECISE
MSL_UNARY(abs, real, __builtin_elementwise_abs(x))
MSL_UNARY(sign, real, MSL_EACH(__msl::sign_of(e)))
MSL_REAL_FORMS(remainder, __msl::rest)
MSL_REAL_FORMS(fdim, __msl::difference)
MSL_REAL_FORMS(nextafter, __msl::after)
template <class T, MSL_IF(__msl::real<T>)> MSL_FN T fmin3(T a, T b, T c) { return fmin(fmin(a, b), c); }
template <class T, MSL_IF(__msl::real<T>)> MSL_FN T fmax3(T a, T b, T c) { return fmax(fmax(a, b), c); }
template <class T, MSL_IF(__msl::number<T>)> MSL_FN T min3(T a, T b, T c) { return min(min(a, b), c); }
template <class T, MSL_IF(__msl::number<T>)> MSL_FN T max3(T a, T b, T c) { return max(max(a, b), c); }
template <class T, MSL_IF(__msl::number<T>)> MSL_FN T median3(T a, T b, T c) {
  return max(min(a, b), min(max(a, b), c));
}
template <class T, MSL_IF(__msl::real<T>)> MSL_FN T mix(T a, T b, T t) { return a + (b - a) * t; }
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)>
MSL_FN T mix(T a, T b, __msl::elem_t<T> t) { return a + (b - a) * t; }
template <class T, MSL_IF(__msl::real<T>)> MSL_FN T step(T edge, T x) {
  return __msl::map(edge, x, [](auto a, auto b) __attribute__((always_inline, nodebug)) {
    return b < a ? decltype(a)(0) : decltype(a)(1);
  });
}
template <class T, MSL_IF(__msl::real<T>)> MSL_FN T smoothstep(T lo, T hi, T x) {
  T t = clamp((x - lo) / (hi - lo), T(0), T(1));
  return t * t * (T(3) - T(2) * t);
}
MSL_FN float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
MSL_FN half ldexp(half x, int k) { return (half)__builtin_ldexpf((float)x, k); }
MSL_FN int ilogb(float x) { return __builtin_ilogbf(x); }
MSL_FN float frexp(float x, int& e) { return __builtin_frexpf(x, &e); }
MSL_FN float modf(float x, float& whole) {
  whole = __builtin_truncf(x);
  return __builtin_copysignf(x - whole, x);
}

// ---- geometry
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)> MSL_FN __msl::elem_t<T> dot(T a, T b) {
  __msl::elem_t<T> r = a[0] * b[0];
  for (int i = 1; i < __msl::traits<T>::n; ++i) r = r + a[i] * b[i];
  return r;
}
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)> MSL_FN __msl::elem_t<T> length_squared(T a) {
  return dot(a, a);
}
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)> MSL_FN __msl::elem_t<T> length(T a) {
  return sqrt(dot(a, a));
}
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)>
MSL_FN __msl::elem_t<T> distance_squared(T a, T b) { return length_squared(a - b); }
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)>
MSL_FN __msl::elem_t<T> distance(T a, T b) { return length(a - b); }
template <class T, MSL_IF(__msl::real<T> && __msl::vector<T>)> MSL_FN T normalize(T a) {
  return a * rsqrt(dot(a, a));
}
template <class T, MSL_IF(__msl::real<T> && __msl::traits<T>::n == 3)> MSL_FN T cross(T a, T b) {
  return a.yzx * b.zxy - a.zxy * b.yzx;
}

namespace precise {
MSL_COMPARING
MSL_PRECISE
}
namespace fast {
MSL_COMPARING
MSL_PRECISE
}

// ---- integers
template <class T, MSL_IF(__msl::integer<T>)> MSL_FN constexpr T abs(T x) {
  return __msl::map(x, [](auto e) __attribute__((always_inline, nodebug)) {
    return decltype(e)(e < 0 ? decltype(e)(0) - e : e);
  });
}
namespace bits {
template <class E> struct unsigned_of { typedef __make_unsigned(E) type; };
template <class E> MSL_FN int high_zeros(E e) {
  typedef typename unsigned_of<E>::type U;
  return e ? __builtin_clzl((unsigned long)(U)e) - (64 - 8 * (int)sizeof(E)) : 8 * (int)sizeof(E);
}
template <class E> MSL_FN int low_zeros(E e) {
  typedef typename unsigned_of<E>::type U;
  return e ? __builtin_ctzl((unsigned long)(U)e) : 8 * (int)sizeof(E);
}
template <class E> MSL_FN int ones(E e) {
  typedef typename unsigned_of<E>::type U;
  return __builtin_popcountl((unsigned long)(U)e);
}
template <class E> MSL_FN E high_product(E a, E b) {
  return (E)(((__int128)a * (__int128)b) >> (8 * sizeof(E)));
}
MSL_FN ulong high_product(ulong a, ulong b) {
  return (ulong)(((unsigned __int128)a * b) >> 64);
}
template <class E> MSL_FN E turned(E a, E b) {
  typedef typename unsigned_of<E>::type U;
  uint w = 8 * sizeof(E), k = (uint)b & (w - 1);
  return k ? (E)(((U)a << k) | ((U)a >> (w - k))) : a;
}
template <class E> MSL_FN E sum_within(E a, E b) {
  E r;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return b < 0 ? numeric_limits<E>::min() : numeric_limits<E>::max();
}
template <class E> MSL_FN E difference_within(E a, E b) {
  E r;
  if (!__builtin_sub_overflow(a, b, &r)) return r;
  return b > 0 ? numeric_limits<E>::min() : numeric_limits<E>::max();
}
template <class E> MSL_FN E gap(E a, E b) { return a > b ? E(a - b) : E(b - a); }
template <class E> MSL_FN E middle(E a, E b) { return (E)(((__int128)a + b) >> 1); }
template <class E> MSL_FN E middle_up(E a, E b) { return (E)(((__int128)a + b + 1) >> 1); }
}  // namespace bits
MSL_UNARY(clz, integer, MSL_EACH(bits::high_zeros(e)))
MSL_UNARY(ctz, integer, MSL_EACH(bits::low_zeros(e)))
MSL_UNARY(popcount, integer, MSL_EACH(bits::ones(e)))
MSL_UNARY(reverse_bits, integer, __builtin_elementwise_bitreverse(x))
MSL_BINARY_FORMS(mulhi, bits::high_product, integer)
MSL_BINARY_FORMS(rotate, bits::turned, integer)
MSL_BINARY_FORMS(addsat, bits::sum_within, integer)
MSL_BINARY_FORMS(subsat, bits::difference_within, integer)
MSL_BINARY_FORMS(absdiff, bits::gap, integer)
MSL_BINARY_FORMS(hadd, bits::middle, integer)
MSL_BINARY_FORMS(rhadd, bits::middle_up, integer)
template <class T, MSL_IF(__msl::integer<T>)> MSL_FN T madhi(T a, T b, T c) { return mulhi(a, b) + c; }
template <class T, MSL_IF(__msl::integer<T>)> MSL_FN T mul24(T a, T b) { return a * b; }
template <class T, MSL_IF(__msl::integer<T>)> MSL_FN T mad24(T a, T b, T c) { return a * b + c; }
template <class T, MSL_IF(__msl::integer<T> && !__msl::vector<T>)>
MSL_FN T extract_bits(T x, uint offset, uint count) {
  typedef typename bits::unsigned_of<T>::type U;
  uint w = 8 * sizeof(T);
  if (!count) return 0;
  U up = (U)((U)x << (w - count - offset));
  return (T)(__msl::is_signed<T> ? (T)up >> (w - count) : (T)(U)(up >> (w - count)));
}
template <class T, MSL_IF(__msl::integer<T> && !__msl::vector<T>)>
MSL_FN T insert_bits(T base, T insert, uint offset, uint count) {
  typedef typename bits::unsigned_of<T>::type U;
  U mask = (U)((count >= 8 * sizeof(T) ? ~U(0) : (U)((U(1) << count) - 1)) << offset);
  return (T)(((U)base & (U)~mask) | (((U)insert << offset) & mask));
}
}  // namespace metal
#pragma float_control(pop)
