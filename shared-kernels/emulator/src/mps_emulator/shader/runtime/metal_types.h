// Scalar and vector types, constructors and conversions. Vectors are clang's ext_vector_type, so
// swizzles, operators and contraction of a * b + c are the compiler's own, as in Metal.
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef signed char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;

#define MSL_FN inline __attribute__((always_inline, nodebug))
#define MSL_VECTORS(T)                                      \
  typedef T T##2 __attribute__((ext_vector_type(2)));       \
  typedef T T##3 __attribute__((ext_vector_type(3)));       \
  typedef T T##4 __attribute__((ext_vector_type(4)));
#define MSL_EACH_SCALAR(F) \
  F(char) F(uchar) F(short) F(ushort) F(int) F(uint) F(long) F(ulong) F(float) F(half) F(bfloat)
MSL_EACH_SCALAR(MSL_VECTORS)

namespace __msl {
template <bool B, class T = void> struct enable {};
template <class T> struct enable<true, T> { typedef T type; };
template <class T> struct same { typedef T type; };
template <class T> using same_t = typename same<T>::type;  // not deduced
#define MSL_IF(...) typename ::__msl::enable<(__VA_ARGS__), int>::type = 0

template <class T> struct traits {
  typedef T elem;
  enum { n = 1, vector = 0 };
};
template <class T, int N> struct traits<T __attribute__((ext_vector_type(N)))> {
  typedef T elem;
  enum { n = N, vector = 1 };
};
template <class T> using elem_t = typename traits<T>::elem;
template <class T> constexpr bool is_float =
    __is_same(T, float) || __is_same(T, half) || __is_same(T, bfloat);
template <class T> constexpr bool is_bool = __is_same(T, bool);
template <class T> constexpr bool is_int =
    __is_same(T, char) || __is_same(T, signed char) || __is_same(T, uchar) ||
    __is_same(T, short) || __is_same(T, ushort) || __is_same(T, int) || __is_same(T, uint) ||
    __is_same(T, long) || __is_same(T, ulong) || __is_same(T, long long) ||
    __is_same(T, unsigned long long);
template <class T> constexpr bool scalar = is_float<T> || is_int<T> || is_bool<T>;
template <class T> constexpr bool vector = traits<T>::vector;
template <class T> constexpr bool real = is_float<elem_t<T>>;
template <class T> constexpr bool integer = is_int<elem_t<T>>;
template <class T> constexpr bool number = real<T> || integer<T>;
template <class T> constexpr bool is_signed = T(-1) < T(0);

template <class T, class F> MSL_FN T map(T x, F f) {
  if constexpr (vector<T>) {
    T r;
    for (int i = 0; i < traits<T>::n; ++i) r[i] = f(x[i]);
    return r;
  } else {
    return f(x);
  }
}
template <class T, class F> MSL_FN T map(T x, T y, F f) {
  if constexpr (vector<T>) {
    T r;
    for (int i = 0; i < traits<T>::n; ++i) r[i] = f(x[i], y[i]);
    return r;
  } else {
    return f(x, y);
  }
}
}  // namespace __msl

// ---- vectors of bool. Comparisons give the compiler's masks (0 or -1 of the operand's width),
// which convert to these implicitly.
#define MSL_EACH_MASK(F, N) F(char##N) F(short##N) F(int##N) F(long##N)
#define MSL_BOOL_OPS(B)                                                                      \
  MSL_FN bool& operator[](int i) { return (&x)[i]; }                                         \
  MSL_FN bool operator[](int i) const { return (&x)[i]; }
