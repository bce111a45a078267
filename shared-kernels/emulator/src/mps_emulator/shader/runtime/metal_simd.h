// Simdgroup functions and barriers: every call is a meeting point of lanes.
#pragma once
#include "abi.h"

// Neither inlined nor merged: the return address says which call a lane is in. All functions are
// compiled as convergent, so no call is copied or moved into a branch that lanes take differently.
#define MSL_UNCHECKED no_sanitize("kernel-address", "undefined")
#define MSL_MEETING                                                                      \
  __attribute__((noinline, nomerge, nodebug, MSL_UNCHECKED)) inline
#define MSL_SITE __builtin_return_address(0)

namespace __msl {
// One counted loop (see _loops.py). The count is written in assembly, out of sight of the checks
// that the compiler adds to every store.
struct loop : msl_loop {
  __attribute__((noinline, nodebug, MSL_UNCHECKED)) loop() {
    outer = msl_loops;
    count = 0;
    msl_loops = this;
  }
  __attribute__((noinline, nodebug, MSL_UNCHECKED)) ~loop() { msl_loops = outer; }
  MSL_FN explicit operator bool() const { return false; }
  MSL_FN bool next() {
    asm volatile("incq %0" : "+m"(count) : : "cc");
    return false;
  }
};

// Hash of the return addresses above the caller, down to the kernel's own frame, and of the lane's
// iterations: tells apart two calls of one helper and two iterations of one loop.
__attribute__((always_inline, nodebug, MSL_UNCHECKED)) inline msl_u64 path(void* frame) {
  msl_u64 h = 0;
  for (void** f = (void**)*(void**)frame; *f && *(void**)*f; f = (void**)*f)
    h = h * 31 + (msl_u64)f[1];
  for (const msl_loop* l = msl_loops; l; l = l->outer) h = (h ^ l->count) * 0x9E3779B97F4A7C15ul;
  return h;
}
#define MSL_PATH ::__msl::path(__builtin_frame_address(0))

template <class T> struct gathered {
  msl_simdgroup* group;
  msl_u32 set;
  msl_u32 lane;
  MSL_FN bool active(msl_u32 i) const { return i < 32 && (group->active >> i & 1); }
  MSL_FN T operator[](msl_u32 i) const {
    T v;
    __builtin_memcpy(&v, group->value[set][i], sizeof(T));
    return v;
  }
  MSL_FN msl_u32 first() const { return __builtin_ctz(group->active); }
  MSL_FN msl_u32 argument(msl_u32 i) const { return group->argument[set][i]; }
};
template <class T>
MSL_FN gathered<T> gather(T v, msl_u32 argument, const char* what, void* site, msl_u64 path) {
  static_assert(sizeof(T) <= 16, "too wide for a simdgroup function");
  msl_simdgroup* g = msl_group_now;
  msl_u32 lane = msl_now.thread & 31, set = g->generation & 1;
  __builtin_memcpy(g->value[set][lane], &v, sizeof(T));
  g->argument[set][lane] = argument;
  msl_wait(MSL_WAIT_SIMD, what, site, path);
  return {g, set, lane};
}
template <class T, class F>
MSL_FN T reduce(T v, const char* what, void* site, msl_u64 path, F f) {
  gathered<T> all = gather(v, 0, what, site, path);
  msl_simdgroup* g = all.group;
  T r;
  if (g->cached == g->generation) {  // another lane has computed it already
    __builtin_memcpy(&r, g->result, sizeof(T));
    return r;
  }
  bool some = false;
  for (msl_u32 i = 0; i < 32; ++i)
    if (all.active(i)) {
      r = some ? f(r, all[i]) : all[i];
      some = true;
    }
  __builtin_memcpy(g->result, &r, sizeof(T));
  g->cached = g->generation;
  return r;
}
template <class T> MSL_FN T from(const gathered<T>& all, msl_u32 i, const char* what, void* site) {
  if (!all.active(i)) msl_fail(MSL_INACTIVE_LANE, what, site, i, 0);
  return all[i];
}
template <class T> MSL_FN void uniform(const gathered<T>& all, const char* what, void* site) {
  if (all.argument(all.lane) != all.argument(all.first()))
    msl_fail(MSL_NON_UNIFORM, what, site, all.argument(all.lane), all.argument(all.first()));
}
// bool and 64-bit integers have no simdgroup functions in Metal.
template <class T> constexpr bool lane_type =
    number<T> && !is_bool<elem_t<T>> && !(is_int<elem_t<T>> && sizeof(elem_t<T>) == 8);
template <class T> constexpr bool lane_integer = lane_type<T> && integer<T>;
}  // namespace __msl

