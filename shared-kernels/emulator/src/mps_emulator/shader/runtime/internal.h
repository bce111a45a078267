// Shared by the parts of the runtime; shaders see only abi.h.
#pragma once
#include "abi.h"

namespace msl {

constexpr msl_u32 NONE = 0xffffffffu;
constexpr msl_u32 MAX_THREADS = 1024;
constexpr msl_u32 MAX_SIMDGROUPS = MAX_THREADS / 32;
constexpr msl_u32 MAX_RANGES = 64;
constexpr msl_u64 PAGE = 4096;
constexpr msl_u64 STACK_SIZE = 128 * 1024;
constexpr int TIME_SIGNAL = 62;  // a real-time signal that neither Python nor glibc uses

enum lane_state : msl_u32 {
  UNSTARTED = 0,
  READY = 1,
  WAIT_SIMD = MSL_WAIT_SIMD,
  WAIT_SIMD_BARRIER = MSL_WAIT_SIMD_BARRIER,
  WAIT_BARRIER = MSL_WAIT_BARRIER,
  DONE = 5,
};

struct lane {
  void* sp;
  void* site;       // return address of the operation that the lane waits at
  msl_u64 path;     // hash of the calls and iterations that led there
  const char* what;
  msl_u32 state;
  msl_u32 stack;
};

struct launch_state {
  msl_launch* now;
  volatile msl_u32 inside;   // a lane runs, so a fault belongs to the kernel
};
extern launch_state L;
extern void* main_stack;  // where a launch that ends early continues
extern char* stacks;      // of the lanes; the first page of each is not accessible

void fail(msl_u32 code, const char* what, msl_u64 pc, msl_u64 address, msl_u64 size);
[[noreturn]] void leave();
void bind_ranges(msl_u64 stacks, msl_u64 size);
void forget_threadgroup_memory();

}  // namespace msl

// Continues on the stack that msl_switch left, as its second half does.
extern "C" void msl_land();
