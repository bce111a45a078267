// Simdgroup functions, barriers and atomics. A simdgroup is a warp, a threadgroup is a block.
// Lanes must meet in them: a lane that took another branch does not take part (the executor refuses
// such texts). MSL_WHOLE: every simdgroup has all its 32 lanes; else the last one may lack some.
namespace __msl {
MSL_FN uint flat() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
MSL_FN uint lane() {
  uint l;
  asm("mov.u32 %0, %%laneid;" : "=r"(l));
  return l;
}
#if MSL_WHOLE
#define MSL_LANES 0xffffffffu
#else
__shared__ uint threads_here;  // of this threadgroup
MSL_FN uint lanes() {
  uint rest = threads_here - (flat() & ~31u);
  return rest >= 32 ? 0xffffffffu : (1u << rest) - 1u;
}
#define MSL_LANES (::__msl::lanes())
#endif

template <class T> constexpr bool lane_type =
    number<T> && !(is_int<elem_t<T>> && sizeof(elem_t<T>) == 8);  // as in Metal
template <class T> constexpr bool lane_integer = lane_type<T> && integer<T>;
template <class T> struct wide { typedef int type; };
template <> struct wide<float> { typedef float type; };
template <> struct wide<uint> { typedef uint type; };
template <class T> using wide_t = typename wide<T>::type;

template <class T> MSL_FN T shuffle(T v, uint from) {
  return T(__shfl_sync(MSL_LANES, wide_t<T>(v), int(from)));
}
template <class T> MSL_FN T shuffle_xor(T v, uint with) {
  return T(__shfl_xor_sync(MSL_LANES, wide_t<T>(v), int(with)));
}
template <class T> MSL_FN T shuffle_up(T v, uint by) {
  return T(__shfl_up_sync(MSL_LANES, wide_t<T>(v), by));
}
template <class T> MSL_FN T shuffle_down(T v, uint by) {
  return T(__shfl_down_sync(MSL_LANES, wide_t<T>(v), by));
}
template <class T, class F> MSL_FN T reduce(T v, F f) {
  const uint all = MSL_LANES;
  if (all == 0xffffffffu) {
#pragma unroll
    for (uint o = 16; o; o >>= 1) v = f(v, shuffle_xor(v, o));
    return v;
  }
  T r = shuffle(v, 0);
  for (uint i = 1; i < 32 && (all >> i & 1); ++i) r = f(r, shuffle(v, i));
  return r;
}
template <class T, class F> MSL_FN T scan(T v, F f) {
#pragma unroll
  for (uint o = 1; o < 32; o <<= 1) {
    T before = shuffle_up(v, o);
    if (lane() >= o) v = f(before, v);
  }
  return v;
}
// the hardware's own reductions of 32-bit integers
#define MSL_HARDWARE(name, function, T)                                                        \
  MSL_FN T name(T v) { return function(MSL_LANES, v); }
#define MSL_REDUCTION(name, expr)                                                              \
  template <class T> MSL_FN T name(T v) {                                                      \
    return reduce(v, [](T a, T b) { return T(expr); });                                        \
  }
MSL_REDUCTION(sum_of, a + b)
MSL_REDUCTION(product_of, a* b)
MSL_REDUCTION(least_of, less(a, b))
MSL_REDUCTION(most_of, more(a, b))
MSL_REDUCTION(and_of, a& b)
MSL_REDUCTION(or_of, a | b)
MSL_REDUCTION(xor_of, a ^ b)
MSL_HARDWARE(sum_of, __reduce_add_sync, uint)
MSL_HARDWARE(sum_of, __reduce_add_sync, int)
MSL_HARDWARE(least_of, __reduce_min_sync, uint)
MSL_HARDWARE(least_of, __reduce_min_sync, int)
MSL_HARDWARE(most_of, __reduce_max_sync, uint)
MSL_HARDWARE(most_of, __reduce_max_sync, int)
MSL_HARDWARE(and_of, __reduce_and_sync, uint)
MSL_HARDWARE(or_of, __reduce_or_sync, uint)
MSL_HARDWARE(xor_of, __reduce_xor_sync, uint)
}  // namespace __msl

