// Faults and the time limit: a signal inside a lane ends the launch, not the process.
#pragma once
#include <signal.h>

#include "internal.h"

namespace msl {

// Installs the signal handlers and the timer; puts back what was there before.
struct guarded_launch {
  alignas(16) char stack[32768];  // of the handlers, for a lane whose own stack is full
  stack_t old_stack;
  int timer = -1;

  explicit guarded_launch(msl_u64 limit_ms);
  ~guarded_launch();
};

}  // namespace msl
