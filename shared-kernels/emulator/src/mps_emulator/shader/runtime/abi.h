// What the runtime, the compiled shaders and Python share. Python mirrors `msl_launch` and
// `msl_param` in _abi.py; change both together.
#pragma once

typedef unsigned char msl_u8;
typedef unsigned int msl_u32;
typedef unsigned long msl_u64;

enum msl_code : msl_u32 {
  MSL_OK = 0,
  MSL_OUT_OF_BOUNDS_READ,
  MSL_OUT_OF_BOUNDS_WRITE,
  MSL_READ_ONLY_WRITE,
  MSL_UNINITIALISED_READ,
  MSL_DIVERGENT_SIMD,
  MSL_DIVERGENT_BARRIER,
  MSL_MISSED_BARRIER,
  MSL_INACTIVE_LANE,
  MSL_NON_UNIFORM,
  MSL_ARRAY_INDEX,
  MSL_DIVISION,
  MSL_FAULT,
  MSL_ARITHMETIC_FAULT,
  MSL_STACK_OVERFLOW,
  MSL_TIME_LIMIT,
  MSL_THREADGROUP_FLOAT_ATOMIC,
  MSL_SETUP,
  MSL_SHIFT,
  MSL_MISALIGNED,
};

// A range of addresses that lanes may touch.
enum msl_range_kind : msl_u32 { MSL_BUFFER = 0, MSL_THREADGROUP = 1, MSL_READ_ONLY = 2 };
struct msl_range {
  msl_u64 start;
  msl_u64 size;
  msl_u32 kind;
  msl_u32 index;
};

struct msl_error {
  msl_u32 code;
  msl_u32 thread;        // index in the threadgroup
  msl_u32 other_thread;  // the lane that disagrees, or 0xffffffff
  msl_u32 group[3];
  msl_u64 pc;
  msl_u64 other_pc;
  msl_u64 address;
  msl_u64 size;
  const char* what;        // name of the operation
  const char* other_what;  // what the other lane does
};

struct msl_launch {
  void (*entry)(void* const* buffers);
  void* const* buffers;
  const msl_range* ranges;  // index 0: threadgroup memory, 1: stacks (filled in here), 2: image
  const msl_range* objects; // threadgroup variables of the kernel
  msl_u32 range_count;
  msl_u32 object_count;
  msl_u32 grid[3];
  msl_u32 group[3];
  msl_u64 seed;
  msl_u64 time_limit_ms;  // 0: none
  msl_u32 ended_threads_pass;  // a thread that has returned does not block a barrier
  msl_u32 flush_subnormals;
  msl_u64 switches;  // out
  msl_error error;   // out
};

// Grid built-ins of the lane that runs; read once, when the lane starts.
struct msl_state {
  msl_u32 thread;  // index in the threadgroup
  msl_u32 thread_position[3];
  msl_u32 group_position[3];
  msl_u32 group_size[3];   // actual size of this group
  msl_u32 dispatch_size[3];
  msl_u32 groups[3];
  msl_u32 grid[3];
  msl_u32 simdgroups;
};

// Values that the lanes of a simdgroup exchange: two sets, because a lane may reach the next
// operation before its neighbours have read the results of the last one.
struct msl_simdgroup {
  alignas(16) msl_u8 value[2][32][16];
  alignas(16) msl_u8 result[16];
  msl_u32 argument[2][32];
  msl_u32 generation;
  msl_u32 active;
  msl_u32 cached;  // generation that `result` belongs to
};

// A loop that the lane is in and that holds a meeting point: the stack of the lane keeps it.
struct msl_loop {
  msl_loop* outer;
  msl_u64 count;  // iterations begun
};

// One parameter of a kernel, described by the compiler itself.
enum msl_param_kind : msl_u32 { MSL_VALUE = 0, MSL_POINTER = 1, MSL_REFERENCE = 2 };
enum msl_scalar_kind : msl_u32 {
  MSL_OTHER = 0, MSL_FLOAT = 1, MSL_SIGNED = 2, MSL_UNSIGNED = 3, MSL_BOOL = 4
};
struct msl_param {
  msl_u32 kind, size, align, scalar_size, scalar_kind, components, is_const, reserved;
};

extern "C" {
extern msl_state msl_now;
extern msl_simdgroup* msl_group_now;
extern msl_loop* msl_loops;  // innermost loop of the lane that runs
// Blocks the calling lane until its simdgroup (or threadgroup) has met.
void msl_wait(msl_u32 state, const char* what, void* site, msl_u64 path);
// Does not return. Not declared so: the compiler would call the address sanitizer before it.
// Without a site it is the caller's.
__attribute__((nomerge)) void msl_fail(msl_u32 code, const char* what, void* site, msl_u64 address, msl_u64 size);
msl_u32 msl_in_threadgroup_memory(const void* address);
int msl_run(msl_launch* launch);
}

enum msl_wait_kind : msl_u32 { MSL_WAIT_SIMD = 2, MSL_WAIT_SIMD_BARRIER = 3, MSL_WAIT_BARRIER = 4 };