struct alignas(2) bool2 {
  bool x, y;
  enum { n = 2 };
  bool2() = default;
  MSL_FN constexpr bool2(bool a) : x(a), y(a) {}
  MSL_FN constexpr bool2(bool a, bool b) : x(a), y(b) {}
#define MSL_MASK(M) MSL_FN bool2(M m) : x(m.x), y(m.y) {}
  MSL_EACH_MASK(MSL_MASK, 2)
#undef MSL_MASK
  MSL_BOOL_OPS(bool2)
};
struct alignas(4) bool3 {
  bool x, y, z;
  enum { n = 3 };
  bool3() = default;
  MSL_FN constexpr bool3(bool a) : x(a), y(a), z(a) {}
  MSL_FN constexpr bool3(bool a, bool b, bool c) : x(a), y(b), z(c) {}
  MSL_FN constexpr bool3(bool2 a, bool b) : x(a.x), y(a.y), z(b) {}
#define MSL_MASK(M) MSL_FN bool3(M m) : x(m.x), y(m.y), z(m.z) {}
  MSL_EACH_MASK(MSL_MASK, 3)
#undef MSL_MASK
  MSL_BOOL_OPS(bool3)
};
struct alignas(4) bool4 {
  bool x, y, z, w;
  enum { n = 4 };
  bool4() = default;
  MSL_FN constexpr bool4(bool a) : x(a), y(a), z(a), w(a) {}
  MSL_FN constexpr bool4(bool a, bool b, bool c, bool d) : x(a), y(b), z(c), w(d) {}
  MSL_FN constexpr bool4(bool3 a, bool b) : x(a.x), y(a.y), z(a.z), w(b) {}
  MSL_FN constexpr bool4(bool2 a, bool2 b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
#define MSL_MASK(M) MSL_FN bool4(M m) : x(m.x), y(m.y), z(m.z), w(m.w) {}
  MSL_EACH_MASK(MSL_MASK, 4)
#undef MSL_MASK
  MSL_BOOL_OPS(bool4)
};
#define MSL_BOOL_BINARY(B, op)                                    \
  MSL_FN B operator op(B a, B b) {                                \
    B r;                                                          \
    for (int i = 0; i < B::n; ++i) r[i] = a[i] op b[i];           \
    return r;                                                     \
  }
#define MSL_BOOL_FREE(B)                                                             \
  MSL_BOOL_BINARY(B, &&) MSL_BOOL_BINARY(B, ||) MSL_BOOL_BINARY(B, &)                \
  MSL_BOOL_BINARY(B, |) MSL_BOOL_BINARY(B, ^) MSL_BOOL_BINARY(B, ==)                 \
  MSL_BOOL_BINARY(B, !=)                                                             \
  MSL_FN B operator!(B a) {                                                          \
    for (int i = 0; i < B::n; ++i) a[i] = !a[i];                                     \
    return a;                                                                        \
  }
MSL_BOOL_FREE(bool2)
MSL_BOOL_FREE(bool3)
MSL_BOOL_FREE(bool4)

namespace __msl {
template <class T> struct composite { enum { n = 0 }; };
template <> struct composite<bool2> { enum { n = 2 }; };
template <> struct composite<bool3> { enum { n = 3 }; };
template <> struct composite<bool4> { enum { n = 4 }; };
template <int N> struct bool_of;
template <> struct bool_of<1> { typedef bool type; };
template <> struct bool_of<2> { typedef bool2 type; };
template <> struct bool_of<3> { typedef bool3 type; };
template <> struct bool_of<4> { typedef bool4 type; };
template <class T> using bool_t = typename bool_of<traits<T>::n>::type;
template <class T, class F> MSL_FN bool_t<T> test(T x, F f) {
  if constexpr (vector<T>) {
    bool_t<T> r;
    for (int i = 0; i < traits<T>::n; ++i) r[i] = f(x[i]);
    return r;
  } else {
    return f(x);
  }
}

// ---- constructors: T(a, b, ...) of a vector takes scalars and vectors one after another
template <class V> struct filler {
  V r;
  int i = 0;
  template <class A> MSL_FN constexpr void put(A a) {
    if constexpr (vector<A>) {
      for (int k = 0; k < traits<A>::n; ++k) r[i++] = elem_t<V>(a[k]);
    } else if constexpr (composite<A>::n != 0) {
      for (int k = 0; k < composite<A>::n; ++k) r[i++] = elem_t<V>(a[k]);
    } else {
      r[i++] = elem_t<V>(a);
    }
  }
};
template <class A> constexpr int width = vector<A> ? int(traits<A>::n) : composite<A>::n ? int(composite<A>::n) : 1;
constexpr int total() { return 0; }
template <class... R> constexpr int total(int a, R... r) { return a + total(r...); }
}  // namespace __msl

template <class T> MSL_FN constexpr T __msl_mk() { return T(); }
template <class T, class A> MSL_FN constexpr T __msl_mk(A a) {
  if constexpr (!__msl::vector<T>) {
    return T(a);
  } else if constexpr (__msl::scalar<A> || __is_enum(A)) {
    return T(__msl::elem_t<T>(a));
  } else if constexpr (__is_same(T, A)) {
    return a;
  } else if constexpr (__msl::vector<A>) {
    static_assert(int(__msl::traits<A>::n) == int(__msl::traits<T>::n),
                  "a vector converts only to a vector of as many components");
    return __builtin_convertvector(a, T);
  } else if constexpr (__msl::composite<A>::n != 0) {
    static_assert(int(__msl::composite<A>::n) == int(__msl::traits<T>::n),
                  "a vector converts only to a vector of as many components");
    __msl::filler<T> f{};
    f.put(a);
    return f.r;
  } else {
    return T(a);
  }
}
template <class T, class A, class B, class... R> MSL_FN constexpr T __msl_mk(A a, B b, R... r) {
  if constexpr (!__msl::vector<T>) {
    return T(a, b, r...);
  } else {
    static_assert(__msl::total(__msl::width<A>, __msl::width<B>, __msl::width<R>...) ==
                      int(__msl::traits<T>::n),
                  "a vector constructor needs as many values as the vector has components");
    __msl::filler<T> f{};
    f.put(a);
    f.put(b);
    int unused[] = {0, (f.put(r), 0)...};
    (void)unused;
    return f.r;
  }
}
// The same for an argument that is a comparison: true is 1, not the mask's -1.
template <class T, class A> MSL_FN constexpr T __msl_mkb(A a) {
  if constexpr (__msl::vector<A> && __msl::vector<T> && __msl::is_int<__msl::elem_t<A>>) {
    return __builtin_convertvector(a & A(1), T);
  } else {
    return __msl_mk<T>(a);
  }
}
// (a < b).x: a bool, not a component of the mask.
MSL_FN constexpr bool __msl_flag(long a) { return a != 0; }
// auto m = a < b: bools, not the mask.
template <class A> MSL_FN constexpr auto __msl_bools(A a) {
  if constexpr (__msl::vector<A> && __msl::is_int<__msl::elem_t<A>>) {
    return __msl::test(a, [](auto x) { return x != 0; });
  } else {
    return a;
  }
}
// (float3)x: of all binary operators this one binds tightest, nearly as a cast. A minus before the
// cast would bind to the cast alone and is carried along. MASK: x is a comparison.
template <class T, bool NEGATIVE = false, bool MASK = false> struct __msl_cast {
  template <class A> friend MSL_FN constexpr T operator->*(__msl_cast, A a) {
    T made = MASK ? __msl_mkb<T>(a) : __msl_mk<T>(a);
    return NEGATIVE ? -made : made;
  }
  MSL_FN constexpr __msl_cast<T, !NEGATIVE, MASK> operator-() const { return {}; }
};

// ---- packed vectors: no padding, alignment of one component
#define MSL_PACKED(T, N, FIELDS, INIT, ARGS, LIST)                                            \
  struct packed_##T##N {                                                                      \
    T FIELDS;                                                                                 \
    packed_##T##N() = default;                                                                \
    MSL_FN constexpr packed_##T##N(T a) : INIT {}                                             \
    MSL_FN constexpr packed_##T##N ARGS : LIST {}                                             \
    MSL_FN packed_##T##N(T##N v) { for (int i = 0; i < N; ++i) (&x)[i] = v[i]; }              \
    MSL_FN operator T##N() const { T##N v; for (int i = 0; i < N; ++i) v[i] = (&x)[i]; return v; } \
    MSL_FN T& operator[](int i) { return (&x)[i]; }                                           \
    MSL_FN T operator[](int i) const { return (&x)[i]; }                                      \
    template <class A> MSL_FN packed_##T##N& operator+=(A a) { return *this = T##N(*this) + a; } \
    template <class A> MSL_FN packed_##T##N& operator-=(A a) { return *this = T##N(*this) - a; } \
    template <class A> MSL_FN packed_##T##N& operator*=(A a) { return *this = T##N(*this) * a; } \
    template <class A> MSL_FN packed_##T##N& operator/=(A a) { return *this = T##N(*this) / a; } \
  };
