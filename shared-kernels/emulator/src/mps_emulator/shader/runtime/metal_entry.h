// How a launch passes arguments: read by the generated entry points.
#pragma once
#include "abi.h"

namespace __msl {
template <class F> struct signature;
template <class R, class... A> struct signature<R (*)(A...)> {
  static constexpr int count = sizeof...(A);
};
template <int I, class F> struct parameter;
template <int I, class R, class A, class... B> struct parameter<I, R (*)(A, B...)>
    : parameter<I - 1, R (*)(B...)> {};
template <class R, class A, class... B> struct parameter<0, R (*)(A, B...)> { typedef A type; };
template <class F, int I> using parameter_t = typename parameter<I, F>::type;

template <class P> struct bound {  // by value: refused by the parser, kept for the message
  static constexpr msl_u32 kind = MSL_VALUE;
  typedef P target;
};
template <class T> struct bound<T*> {
  static constexpr msl_u32 kind = MSL_POINTER;
  typedef T target;
  static MSL_FN T* get(void* p) { return (T*)p; }
};
template <class T> struct bound<T&> {
  static constexpr msl_u32 kind = MSL_REFERENCE;
  typedef T target;
  static MSL_FN T& get(void* p) { return *(T*)p; }
};

template <class T> struct element {
  typedef elem_t<T> type;
  enum { n = traits<T>::n };
};
template <class T> struct element<metal::atomic<T>> {
  typedef decltype(metal::atomic<T>::__value) type;
  enum { n = 1 };
};
#define MSL_PACKED_ELEMENT(T)                                                   \
  template <> struct element<packed_##T##2> { typedef T type; enum { n = 2 }; }; \
  template <> struct element<packed_##T##3> { typedef T type; enum { n = 3 }; }; \
  template <> struct element<packed_##T##4> { typedef T type; enum { n = 4 }; };
MSL_EACH_SCALAR(MSL_PACKED_ELEMENT)
template <> struct element<bool2> { typedef bool type; enum { n = 2 }; };
template <> struct element<bool3> { typedef bool type; enum { n = 3 }; };
template <> struct element<bool4> { typedef bool type; enum { n = 4 }; };

template <class T> constexpr msl_u32 scalar_kind() {
  return is_bool<T> ? MSL_BOOL : is_float<T> ? MSL_FLOAT : !is_int<T> ? MSL_OTHER
         : T(-1) < T(0) ? MSL_SIGNED : MSL_UNSIGNED;
}
template <class T, bool S> struct kind_of { static constexpr msl_u32 value = MSL_OTHER; };
template <class T> struct kind_of<T, true> { static constexpr msl_u32 value = scalar_kind<T>(); };

template <bool B, class X, class Y> struct instead { typedef X type; };
template <class X, class Y> struct instead<false, X, Y> { typedef Y type; };
template <class P> constexpr msl_param describe() {
  typedef typename bound<P>::target Q;
  // Memory without a type is counted in bytes.
  typedef typename instead<__is_void(Q), char, __remove_cv(Q)>::type T;
  typedef typename element<T>::type E;
  return {bound<P>::kind, sizeof(T), alignof(T), sizeof(E), kind_of<E, scalar<E> && !__is_void(Q)>::value, element<T>::n, __is_const(Q), 0};
}

template <class T> MSL_FN T index_of(const msl_u32* v) {
  if constexpr (traits<T>::n == 1) {
    return T(v[0]);
  } else if constexpr (traits<T>::n == 2) {
    return T{(elem_t<T>)v[0], (elem_t<T>)v[1]};
  } else {
    return T{(elem_t<T>)v[0], (elem_t<T>)v[1], (elem_t<T>)v[2]};
  }
}
#define MSL_BUILTIN(name, ...)                                                       \
  template <class T> MSL_FN T name() {                                               \
    const msl_state& s = msl_now;                                                    \
    const msl_u32 v[3] = {__VA_ARGS__};                                              \
    return index_of<T>(v);                                                           \
  }
#define MSL_GLOBAL(d) s.group_position[d] * s.dispatch_size[d] + s.thread_position[d]
namespace builtin {
MSL_BUILTIN(thread_position_in_grid, MSL_GLOBAL(0), MSL_GLOBAL(1), MSL_GLOBAL(2))
MSL_BUILTIN(threads_per_grid, s.grid[0], s.grid[1], s.grid[2])
MSL_BUILTIN(thread_position_in_threadgroup, s.thread_position[0], s.thread_position[1], s.thread_position[2])
MSL_BUILTIN(threads_per_threadgroup, s.group_size[0], s.group_size[1], s.group_size[2])
MSL_BUILTIN(dispatch_threads_per_threadgroup, s.dispatch_size[0], s.dispatch_size[1], s.dispatch_size[2])
MSL_BUILTIN(threadgroup_position_in_grid, s.group_position[0], s.group_position[1], s.group_position[2])
MSL_BUILTIN(threadgroups_per_grid, s.groups[0], s.groups[1], s.groups[2])
MSL_BUILTIN(thread_index_in_threadgroup, s.thread)
MSL_BUILTIN(thread_index_in_simdgroup, s.thread & 31)
MSL_BUILTIN(simdgroup_index_in_threadgroup, s.thread >> 5)
MSL_BUILTIN(simdgroups_per_threadgroup, s.simdgroups)
MSL_BUILTIN(dispatch_simdgroups_per_threadgroup, (s.dispatch_size[0] * s.dispatch_size[1] * s.dispatch_size[2] + 31) / 32)
MSL_BUILTIN(threads_per_simdgroup, 32)
MSL_BUILTIN(thread_execution_width, 32)
}  // namespace builtin
}  // namespace __msl
