// Checks of every load and store that the compiler's address instrumentation reports.
#include <string.h>

#include "internal.h"

namespace msl {

static msl_range ranges[MAX_RANGES];
static msl_u32 range_count;
// Which range an instruction touched last; it nearly always touches the same one again.
static msl_u8 last_range[4096];
static msl_u8 written[1 << 20];  // by byte of threadgroup memory
constexpr msl_u8 POISON = 0xA7;

void bind_ranges(msl_u64 stacks, msl_u64 size) {
  msl_launch& now = *L.now;
  range_count = now.range_count < MAX_RANGES ? now.range_count : MAX_RANGES;
  memcpy(ranges, now.ranges, range_count * sizeof(msl_range));
  memset(ranges + range_count, 0, (MAX_RANGES - range_count) * sizeof(msl_range));
  ranges[1].start = stacks;
  ranges[1].size = size;
  ranges[1].kind = MSL_BUFFER;
}

void forget_threadgroup_memory() {
  msl_launch& now = *L.now;
  for (msl_u32 i = 0; i < now.object_count; ++i) {
    const msl_range& o = now.objects[i];
    memset((void*)o.start, POISON, o.size);
    memset(written + (o.start - ranges[0].start), 0, o.size);
  }
}

static inline bool inside(const msl_range& r, msl_u64 address, msl_u64 size) {
  msl_u64 off = address - r.start;
  return off < r.size && r.size - off >= size;
}

__attribute__((noinline, cold)) static void refuse(bool write, msl_u64 a, msl_u64 n, void* site) {
  msl_fail(write ? MSL_OUT_OF_BOUNDS_WRITE : MSL_OUT_OF_BOUNDS_READ, "", site, a, n);
}

// Padding is never written. Loads of 1 and 2 bytes are exact, one of 4 bytes may lack one (what
// bool3 and { uchar; ushort } pad), wider ones need a written byte in every 4, aggregates in every 16.
__attribute__((noinline)) static bool initialised(msl_u64 off, msl_u64 n, bool aggregate) {
  const msl_u8* w = written + off;
  if (n == 4 && !aggregate) return w[0] + w[1] + w[2] + w[3] >= 3;
  msl_u64 part = aggregate ? 16 : n > 4 ? 4 : 1;
  for (msl_u64 i = 0; i < n; i += part) {
    bool any = false;
    for (msl_u64 j = i; j < n && j < i + part; ++j) any |= w[j];
    if (!any) return false;
  }
  return true;
}

__attribute__((noinline)) static msl_u32 find(msl_u64 a, msl_u64 n, bool write, void* site) {
  for (msl_u32 i = 0; i < range_count; ++i)
    if (inside(ranges[i], a, n)) {
      last_range[(msl_u64)site & 4095] = (msl_u8)i;
      return i;
    }
  refuse(write, a, n, site);
  return 0;  // not reached
}

__attribute__((noinline)) static void threadgroup_access(msl_u64 a, msl_u64 n, bool write,
                                                         bool aggregate, void* site) {
  msl_u64 off = a - ranges[0].start;
  if (write) memset(written + off, 1, n);
  else if (!initialised(off, n, aggregate))
    msl_fail(MSL_UNINITIALISED_READ, "", site, a, n);
}

template <msl_u64 N, bool WRITE>
static inline __attribute__((always_inline)) void check(msl_u64 a, void* site) {
  const msl_range* r = &ranges[last_range[(msl_u64)site & 4095]];
  if (__builtin_expect(!inside(*r, a, N), 0)) r = &ranges[find(a, N, WRITE, site)];
  if (r->kind == MSL_BUFFER) return;
  if (r->kind == MSL_READ_ONLY) {
    if (WRITE) msl_fail(MSL_READ_ONLY_WRITE, "", site, a, N);
    return;
  }
  msl_u8* w = written + (a - ranges[0].start);
  if (N == 4) {
    msl_u32 v = 0x01010101;
    if (WRITE) {
      memcpy(w, &v, 4);
    } else {
      msl_u32 have;
      memcpy(&have, w, 4);
      if (__builtin_expect(have != v, 0)) threadgroup_access(a, N, WRITE, false, site);
    }
    return;
  }
  threadgroup_access(a, N, WRITE, false, site);
}

static void check_any(msl_u64 a, msl_u64 n, bool write, void* site) {
  if (!n) return;
  const msl_range* r = &ranges[last_range[(msl_u64)site & 4095]];
  if (!inside(*r, a, n)) r = &ranges[find(a, n, write, site)];
  if (r->kind == MSL_THREADGROUP) threadgroup_access(a, n, write, true, site);
  else if (r->kind == MSL_READ_ONLY && write) msl_fail(MSL_READ_ONLY_WRITE, "", site, a, n);
}

}  // namespace msl

using namespace msl;
#define SITE __builtin_return_address(0)

extern "C" {

#define MSL_ACCESS(n)                                                    \
  void msl_check_load##n##_noabort(msl_u64 a) { check<n, false>(a, SITE); } \
  void msl_check_store##n##_noabort(msl_u64 a) { check<n, true>(a, SITE); }
MSL_ACCESS(1)
MSL_ACCESS(2)
MSL_ACCESS(4)
MSL_ACCESS(8)
MSL_ACCESS(16)

void msl_check_loadN_noabort(msl_u64 a, msl_u64 n) { check_any(a, n, false, SITE); }
void msl_check_storeN_noabort(msl_u64 a, msl_u64 n) { check_any(a, n, true, SITE); }

void* msl_check_memcpy(void* to, const void* from, msl_u64 n) {
  check_any((msl_u64)from, n, false, SITE);
  check_any((msl_u64)to, n, true, SITE);
  return memcpy(to, from, n);
}
void* msl_check_memmove(void* to, const void* from, msl_u64 n) {
  check_any((msl_u64)from, n, false, SITE);
  check_any((msl_u64)to, n, true, SITE);
  return memmove(to, from, n);
}
void* msl_check_memset(void* to, int value, msl_u64 n) {
  check_any((msl_u64)to, n, true, SITE);
  return memset(to, value, n);
}

// Handlers of the compiler's own checks; they do not return.
void __asan_handle_no_return() {}
void __ubsan_handle_out_of_bounds_abort(void*, msl_u64 index) {
  msl_fail(MSL_ARRAY_INDEX, "", SITE, index, 0);
}
void __ubsan_handle_divrem_overflow_abort(void*, msl_u64, msl_u64) {
  msl_fail(MSL_DIVISION, "", SITE, 0, 0);
}
void __ubsan_handle_type_mismatch_v1_abort(void*, msl_u64 address) {
  msl_fail(MSL_MISALIGNED, "", SITE, address, 0);
}
void __ubsan_handle_shift_out_of_bounds_abort(void*, msl_u64, msl_u64 amount) {
  msl_fail(MSL_SHIFT, "", SITE, amount, 0);
}

msl_u32 msl_in_threadgroup_memory(const void* address) {
  return inside(ranges[0], (msl_u64)address, 1);
}

// Conversions that the compiler calls for bfloat.
static msl_u32 bits_of(float x) {
  msl_u32 b;
  memcpy(&b, &x, 4);
  return b;
}
__bf16 __truncsfbf2(float x) {
  msl_u32 b = bits_of(x);
  unsigned short h;
  if ((b & 0x7fffffffu) > 0x7f800000u) h = (unsigned short)(b >> 16 | 0x40);
  else h = (unsigned short)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
  __bf16 r;
  memcpy(&r, &h, 2);
  return r;
}
}