#define MSL_PACKED_SCALAR(T, N, op)                                                                     \
  template <class S, MSL_IF(__msl::scalar<S>)> MSL_FN T##N operator op(packed_##T##N a, S b) {          \
    return T##N(a) op T##N((T)b);                                                                       \
  }                                                                                                     \
  template <class S, MSL_IF(__msl::scalar<S>)> MSL_FN T##N operator op(S a, packed_##T##N b) {          \
    return T##N((T)a) op T##N(b);                                                                       \
  }
#define MSL_PACKED_SCALARS(T, N) \
  MSL_PACKED_SCALAR(T, N, +) MSL_PACKED_SCALAR(T, N, -) MSL_PACKED_SCALAR(T, N, *) MSL_PACKED_SCALAR(T, N, /)
#define MSL_COMMA ,
#define MSL_EACH_PACKED(T)                                                                     \
  MSL_PACKED(T, 2, x MSL_COMMA y, x(a) MSL_COMMA y(a), (T a MSL_COMMA T b), x(a) MSL_COMMA y(b)) \
  MSL_PACKED(T, 3, x MSL_COMMA y MSL_COMMA z, x(a) MSL_COMMA y(a) MSL_COMMA z(a),              \
             (T a MSL_COMMA T b MSL_COMMA T c), x(a) MSL_COMMA y(b) MSL_COMMA z(c))            \
  MSL_PACKED(T, 4, x MSL_COMMA y MSL_COMMA z MSL_COMMA w,                                      \
             x(a) MSL_COMMA y(a) MSL_COMMA z(a) MSL_COMMA w(a),                                \
             (T a MSL_COMMA T b MSL_COMMA T c MSL_COMMA T d),                                  \
             x(a) MSL_COMMA y(b) MSL_COMMA z(c) MSL_COMMA w(d))                                \
  MSL_PACKED_SCALARS(T, 2) MSL_PACKED_SCALARS(T, 3) MSL_PACKED_SCALARS(T, 4)
