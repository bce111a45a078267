// Atomics. Lanes run one at a time, so plain accesses are atomic; what counts is which operations
// exist for which type and memory.
#pragma once
#include "abi.h"

namespace metal {
enum memory_order : int {
  memory_order_relaxed = 0,
#if __METAL_VERSION__ >= 320
  memory_order_seq_cst = 5,
#endif
};
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

template <class T> struct atomic {
  T __value;
};
template <> struct atomic<bool> {
  uint __value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;
typedef atomic<ulong> atomic_ulong;

}  // namespace metal
namespace __msl {
template <class T> constexpr bool atomic_type =
    __is_same(T, int) || __is_same(T, uint) || __is_same(T, float) || __is_same(T, bool);
template <class T> constexpr bool atomic_integer = __is_same(T, int) || __is_same(T, uint);
template <class T> MSL_FN void atomic_place(const volatile metal::atomic<T>* o) {
  if constexpr (__is_same(T, float))
    if (msl_in_threadgroup_memory((const void*)o))
      msl_fail(MSL_THREADGROUP_FLOAT_ATOMIC, "", (void*)0, (msl_u64)o, 4);
}
}  // namespace __msl
namespace metal {
#define MSL_RELAXED(order)                                                                      \
  __attribute__((diagnose_if(order != memory_order_relaxed,                                     \
                             "atomic operations take memory_order_relaxed only", "error")))
template <class T, MSL_IF(__msl::atomic_type<T>)>
MSL_FN T atomic_load_explicit(const volatile atomic<T>* o, memory_order order) MSL_RELAXED(order) {
  return T(o->__value);
}
template <class T, MSL_IF(__msl::atomic_type<T>)>
MSL_FN void atomic_store_explicit(volatile atomic<T>* o, __msl::same_t<T> v, memory_order order)
    MSL_RELAXED(order) {
  o->__value = v;
}
template <class T, MSL_IF(__msl::atomic_type<T>)>
MSL_FN T atomic_exchange_explicit(volatile atomic<T>* o, __msl::same_t<T> v, memory_order order)
    MSL_RELAXED(order) {
  T old = T(o->__value);
  o->__value = v;
  return old;
}
template <class T, MSL_IF(__msl::atomic_type<T>)>
MSL_FN bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* o, T* expected,
                                                  __msl::same_t<T> v, memory_order success,
                                                  memory_order failure)
    MSL_RELAXED(success) MSL_RELAXED(failure) {
  T old = T(o->__value);
  bool equal = __builtin_memcmp(&old, expected, sizeof(T)) == 0;  // bits, as the hardware does
  if (equal) o->__value = v;
  else *expected = old;
  return equal;
}
#define MSL_FETCH(name, WHICH, expr)                                                            \
  template <class T, MSL_IF(__msl::WHICH<T>)>                                                   \
  MSL_FN T atomic_fetch_##name##_explicit(volatile atomic<T>* o, __msl::same_t<T> v,            \
                                          memory_order order) MSL_RELAXED(order) {              \
    T old = o->__value;                                                                         \
    o->__value = T(expr);                                                                       \
    return old;                                                                                 \
  }
MSL_FETCH(and, atomic_integer, old & v)
MSL_FETCH(or, atomic_integer, old | v)
MSL_FETCH(xor, atomic_integer, old ^ v)
MSL_FETCH(min, atomic_integer, v < old ? v : old)
MSL_FETCH(max, atomic_integer, old < v ? v : old)
#define MSL_FETCH_SUM(name, op)                                                                 \
  template <class T, MSL_IF(__msl::atomic_integer<T> || __is_same(T, float))>                   \
  MSL_FN T atomic_fetch_##name##_explicit(volatile atomic<T>* o, __msl::same_t<T> v,            \
                                          memory_order order) MSL_RELAXED(order) {              \
    __msl::atomic_place(o);                                                                     \
    T old = o->__value;                                                                         \
    o->__value = T(old op v);                                                                   \
    return old;                                                                                 \
  }
MSL_FETCH_SUM(add, +)
MSL_FETCH_SUM(sub, -)
// 64-bit: these two only, without a result.
MSL_FN void atomic_max_explicit(volatile atomic_ulong* o, ulong v, memory_order order) MSL_RELAXED(order) {
  if (o->__value < v) o->__value = v;
}
MSL_FN void atomic_min_explicit(volatile atomic_ulong* o, ulong v, memory_order order) MSL_RELAXED(order) {
  if (v < o->__value) o->__value = v;
}
#if __METAL_VERSION__ >= 320
enum class mem_flags : uint;
MSL_FN void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {}
#endif
}  // namespace metal
