// How a launch passes arguments: read by the generated entry points.
namespace __msl {
template <int I, class F> struct parameter;
template <int I, class R, class A, class... B> struct parameter<I, R (*)(A, B...)>
    : parameter<I - 1, R (*)(B...)> {};
template <class R, class A, class... B> struct parameter<0, R (*)(A, B...)> { typedef A type; };
template <class F, int I> using parameter_t = typename parameter<I, F>::type;

// a buffer passed by value
template <int SIZE> struct alignas(16) bytes { unsigned char data[SIZE]; };

struct grid { uint size[3]; };

struct description {
  uint kind, size, align, scalar_size, scalar_kind, components, is_const, reserved;
};
template <class P> struct bound {  // a built-in comes by value
  enum { kind = 0 };
  typedef P target;
};
template <class T> struct bound<T*> {
  enum { kind = 1 };
  typedef T target;
  static MSL_IN T* get(const void* p) { return (T*)p; }
};
template <class T> struct bound<T&> {
  enum { kind = 2 };
  typedef T target;
  static MSL_IN T& get(const void* p) { return *(T*)p; }
};
template <class T> struct plain { typedef T type; enum { is_const = 0 }; };
template <class T> struct plain<const T> { typedef T type; enum { is_const = 1 }; };
template <class T> struct plain<volatile T> : plain<T> {};
template <class T> struct plain<const volatile T> : plain<const T> {};
template <> struct plain<void> { typedef char type; enum { is_const = 0 }; };
template <> struct plain<const void> { typedef char type; enum { is_const = 1 }; };
template <class T> struct element { typedef elem_t<T> type; };
template <class T> struct element<metal::atomic<T>> {
  typedef decltype(metal::atomic<T>::__value) type;
};
template <class T> constexpr uint scalar_kind() {
  if constexpr (!scalar<T>) return 0;
  else return is_bool<T> ? 4 : is_float<T> ? 1 : T(-1) < T(0) ? 2 : 3;
}
template <class P, class Q> constexpr description described(uint kind) {
  typedef typename plain<Q>::type T;
  typedef typename element<T>::type E;
  return {kind, sizeof(T), alignof(T), sizeof(E), scalar_kind<E>(), traits<T>::n, plain<Q>::is_const, 0};
}
template <class P> struct describe {
  static constexpr description value = described<P, typename bound<P>::target>(bound<P>::kind);
};
template <class T> MSL_FN T as_index(uint x, uint y, uint z) {
  typedef elem_t<T> E;
  if constexpr (traits<T>::n == 1) return T(x);
  else if constexpr (traits<T>::n == 2) return T(E(x), E(y));
  else return T(E(x), E(y), E(z));
}
MSL_FN uint threads() { return blockDim.x * blockDim.y * blockDim.z; }
#if MSL_WHOLE
#define MSL_THREADS_X blockDim.x
MSL_FN bool is_outside(const grid&) { return false; }
#else
#define MSL_THREADS_X threads_here
// The grid has one dimension here; the last threadgroup ends with it.
MSL_FN bool is_outside(const grid& g) {
  uint first = blockIdx.x * blockDim.x;
  if (threadIdx.x == 0) threads_here = g.size[0] - first < blockDim.x ? g.size[0] - first : blockDim.x;
  __syncthreads();
  return threadIdx.x >= threads_here;
}
#endif
#define MSL_BUILTIN(name, ...)                                                                 \
  template <class T> MSL_FN T name(const grid& g) { return as_index<T>(__VA_ARGS__); }
namespace builtin {
MSL_BUILTIN(thread_position_in_grid, blockIdx.x* blockDim.x + threadIdx.x,
            blockIdx.y* blockDim.y + threadIdx.y, blockIdx.z* blockDim.z + threadIdx.z)
MSL_BUILTIN(threads_per_grid, g.size[0], g.size[1], g.size[2])
MSL_BUILTIN(thread_position_in_threadgroup, threadIdx.x, threadIdx.y, threadIdx.z)
MSL_BUILTIN(threads_per_threadgroup, MSL_THREADS_X, blockDim.y, blockDim.z)
MSL_BUILTIN(dispatch_threads_per_threadgroup, blockDim.x, blockDim.y, blockDim.z)
MSL_BUILTIN(threadgroup_position_in_grid, blockIdx.x, blockIdx.y, blockIdx.z)
MSL_BUILTIN(threadgroups_per_grid, gridDim.x, gridDim.y, gridDim.z)
MSL_BUILTIN(thread_index_in_threadgroup, flat(), 0, 0)
MSL_BUILTIN(thread_index_in_simdgroup, lane(), 0, 0)
MSL_BUILTIN(simdgroup_index_in_threadgroup, flat() >> 5, 0, 0)
MSL_BUILTIN(simdgroups_per_threadgroup, (MSL_THREADS_X * blockDim.y * blockDim.z + 31) / 32, 0, 0)
MSL_BUILTIN(dispatch_simdgroups_per_threadgroup, (threads() + 31) / 32, 0, 0)
MSL_BUILTIN(threads_per_simdgroup, 32, 0, 0)
MSL_BUILTIN(thread_execution_width, 32, 0, 0)
}  // namespace builtin
}  // namespace __msl

// Address spaces are erased; the static checker checks them.
#define device
#define thread
#define constant const
#define threadgroup
#define kernel static __forceinline__
#define __msl_tg __shared__
#line 1 "program_source"
namespace metal {