MSL_EACH_SCALAR(MSL_EACH_PACKED)
namespace __msl {
#define MSL_PACKED_PARTS(T)                                    \
  template <> struct composite<packed_##T##2> { enum { n = 2 }; }; \
  template <> struct composite<packed_##T##3> { enum { n = 3 }; }; \
  template <> struct composite<packed_##T##4> { enum { n = 4 }; };
MSL_EACH_SCALAR(MSL_PACKED_PARTS)
}  // namespace __msl

namespace metal {
template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));
#define MSL_EXPORT(T) \
  using ::T##2; using ::T##3; using ::T##4; using ::packed_##T##2; using ::packed_##T##3; using ::packed_##T##4;
MSL_EACH_SCALAR(MSL_EXPORT)
using ::bool2; using ::bool3; using ::bool4;
using ::uchar; using ::ushort; using ::uint; using ::ulong; using ::half; using ::bfloat;
using ::size_t; using ::ptrdiff_t; using ::int8_t; using ::uint8_t; using ::int16_t;
using ::uint16_t; using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t;
}  // namespace metal

template <class T, class U> MSL_FN constexpr T as_type(U u) {
  static_assert(sizeof(T) == sizeof(U), "as_type needs types of the same size");
  return __builtin_bit_cast(T, u);
}
namespace metal { using ::as_type; }
