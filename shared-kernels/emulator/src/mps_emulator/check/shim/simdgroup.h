// Barriers, simdgroup and quadgroup functions.
// 64-bit integers and bool have no simdgroup overloads in Metal, so those are deleted here.
#pragma once
#pragma clang system_header
namespace metal {
enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
mem_flags operator|(mem_flags, mem_flags);
mem_flags operator&(mem_flags, mem_flags);
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

#define SHIM_GROUP_EVERY(M, f)                                                               \
  SHIM_EACH_WIDTH(M, f, float) SHIM_EACH_WIDTH(M, f, half) SHIM_GROUP_INTEGER(M, f)
#define SHIM_GROUP_INTEGER(M, f)                                                             \
  SHIM_EACH_WIDTH(M, f, char) SHIM_EACH_WIDTH(M, f, uchar) SHIM_EACH_WIDTH(M, f, short)      \
  SHIM_EACH_WIDTH(M, f, ushort) SHIM_EACH_WIDTH(M, f, int) SHIM_EACH_WIDTH(M, f, uint)
#define SHIM_REDUCE(f)                                                                       \
  SHIM_GROUP_EVERY(SHIM_1, f)                                                                \
  long f(long) = delete; ulong f(ulong) = delete; bool f(bool) = delete;
#define SHIM_BITS(f)                                                                         \
  SHIM_GROUP_INTEGER(SHIM_1, f)                                                              \
  long f(long) = delete; ulong f(ulong) = delete; bool f(bool) = delete;
#define SHIM_LANE(f, T) T f(T, ushort);
#define SHIM_SHUFFLE(f)                                                                      \
  SHIM_GROUP_EVERY(SHIM_LANE, f) long f(long, ushort) = delete;                              \
  ulong f(ulong, ushort) = delete; bool f(bool, ushort) = delete;
#define SHIM_FILL_LANE(f, T) T f(T data, T fill, ushort delta); T f(T, T, ushort, ushort modulo);
#define SHIM_FILL(f)                                                                         \
  SHIM_GROUP_EVERY(SHIM_FILL_LANE, f) long f(long, long, ushort) = delete;                   \
  ulong f(ulong, ulong, ushort) = delete; bool f(bool, bool, ushort) = delete;
#define SHIM_GROUP(g)                                                                        \
  SHIM_REDUCE(g##_sum) SHIM_REDUCE(g##_product) SHIM_REDUCE(g##_max) SHIM_REDUCE(g##_min)    \
  SHIM_REDUCE(g##_prefix_exclusive_sum) SHIM_REDUCE(g##_prefix_inclusive_sum)                \
  SHIM_REDUCE(g##_prefix_exclusive_product) SHIM_REDUCE(g##_prefix_inclusive_product)        \
  SHIM_REDUCE(g##_broadcast_first) SHIM_BITS(g##_and) SHIM_BITS(g##_or) SHIM_BITS(g##_xor)   \
  SHIM_SHUFFLE(g##_broadcast) SHIM_SHUFFLE(g##_shuffle) SHIM_SHUFFLE(g##_shuffle_down)       \
  SHIM_SHUFFLE(g##_shuffle_up) SHIM_SHUFFLE(g##_shuffle_xor)                                 \
  SHIM_SHUFFLE(g##_shuffle_rotate_down) SHIM_SHUFFLE(g##_shuffle_rotate_up)                  \
  SHIM_FILL(g##_shuffle_and_fill_down) SHIM_FILL(g##_shuffle_and_fill_up)                    \
  bool g##_all(bool); bool g##_any(bool); bool g##_is_first();
SHIM_GROUP(simd)
SHIM_GROUP(quad)

struct simd_vote {
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t bits = 0) : bits_(bits) {}
  explicit constexpr operator vote_t() const { return bits_; }
  bool all() const;
  bool any() const;

 private:
  vote_t bits_;
};
simd_vote simd_ballot(bool);
simd_vote simd_active_threads_mask();
}  // namespace metal
