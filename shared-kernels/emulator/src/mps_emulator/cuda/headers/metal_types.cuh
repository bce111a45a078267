// Types of the Metal standard library for CUDA's compiler. A kernel text stands in namespace metal,
// so its names are found before those that CUDA declares outside.
#define MSL_FN static __forceinline__
#define MSL_IN __forceinline__

namespace metal {
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
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

template <class T, int N> struct vec;
template <class T, int N> struct packed_vec;
}  // namespace metal

namespace __msl {
template <bool B, class T = void> struct enable {};
template <class T> struct enable<true, T> { typedef T type; };
template <class A, class B> struct alike { enum { value = 0 }; };
template <class A> struct alike<A, A> { enum { value = 1 }; };
template <class T> struct same { typedef T type; };
template <class T> using same_t = typename same<T>::type;  // not deduced
template <int... I> struct at {};                            // components of a swizzle
template <class T> constexpr bool is_float = alike<T, float>::value;
template <class T> constexpr bool is_bool = alike<T, bool>::value;
template <class T> constexpr bool is_int =
    alike<T, char>::value || alike<T, signed char>::value || alike<T, unsigned char>::value ||
    alike<T, short>::value || alike<T, unsigned short>::value || alike<T, int>::value ||
    alike<T, unsigned>::value || alike<T, long>::value || alike<T, unsigned long>::value;
template <class T> constexpr bool scalar = is_float<T> || is_int<T> || is_bool<T>;
template <class T> struct traits {
  typedef T elem;
  enum { n = 1, vector = 0 };
};
template <class T, int N> struct traits<metal::vec<T, N>> {
  typedef T elem;
  enum { n = N, vector = 1 };
};
template <class T, int N> struct traits<metal::packed_vec<T, N>> {
  typedef T elem;
  enum { n = N, vector = 0 };
};
template <class T> using elem_t = typename traits<T>::elem;
template <class T> constexpr bool vector = traits<T>::vector;
template <class T> constexpr bool real = is_float<elem_t<T>>;
template <class T> constexpr bool integer = is_int<elem_t<T>>;
template <class T> constexpr bool number = real<T> || integer<T>;
template <class T> constexpr bool is_signed = T(-1) < T(0);
#define MSL_IF(...) typename ::__msl::enable<(__VA_ARGS__), int>::type = 0
}  // namespace __msl

// alignas: of an attribute after the body NVRTC knows the layout, but loads the parts one by one
namespace metal {
template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
  T x, y;
  vec() = default;
  MSL_IN constexpr vec(T a) : x(a), y(a) {}
  MSL_IN constexpr vec(T a, T b) : x(a), y(b) {}
  template <class U> MSL_IN explicit constexpr vec(vec<U, 2> v) : x(T(v.x)), y(T(v.y)) {}
#define MSL_COMMON(N)                                                                          \
  MSL_IN T& operator[](uint i) { return (&x)[i]; }                                             \
  MSL_IN const T& operator[](uint i) const { return (&x)[i]; }                                 \
  template <int... I> MSL_IN const vec<T, sizeof...(I)> pick(::__msl::at<I...>) const {        \
    return vec<T, sizeof...(I)>((*this)[I]...);                                                \
  }
  MSL_COMMON(2)
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
  T x, y, z;
  vec() = default;
  MSL_IN constexpr vec(T a) : x(a), y(a), z(a) {}
  MSL_IN constexpr vec(T a, T b, T c) : x(a), y(b), z(c) {}
  MSL_IN constexpr vec(vec<T, 2> a, T b) : x(a.x), y(a.y), z(b) {}
  MSL_IN constexpr vec(T a, vec<T, 2> b) : x(a), y(b.x), z(b.y) {}
  template <class U> MSL_IN explicit constexpr vec(vec<U, 3> v) : x(T(v.x)), y(T(v.y)), z(T(v.z)) {}
  MSL_COMMON(3)
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
  T x, y, z, w;
  vec() = default;
  MSL_IN constexpr vec(T a) : x(a), y(a), z(a), w(a) {}
  MSL_IN constexpr vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
  MSL_IN constexpr vec(vec<T, 2> a, T b, T c) : x(a.x), y(a.y), z(b), w(c) {}
  MSL_IN constexpr vec(vec<T, 2> a, vec<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
  MSL_IN constexpr vec(vec<T, 3> a, T b) : x(a.x), y(a.y), z(a.z), w(b) {}
  MSL_IN constexpr vec(T a, vec<T, 3> b) : x(a), y(b.x), z(b.y), w(b.z) {}
  template <class U> MSL_IN explicit constexpr vec(vec<U, 4> v)
      : x(T(v.x)), y(T(v.y)), z(T(v.z)), w(T(v.w)) {}
  MSL_COMMON(4)
};

// ---- component by component; a scalar beside a vector is repeated
}  // namespace metal
namespace __msl {
template <class T, int N, class F> MSL_FN metal::vec<T, N> each(metal::vec<T, N> a, F f) {
  metal::vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = f(a[i]);
  return r;
}
template <class R, class T, int N, class F>
MSL_FN metal::vec<R, N> each2(metal::vec<T, N> a, metal::vec<T, N> b, F f) {
  metal::vec<R, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = f(a[i], b[i]);
  return r;
}
}  // namespace __msl
namespace metal {
#define MSL_OPERATOR(op, R)                                                                    \
  template <class T, int N> MSL_FN vec<R, N> operator op(vec<T, N> a, vec<T, N> b) {           \
    return ::__msl::each2<R>(a, b, [](T p, T q) { return R(p op q); });                        \
  }                                                                                            \
  template <class T, int N>                                                                    \
  MSL_FN vec<R, N> operator op(vec<T, N> a, ::__msl::same_t<T> b) {                            \
    return a op vec<T, N>(b);                                                                  \
  }                                                                                            \
  template <class T, int N>                                                                    \
  MSL_FN vec<R, N> operator op(::__msl::same_t<T> a, vec<T, N> b) {                            \
    return vec<T, N>(a) op b;                                                                  \
  }
#define MSL_ARITHMETIC(op)                                                                     \
  MSL_OPERATOR(op, T)                                                                          \
  template <class T, int N>                                                                    \
  MSL_FN vec<T, N>& operator op##=(vec<T, N>& a, ::__msl::same_t<vec<T, N>> b) {               \
    return a = a op b;                                                                         \
  }
