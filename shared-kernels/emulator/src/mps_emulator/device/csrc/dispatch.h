// How one call on MPS tensors is judged, logged and carried out.
#pragma once

#include "host_mps.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace mps_emulator {

// Operators are named "namespace::name.overload". Tables:
//   refused    torch has no MPS kernel
//   cpu_side   a Mac runs it on the CPU whatever the environment says
//   unchecked  no common-device check: 0-dim CPU tensors are welcome
//   watched    a predicate in Python may refuse the call
void set_table(const std::string& table, const std::vector<std::string>& operators);
void set_cpu_fallback(bool enabled);

// Names of the operators called on the device while the log is open.
void log_open();
std::vector<std::string> log_take(bool close);
void log_call(const std::string& name);

// The boxed kernel behind every operator that has none of its own on the device.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace mps_emulator