namespace metal {
#define MSL_LANE_UNARY(name, WHICH, expr)                                                      \
  template <class E, MSL_IF(::__msl::WHICH<E> && ::__msl::scalar<E>)>                          \
  MSL_FN E name(E e) { return expr; }                                                          \
  template <class E, int N, MSL_IF(::__msl::WHICH<E>)> MSL_FN vec<E, N> name(vec<E, N> x) {    \
    return ::__msl::each(x, [](E e) { return expr; });                                         \
  }
#define MSL_LANE_BINARY(name, expr)                                                            \
  template <class E, MSL_IF(::__msl::lane_type<E> && ::__msl::scalar<E>)>                      \
  MSL_FN E name(E e, ushort k) { return expr; }                                                \
  template <class E, int N, MSL_IF(::__msl::lane_type<E>)>                                     \
  MSL_FN vec<E, N> name(vec<E, N> x, ushort k) {                                               \
    return ::__msl::each(x, [=](E e) { return expr; });                                        \
  }
MSL_LANE_UNARY(simd_sum, lane_type, ::__msl::sum_of(e))
MSL_LANE_UNARY(simd_product, lane_type, ::__msl::product_of(e))
MSL_LANE_UNARY(simd_min, lane_type, ::__msl::least_of(e))
MSL_LANE_UNARY(simd_max, lane_type, ::__msl::most_of(e))
MSL_LANE_UNARY(simd_and, lane_integer, ::__msl::and_of(e))
MSL_LANE_UNARY(simd_or, lane_integer, ::__msl::or_of(e))
MSL_LANE_UNARY(simd_xor, lane_integer, ::__msl::xor_of(e))
#define MSL_SUM [](E a, E b) { return E(a + b); }
#define MSL_PRODUCT [](E a, E b) { return E(a * b); }
MSL_LANE_UNARY(simd_prefix_inclusive_sum, lane_type, ::__msl::scan(e, MSL_SUM))
MSL_LANE_UNARY(simd_prefix_inclusive_product, lane_type, ::__msl::scan(e, MSL_PRODUCT))
template <class E, MSL_IF(::__msl::lane_type<E> && ::__msl::scalar<E>)>
MSL_FN E simd_prefix_exclusive_sum(E e) {
  E before = ::__msl::shuffle_up(e, 1);
  return ::__msl::scan(::__msl::lane() ? before : E(0), MSL_SUM);
}
template <class E, MSL_IF(::__msl::lane_type<E> && ::__msl::scalar<E>)>
MSL_FN E simd_prefix_exclusive_product(E e) {
  E before = ::__msl::shuffle_up(e, 1);
  return ::__msl::scan(::__msl::lane() ? before : E(1), MSL_PRODUCT);
}
MSL_LANE_BINARY(simd_shuffle, ::__msl::shuffle(e, k))
MSL_LANE_BINARY(simd_broadcast, ::__msl::shuffle(e, k))
MSL_LANE_BINARY(simd_shuffle_xor, ::__msl::shuffle_xor(e, k))
MSL_LANE_BINARY(simd_shuffle_up, ::__msl::shuffle_up(e, k))
MSL_LANE_BINARY(simd_shuffle_down, ::__msl::shuffle_down(e, k))
MSL_LANE_BINARY(simd_shuffle_rotate_up, ::__msl::shuffle(e, (::__msl::lane() + 32u - k % 32u) & 31u))
MSL_LANE_BINARY(simd_shuffle_rotate_down, ::__msl::shuffle(e, (::__msl::lane() + k) & 31u))
MSL_LANE_UNARY(simd_broadcast_first, lane_type, ::__msl::shuffle(e, 0))

struct simd_vote {
  typedef ulong vote_t;
  explicit MSL_IN constexpr simd_vote(vote_t v = 0) : bits(v) {}
  explicit MSL_IN constexpr operator vote_t() const { return bits; }
  MSL_IN bool all() const { return bits == 0xffffffffull; }
  MSL_IN bool any() const { return bits != 0; }

