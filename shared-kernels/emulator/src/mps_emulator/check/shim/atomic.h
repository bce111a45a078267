// Atomic types and functions: relaxed only; float adds in device memory only; 64-bit max and min
// without a result. Every call that Metal lacks is deleted, so that it is named in the message.
#pragma once
#pragma clang system_header
#if __METAL_VERSION__ >= 320
#define SHIM_SINCE_320
#else
#define SHIM_SINCE_320 __attribute__((unavailable("needs Metal 3.2")))
#endif
namespace metal {
#define SHIM_NEVER __attribute__((unavailable("Metal's atomics take memory_order_relaxed")))
enum memory_order {
  memory_order_relaxed,
  memory_order_seq_cst SHIM_SINCE_320,
  memory_order_consume SHIM_NEVER,
  memory_order_acquire SHIM_NEVER,
  memory_order_release SHIM_NEVER,
  memory_order_acq_rel SHIM_NEVER
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device
};
SHIM_SINCE_320 void atomic_thread_fence(mem_flags, memory_order,
                                        thread_scope = thread_scope_device);

template <class T>
struct atomic {
 private:
  T value_;
};

#define SHIM_ACCESS(space, T)                                                                \
  void atomic_store_explicit(volatile space atomic<T>*, T, memory_order);                    \
  T atomic_load_explicit(const volatile space atomic<T>*, memory_order);                     \
  T atomic_exchange_explicit(volatile space atomic<T>*, T, memory_order);                    \
  bool atomic_compare_exchange_weak_explicit(volatile space atomic<T>*, thread T*, T,        \
                                             memory_order, memory_order);
#define SHIM_FETCH(space, T, end)                                                            \
  T atomic_fetch_add_explicit(volatile space atomic<T>*, T, memory_order) end;               \
  T atomic_fetch_sub_explicit(volatile space atomic<T>*, T, memory_order) end;
#define SHIM_FETCH_MORE(space, T, end)                                                       \
  T atomic_fetch_min_explicit(volatile space atomic<T>*, T, memory_order) end;               \
  T atomic_fetch_max_explicit(volatile space atomic<T>*, T, memory_order) end;               \
  T atomic_fetch_and_explicit(volatile space atomic<T>*, T, memory_order) end;               \
  T atomic_fetch_or_explicit(volatile space atomic<T>*, T, memory_order) end;                \
  T atomic_fetch_xor_explicit(volatile space atomic<T>*, T, memory_order) end;
#define SHIM_32_BIT(space)                                                                   \
  SHIM_ACCESS(space, int) SHIM_ACCESS(space, uint) SHIM_ACCESS(space, bool)                  \
  SHIM_FETCH(space, int, ) SHIM_FETCH(space, uint, ) SHIM_FETCH_MORE(space, int, )           \
  SHIM_FETCH_MORE(space, uint, ) SHIM_FETCH_MORE(space, float, = delete)                     \
  SHIM_FETCH(space, bool, = delete) SHIM_FETCH_MORE(space, bool, = delete)                   \
  SHIM_FETCH(space, ulong, = delete) SHIM_FETCH_MORE(space, ulong, = delete)
SHIM_32_BIT(device)
SHIM_32_BIT(threadgroup)
SHIM_ACCESS(device, float)
SHIM_FETCH(device, float, )
SHIM_FETCH(threadgroup, float, = delete)
void atomic_max_explicit(volatile device atomic<ulong>*, ulong, memory_order);
void atomic_min_explicit(volatile device atomic<ulong>*, ulong, memory_order);
}  // namespace metal
// OpenCL predeclares these names as types of its own.
#define atomic_int metal::atomic<int>
#define atomic_uint metal::atomic<uint>
#define atomic_bool metal::atomic<bool>
#define atomic_float metal::atomic<float>
#define atomic_ulong metal::atomic<ulong>