namespace metal {
#define MSL_REDUCTION(name, WHICH, expr)                                                        \
  template <class T, MSL_IF(__msl::WHICH<T>)> MSL_MEETING T name(T v) {                         \
    return __msl::reduce(v, #name, MSL_SITE, MSL_PATH, [](T a, T b) { return T(expr); });       \
  }
MSL_REDUCTION(simd_sum, lane_type, a + b)
MSL_REDUCTION(simd_product, lane_type, a * b)
MSL_REDUCTION(simd_min, lane_type, min(a, b))
MSL_REDUCTION(simd_max, lane_type, max(a, b))
MSL_REDUCTION(simd_and, lane_integer, a & b)
MSL_REDUCTION(simd_or, lane_integer, a | b)
MSL_REDUCTION(simd_xor, lane_integer, a ^ b)

#define MSL_PREFIX(name, start, op, last)                                                       \
  template <class T, MSL_IF(__msl::lane_type<T>)> MSL_MEETING T name(T v) {                     \
    auto all = __msl::gather(v, 0, #name, MSL_SITE, MSL_PATH);                                  \
    T r = T(start);                                                                             \
    for (msl_u32 i = 0; i last all.lane; ++i)                                                   \
      if (all.active(i)) r = T(r op all[i]);                                                    \
    return r;                                                                                   \
  }
MSL_PREFIX(simd_prefix_exclusive_sum, 0, +, <)
MSL_PREFIX(simd_prefix_inclusive_sum, 0, +, <=)
MSL_PREFIX(simd_prefix_exclusive_product, 1, *, <)
MSL_PREFIX(simd_prefix_inclusive_product, 1, *, <=)

template <class T, MSL_IF(__msl::lane_type<T>)> MSL_MEETING T simd_shuffle(T v, ushort lane) {
  auto all = __msl::gather(v, lane, "simd_shuffle", MSL_SITE, MSL_PATH);
  return __msl::from(all, lane, "simd_shuffle", MSL_SITE);
}
#define MSL_SHUFFLE(name, expr)                                                                 \
  template <class T, MSL_IF(__msl::lane_type<T>)> MSL_MEETING T name(T v, ushort k) {           \
    auto all = __msl::gather(v, k, #name, MSL_SITE, MSL_PATH);                                  \
    __msl::uniform(all, #name, MSL_SITE);                                                       \
    msl_u32 lane = all.lane;                                                                    \
    (void)lane;                                                                                 \
    return __msl::from(all, (msl_u32)(expr), #name, MSL_SITE);                                  \
  }
MSL_SHUFFLE(simd_broadcast, k)
MSL_SHUFFLE(simd_shuffle_xor, lane ^ k)
MSL_SHUFFLE(simd_shuffle_up, lane >= k ? lane - k : lane)
MSL_SHUFFLE(simd_shuffle_down, lane + k < 32 ? lane + k : lane)
MSL_SHUFFLE(simd_shuffle_rotate_up, (lane + 32 - k % 32) & 31)
MSL_SHUFFLE(simd_shuffle_rotate_down, (lane + k) & 31)

template <class T, MSL_IF(__msl::lane_type<T>)>
MSL_MEETING T simd_shuffle_and_fill_up(T v, T fill, ushort k, ushort modulo = 32) {
  const char* what = "simd_shuffle_and_fill_up";
  msl_u64 path = MSL_PATH;
  auto all = __msl::gather(v, k | (uint)modulo << 16, what, MSL_SITE, path);
  __msl::uniform(all, what, MSL_SITE);
  msl_u32 lane = all.lane, at = lane % modulo;
  T moved = at >= k ? __msl::from(all, lane - k, what, MSL_SITE) : v;
  auto fills = __msl::gather(fill, 0, what, MSL_SITE, path);
  return at >= k ? moved : __msl::from(fills, lane + modulo - k, what, MSL_SITE);
}
template <class T, MSL_IF(__msl::lane_type<T>)>
MSL_MEETING T simd_shuffle_and_fill_down(T v, T fill, ushort k, ushort modulo = 32) {
  const char* what = "simd_shuffle_and_fill_down";
  msl_u64 path = MSL_PATH;
  auto all = __msl::gather(v, k | (uint)modulo << 16, what, MSL_SITE, path);
  __msl::uniform(all, what, MSL_SITE);
  msl_u32 lane = all.lane, at = lane % modulo;
  T moved = at + k < modulo ? __msl::from(all, lane + k, what, MSL_SITE) : v;
  auto fills = __msl::gather(fill, 0, what, MSL_SITE, path);
  return at + k < modulo ? moved : __msl::from(fills, lane + k - modulo, what, MSL_SITE);
}
template <class T, MSL_IF(__msl::lane_type<T>)> MSL_MEETING T simd_broadcast_first(T v) {
  auto all = __msl::gather(v, 0, "simd_broadcast_first", MSL_SITE, MSL_PATH);
  return all[all.first()];
}

struct simd_vote {
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t v = 0) : bits(v) {}
  explicit constexpr operator vote_t() const { return bits; }
  bool all() const { return bits == 0xffffffffull; }
  bool any() const { return bits != 0; }

 private:
  vote_t bits;
};
MSL_MEETING simd_vote simd_ballot(bool b) {
  auto all = __msl::gather<uint>(b, 0, "simd_ballot", MSL_SITE, MSL_PATH);
  ulong r = 0;
  for (msl_u32 i = 0; i < 32; ++i)
    if (all.active(i) && all[i]) r |= 1ul << i;
  return simd_vote(r);
}
MSL_MEETING bool simd_any(bool b) {
  return __msl::reduce<uint>(b, "simd_any", MSL_SITE, MSL_PATH, [](uint x, uint y) { return x | y; });
}
MSL_MEETING bool simd_all(bool b) {
  return __msl::reduce<uint>(b, "simd_all", MSL_SITE, MSL_PATH, [](uint x, uint y) { return x & y; });
}
MSL_MEETING simd_vote simd_active_threads_mask() {
  auto all = __msl::gather<uint>(0, 0, "simd_active_threads_mask", MSL_SITE, MSL_PATH);
  return simd_vote(all.group->active);
}
MSL_MEETING bool simd_is_first() {
  auto all = __msl::gather<uint>(0, 0, "simd_is_first", MSL_SITE, MSL_PATH);
  return all.lane == all.first();
}

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
MSL_FN constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
MSL_FN constexpr mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }
MSL_MEETING void threadgroup_barrier(mem_flags) {
  msl_wait(MSL_WAIT_BARRIER, "threadgroup_barrier", MSL_SITE, MSL_PATH);
}
MSL_MEETING void simdgroup_barrier(mem_flags) {
  msl_wait(MSL_WAIT_SIMD_BARRIER, "simdgroup_barrier", MSL_SITE, MSL_PATH);
}
}  // namespace metal
