// Autograd's worker thread for the device: its start, where autograd had started before the device
// was there, and its rest at the end.
#include "dispatch.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

namespace mps_emulator {
namespace {

// The engine starts its threads once, for the devices of that moment.
struct Engine : torch::autograd::Engine {
  static auto queues() { return &Engine::device_ready_queues_; }
  static auto start() { return &Engine::start_device_threads; }
};

}  // namespace

void start_autograd() {
  auto& engine = torch::autograd::Engine::get_default_engine();
  engine.initialize_device_threads_pool();
  if ((engine.*Engine::queues()).empty()) (engine.*Engine::start())();
}

// A backward pass returns before the worker has put away what it ran with, Python objects among it;
// were Python gone by then, the process would be aborted. The worker takes up a pass after that.
void finish_autograd() {
  auto& engine = torch::autograd::Engine::get_default_engine();
  if ((engine.*Engine::queues()).empty()) return;
  at::AutoGradMode recorded(true);
  const auto leaf = at::ones({1}, at::TensorOptions(kMpsDevice)).set_requires_grad(true);
  torch::autograd::backward({leaf.neg()});
}

}  // namespace mps_emulator