MSL_ARITHMETIC(+)
MSL_ARITHMETIC(-)
MSL_ARITHMETIC(*)
MSL_ARITHMETIC(/)
MSL_ARITHMETIC(%)
MSL_ARITHMETIC(&)
MSL_ARITHMETIC(|)
MSL_ARITHMETIC(^)
MSL_ARITHMETIC(<<)
MSL_ARITHMETIC(>>)
MSL_OPERATOR(==, bool)
MSL_OPERATOR(!=, bool)
MSL_OPERATOR(<, bool)
MSL_OPERATOR(>, bool)
MSL_OPERATOR(<=, bool)
MSL_OPERATOR(>=, bool)
MSL_OPERATOR(&&, bool)
MSL_OPERATOR(||, bool)
template <class T, int N> MSL_FN vec<T, N> operator-(vec<T, N> a) {
  return ::__msl::each(a, [](T p) { return T(-p); });
}
template <class T, int N> MSL_FN vec<T, N> operator~(vec<T, N> a) {
  return ::__msl::each(a, [](T p) { return T(~p); });
}
template <int N> MSL_FN vec<bool, N> operator!(vec<bool, N> a) {
  return ::__msl::each(a, [](bool p) { return !p; });
}

template <class T, int N> struct packed_vec {
  T v[N];
  packed_vec() = default;
  MSL_IN packed_vec(vec<T, N> a) {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = a[i];
  }
  template <class... U, MSL_IF(sizeof...(U) == N)> MSL_IN packed_vec(U... a) : v{T(a)...} {}
  MSL_IN operator vec<T, N>() const {
    vec<T, N> r;
#pragma unroll
    for (int i = 0; i < N; ++i) r[i] = v[i];
    return r;
  }
  MSL_IN T& operator[](uint i) { return v[i]; }
  MSL_IN const T& operator[](uint i) const { return v[i]; }
};

#define MSL_NAMES(T)                                                                           \
  typedef vec<T, 2> T##2;                                                                      \
  typedef vec<T, 3> T##3;                                                                      \
  typedef vec<T, 4> T##4;
#define MSL_PACKED_NAMES(T)                                                                    \
  typedef packed_vec<T, 2> packed_##T##2;                                                      \
  typedef packed_vec<T, 3> packed_##T##3;                                                      \
  typedef packed_vec<T, 4> packed_##T##4;
#define MSL_EACH_SCALAR(F) F(char) F(uchar) F(short) F(ushort) F(int) F(uint) F(long) F(ulong) F(float)
MSL_EACH_SCALAR(MSL_NAMES)
MSL_EACH_SCALAR(MSL_PACKED_NAMES)
MSL_NAMES(bool)

template <class To, class From> MSL_FN constexpr To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs two types of one size");
  return __builtin_bit_cast(To, from);
}
}  // namespace metal
