#include "guard.h"

#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

namespace msl {

static const int CAUGHT[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, TIME_SIGNAL};
static const int CAUGHT_COUNT = sizeof(CAUGHT) / sizeof(*CAUGHT);
static struct sigaction before[CAUGHT_COUNT];
static long launch_thread;

static void on_signal(int number, siginfo_t* info, void* context) {
  ucontext_t* u = (ucontext_t*)context;
  if (!L.inside || syscall(SYS_gettid) != launch_thread) {
    if (number == TIME_SIGNAL) return;  // between two threadgroups: it comes again
    for (int i = 0; i < CAUGHT_COUNT; ++i)  // not ours: the fault repeats under its old handler
      if (CAUGHT[i] == number) sigaction(number, &before[i], nullptr);
    return;
  }
  msl_u64 pc = (msl_u64)u->uc_mcontext.gregs[REG_RIP];
  msl_u64 at = (msl_u64)info->si_addr;
  if (number == TIME_SIGNAL) {
    fail(MSL_TIME_LIMIT, "", pc, 0, 0);
  } else if (number == SIGFPE) {
    fail(MSL_ARITHMETIC_FAULT, "", pc, 0, 0);
  } else {
    msl_u64 off = at - (msl_u64)stacks;
    bool guard = off < (msl_u64)MAX_THREADS * STACK_SIZE && off % STACK_SIZE < PAGE;
    bool general = info->si_code == SI_KERNEL;  // no page: an aligned vector access was not
    fail(guard ? MSL_STACK_OVERFLOW : general ? MSL_MISALIGNED : MSL_FAULT, "", pc, at, 0);
  }
  L.inside = 0;
  u->uc_mcontext.gregs[REG_RSP] = (greg_t)main_stack;
  u->uc_mcontext.gregs[REG_RIP] = (greg_t)msl_land;
}

guarded_launch::guarded_launch(msl_u64 limit_ms) {
  launch_thread = syscall(SYS_gettid);
  stack_t mine = {};
  mine.ss_sp = stack;
  mine.ss_size = sizeof stack;
  sigaltstack(&mine, &old_stack);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < CAUGHT_COUNT; ++i) sigaction(CAUGHT[i], &action, &before[i]);
  if (!limit_ms) return;
  struct sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = TIME_SIGNAL;
  event._sigev_un._tid = (int)launch_thread;
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer)) timer = -1;
  struct itimerspec when = {};
  when.it_value.tv_sec = (time_t)(limit_ms / 1000);
  when.it_value.tv_nsec = (long)(limit_ms % 1000) * 1000000;
  when.it_interval.tv_nsec = 50000000;  // again, should it arrive between two threadgroups
  if (timer >= 0) syscall(SYS_timer_settime, timer, 0, &when, nullptr);
}

guarded_launch::~guarded_launch() {
  if (timer >= 0) syscall(SYS_timer_delete, timer);
  for (int i = 0; i < CAUGHT_COUNT; ++i) sigaction(CAUGHT[i], &before[i], nullptr);
  sigaltstack(&old_stack, nullptr);
}

}  // namespace msl