 private:
  vote_t bits;
};
MSL_FN simd_vote simd_ballot(bool b) { return simd_vote(__ballot_sync(MSL_LANES, b)); }
MSL_FN bool simd_any(bool b) { return __any_sync(MSL_LANES, b); }
MSL_FN bool simd_all(bool b) { return __all_sync(MSL_LANES, b); }
MSL_FN simd_vote simd_active_threads_mask() { return simd_vote(MSL_LANES); }
MSL_FN bool simd_is_first() { return ::__msl::lane() == 0; }

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
MSL_FN constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
MSL_FN void threadgroup_barrier(mem_flags) { __syncthreads(); }
MSL_FN void simdgroup_barrier(mem_flags) { __syncwarp(MSL_LANES); }

// ---- atomics
enum memory_order : int { memory_order_relaxed = 0 };
template <class T> struct atomic { T __value; };
template <> struct atomic<bool> { uint __value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;
}  // namespace metal
namespace __msl {
template <class T> constexpr bool atomic_type =
    alike<T, int>::value || alike<T, uint>::value || is_float<T> || is_bool<T>;
template <class T> constexpr bool atomic_integer = alike<T, int>::value || alike<T, uint>::value;
template <class T> constexpr bool atomic_number = atomic_integer<T> || is_float<T>;
template <class T> MSL_FN auto* place(const volatile metal::atomic<T>* o) {
  return &const_cast<metal::atomic<T>*>(o)->__value;
}
}  // namespace __msl
namespace metal {
#define MSL_SCOPE __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE
template <class T, MSL_IF(::__msl::atomic_type<T>)>
MSL_FN T atomic_load_explicit(const volatile atomic<T>* o, memory_order) {
  return T(__nv_atomic_load_n(::__msl::place(o), MSL_SCOPE));
}
template <class T, MSL_IF(::__msl::atomic_type<T>)>
MSL_FN void atomic_store_explicit(volatile atomic<T>* o, ::__msl::same_t<T> v, memory_order) {
  __nv_atomic_store_n(::__msl::place(o), decltype(o->__value)(v), MSL_SCOPE);
}
template <class T, MSL_IF(::__msl::atomic_type<T>)>
MSL_FN T atomic_exchange_explicit(volatile atomic<T>* o, ::__msl::same_t<T> v, memory_order) {
  return T(atomicExch(::__msl::place(o), decltype(o->__value)(v)));
}
template <class T, MSL_IF(::__msl::atomic_type<T>)>
MSL_FN bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* o, T* expected,
                                                  ::__msl::same_t<T> v, memory_order, memory_order) {
  const uint old = as_type<uint>(decltype(o->__value)(*expected));
  const uint next = as_type<uint>(decltype(o->__value)(v));
  const uint found = atomicCAS((uint*)::__msl::place(o), old, next);
  *expected = T(as_type<decltype(atomic<T>::__value)>(found));
  return found == old;
}
#define MSL_FETCH(name, WHICH, function)                                                       \
  template <class T, MSL_IF(::__msl::WHICH<T>)>                                                \
  MSL_FN T atomic_fetch_##name##_explicit(volatile atomic<T>* o, ::__msl::same_t<T> v,         \
                                          memory_order) {                                      \
    return function(::__msl::place(o), v);                                                     \
  }
MSL_FETCH(add, atomic_number, ::atomicAdd)
MSL_FETCH(and, atomic_integer, ::atomicAnd)
MSL_FETCH(or, atomic_integer, ::atomicOr)
MSL_FETCH(xor, atomic_integer, ::atomicXor)
MSL_FETCH(min, atomic_integer, ::atomicMin)
MSL_FETCH(max, atomic_integer, ::atomicMax)
template <class T, MSL_IF(::__msl::atomic_number<T>)>
MSL_FN T atomic_fetch_sub_explicit(volatile atomic<T>* o, ::__msl::same_t<T> v, memory_order) {
  return ::atomicAdd(::__msl::place(o), T(-v));
}
MSL_FN void atomic_max_explicit(volatile atomic_ulong* o, ulong v, memory_order) {
  ::atomicMax((unsigned long long*)::__msl::place(o), (unsigned long long)v);
}
MSL_FN void atomic_min_explicit(volatile atomic_ulong* o, ulong v, memory_order) {
  ::atomicMin((unsigned long long*)::__msl::place(o), (unsigned long long)v);
}
}  // namespace metal
