// Runs the lanes of a threadgroup as fibres on one thread. A lane that blocks switches straight to
// the next lane that can run; the last one to arrive at a meeting point releases the others.
#include <string.h>
#include <sys/mman.h>

#include "guard.h"
#include "internal.h"

extern "C" {
msl_state msl_now;
msl_simdgroup* msl_group_now;
msl_loop* msl_loops;
}

// Saves the callee-saved registers on the current stack, stores the stack pointer and continues
// on another stack. MXCSR is the same for all lanes and therefore left alone.
asm(R"(
.text
.p2align 4
.hidden msl_switch
.globl msl_switch
.type msl_switch,@function
msl_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
.hidden msl_land
.globl msl_land
msl_land:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx  # a ret would be mispredicted: its call was made by another lane
.size msl_switch, .-msl_switch
)");
extern "C" void msl_switch(void** save, void* load);

namespace msl {

launch_state L;
void* main_stack;
char* stacks;

static lane lanes[MAX_THREADS];
static msl_simdgroup simdgroups[MAX_SIMDGROUPS];
static void* discarded;  // where the stack pointer of an ended fibre goes
static msl_u32 free_stacks[MAX_THREADS];
static msl_u32 free_count;
static msl_u8 lane_order[32];
static msl_u8 group_order[MAX_SIMDGROUPS];
static msl_u32 threads, group_count, group_cursor, lane_cursor, base, width;
static msl_u64 random_state;

static msl_u32 random_below(msl_u32 n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (msl_u32)(((random_state >> 32) * n) >> 32);
}

static void shuffle(msl_u8* order, msl_u32 n) {
  for (msl_u32 i = 0; i < n; ++i) order[i] = (msl_u8)i;
  if (!L.now->seed) return;
  for (msl_u32 i = n; i > 1; --i) {
    msl_u32 j = random_below(i);
    msl_u8 t = order[i - 1];
    order[i - 1] = order[j];
    order[j] = t;
  }
}

void fail(msl_u32 code, const char* what, msl_u64 pc, msl_u64 address, msl_u64 size) {
  msl_error& e = L.now->error;
  if (e.code) return;
  e.code = code;
  e.thread = msl_now.thread;
  e.other_thread = NONE;
  for (int d = 0; d < 3; ++d) e.group[d] = msl_now.group_position[d];
  e.pc = pc;
  e.address = address;
  e.size = size;
  e.what = what;
}

static void fail_at(msl_u32 code, msl_u32 a, msl_u32 b) {
  const lane &x = lanes[a], &y = lanes[b];
  msl_now.thread = a;
  fail(code, x.what, (msl_u64)x.site - 1, 0, 0);
  msl_error& e = L.now->error;
  e.other_thread = b;
  e.other_what = y.state == DONE ? nullptr : y.what;
  e.other_pc = y.state == DONE ? 0 : (msl_u64)y.site - 1;
}

[[noreturn]] void leave() {
  L.inside = 0;
  msl_switch(&discarded, main_stack);
  __builtin_unreachable();
}

static void enter_simdgroup() {
  base = group_order[group_cursor] * 32u;
  width = threads - base < 32 ? threads - base : 32;
  msl_group_now = &simdgroups[base / 32];
  lane_cursor = 0;
  shuffle(lane_order, width);
}

// All lanes of the simdgroup wait or have ended. True: they met and can go on.
static bool meet_simdgroup() {
  msl_u32 first = NONE, active = 0;
  bool simd = false, same = true;
  msl_u32 odd = NONE;
  for (msl_u32 i = 0; i < width; ++i) {
    const lane& l = lanes[base + i];
    if (l.state == DONE) continue;
    active |= 1u << i;
    if (first == NONE) first = base + i;
    const lane& f = lanes[first];
    simd |= l.state != WAIT_BARRIER;
    if (l.state != f.state || l.site != f.site || l.path != f.path) {
      if (same) odd = base + i;
      same = false;
    }
  }
  if (first == NONE || !simd) return false;
  if (!same) {
    if (lanes[first].state == WAIT_BARRIER) fail_at(MSL_DIVERGENT_SIMD, odd, first);
    else fail_at(MSL_DIVERGENT_SIMD, first, odd);
    return false;
  }
  msl_group_now->active = active;
  msl_group_now->generation++;
  for (msl_u32 i = 0; i < width; ++i)
    if (lanes[base + i].state != DONE) lanes[base + i].state = READY;
  return true;
}

// All simdgroups wait at a barrier or have ended. True: they met and can go on.
static bool meet_threadgroup() {
  msl_u32 first = NONE, ended = NONE;
  for (msl_u32 i = 0; i < threads; ++i) {
    const lane& l = lanes[i];
    if (l.state == DONE) {
      if (ended == NONE) ended = i;
      continue;
    }
    if (first == NONE) first = i;
    if (l.site != lanes[first].site || l.path != lanes[first].path) {
      fail_at(MSL_DIVERGENT_BARRIER, first, i);
      return false;
    }
  }
  if (first == NONE) return false;
  if (ended != NONE && !L.now->ended_threads_pass) {
    fail_at(MSL_MISSED_BARRIER, first, ended);
    return false;
  }
  for (msl_u32 i = 0; i < threads; ++i)
    if (lanes[i].state != DONE) lanes[i].state = READY;
  return true;
}

// The next lane to run, or NONE when the threadgroup has ended or failed.
static msl_u32 next_lane() {
  for (;;) {
    while (lane_cursor < width) {
      msl_u32 i = base + lane_order[lane_cursor++];
      if (lanes[i].state <= READY) return i;
    }
    if (meet_simdgroup()) {
      lane_cursor = 0;
      if (L.now->seed) shuffle(lane_order, width);
      continue;
    }
    if (L.now->error.code) return NONE;
    if (++group_cursor < group_count) {
      enter_simdgroup();
      continue;
    }
    if (!meet_threadgroup()) return NONE;
    group_cursor = 0;
    shuffle(group_order, group_count);
    enter_simdgroup();
  }
}

static void set_builtins(msl_u32 i) {
  msl_state& s = msl_now;
  s.thread = i;
  msl_u32 x = s.group_size[0], y = s.group_size[1];
  if (threads == x) {
    s.thread_position[0] = i;
    s.thread_position[1] = s.thread_position[2] = 0;
  } else {
    s.thread_position[0] = i % x;
    s.thread_position[1] = i / x % y;
    s.thread_position[2] = i / (x * y);
  }
}

static void fibre_main() {
  for (;;) {
    msl_loops = nullptr;
    L.now->entry(L.now->buffers);
    lane& me = lanes[msl_now.thread];
    me.state = DONE;
    msl_u32 stack = me.stack;
    msl_u32 n = next_lane();
    if (n != NONE && lanes[n].state == UNSTARTED) {  // reuse this very fibre
      lanes[n].state = READY;
      lanes[n].stack = stack;
      set_builtins(n);
      continue;
    }
    free_stacks[free_count++] = stack;
    if (n == NONE) leave();
    msl_now.thread = n;
    L.now->switches++;
    msl_switch(&discarded, lanes[n].sp);
  }
}

static void* new_fibre(msl_u32 stack) {
  // Tops at different cache sets: with equal offsets 1024 stacks would share a few of them.
  char* top = stacks + (msl_u64)(stack + 1) * STACK_SIZE - (stack * 5 % 64) * 64;
  void** sp = (void**)top;
  *--sp = nullptr;  // the alignment that a call leaves behind
  *--sp = (void*)fibre_main;
  for (int i = 0; i < 6; ++i) *--sp = nullptr;  // rbp = 0 ends the chain of frames
  return sp;
}

static void resume(msl_u32 n, void** save) {
  lane& l = lanes[n];
  L.now->switches++;
  if (l.state == UNSTARTED) {
    l.state = READY;
    l.stack = free_stacks[--free_count];
    set_builtins(n);
    msl_switch(save, new_fibre(l.stack));
  } else {
    msl_now.thread = n;
    msl_switch(save, l.sp);
  }
}

static void run_threadgroup() {
  msl_state& s = msl_now;
  threads = 1;
  for (int d = 0; d < 3; ++d) {
    msl_u32 rest = s.grid[d] - s.group_position[d] * s.dispatch_size[d];
    s.group_size[d] = rest < s.dispatch_size[d] ? rest : s.dispatch_size[d];
    threads *= s.group_size[d];
  }
  group_count = (threads + 31) / 32;
  s.simdgroups = group_count;
  for (msl_u32 i = 0; i < threads; ++i) lanes[i].state = UNSTARTED;
  for (msl_u32 g = 0; g < group_count; ++g) simdgroups[g].cached = simdgroups[g].generation - 1;
  forget_threadgroup_memory();
  group_cursor = 0;
  shuffle(group_order, group_count);
  enter_simdgroup();
  msl_u32 n = next_lane();
  L.inside = 1;
  resume(n, &main_stack);
  L.inside = 0;
}

// A permutation of [0, n) without a table: four Feistel rounds, walked until inside the range.
static msl_u64 permuted(msl_u64 i, msl_u64 n, msl_u64 seed) {
  int half = 1;
  while ((1ul << (2 * half)) < n) ++half;
  msl_u64 mask = (1ul << half) - 1;
  do {
    msl_u64 l = i >> half, r = i & mask;
    for (int k = 0; k < 4; ++k) {
      msl_u64 f = (r + 1) * 0x9E3779B97F4A7C15ul ^ (seed + k) * 0xC2B2AE3D27D4EB4Ful;
      f ^= f >> 29;
      f *= 0xBF58476D1CE4E5B9ul;
      msl_u64 t = l ^ ((f >> 32) & mask);
      l = r;
      r = t;
    }
    i = l << half | r;
  } while (i >= n);
  return i;
}

static void run_grid() {
  msl_launch& now = *L.now;
  msl_state& s = msl_now;
  msl_u64 total = 1;
  for (int d = 0; d < 3; ++d) {
    s.grid[d] = now.grid[d];
    s.dispatch_size[d] = now.group[d];
    s.groups[d] = (msl_u32)(((msl_u64)now.grid[d] + now.group[d] - 1) / now.group[d]);
    total *= s.groups[d];
  }
  random_state = now.seed * 0x9E3779B97F4A7C15ul | 1;
  free_count = 0;
  for (msl_u32 i = MAX_THREADS; i-- > 0;) free_stacks[free_count++] = i;
  for (msl_u64 k = 0; k < total && !now.error.code; ++k) {
    msl_u64 g = now.seed && total > 1 ? permuted(k, total, now.seed) : k;
    s.group_position[0] = (msl_u32)(g % s.groups[0]);
    s.group_position[1] = (msl_u32)(g / s.groups[0] % s.groups[1]);
    s.group_position[2] = (msl_u32)(g / ((msl_u64)s.groups[0] * s.groups[1]));
    run_threadgroup();
  }
}

static bool make_stacks() {
  if (stacks) return true;
  void* p = mmap(nullptr, (msl_u64)MAX_THREADS * STACK_SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  for (msl_u32 i = 0; i < MAX_THREADS; ++i)
    if (mprotect((char*)p + (msl_u64)i * STACK_SIZE, PAGE, PROT_NONE)) return false;
  stacks = (char*)p;
  return true;
}

}  // namespace msl

using namespace msl;

extern "C" {

void msl_wait(msl_u32 state, const char* what, void* site, msl_u64 path) {
  lane& me = lanes[msl_now.thread];
  me.state = state;
  me.what = what;
  me.site = site;
  me.path = path;
  msl_u32 self = msl_now.thread;
  msl_u32 n = next_lane();
  if (n == NONE) leave();
  if (n == self) return;
  msl_loop* loops = msl_loops;
  resume(n, &me.sp);
  msl_loops = loops;
}

void msl_fail(msl_u32 code, const char* what, void* site, msl_u64 address, msl_u64 size) {
  if (!site) site = __builtin_return_address(0);
  fail(code, what, (msl_u64)site - 1, address, size);
  leave();
}

int msl_run(msl_launch* launch) {
  memset(&launch->error, 0, sizeof launch->error);
  launch->switches = 0;
  L.now = launch;
  if (!make_stacks()) {
    launch->error.code = MSL_SETUP;
    return MSL_SETUP;
  }
  bind_ranges((msl_u64)stacks, (msl_u64)MAX_THREADS * STACK_SIZE);
  msl_u32 mode = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(launch->flush_subnormals ? 0x9FC0 : 0x1F80);
  {
    guarded_launch guard(launch->time_limit_ms);
    run_grid();
  }
  __builtin_ia32_ldmxcsr(mode);
  return (int)launch->error.code;
}
}
