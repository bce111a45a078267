// Autograd's worker thread for the device, where autograd had started before the device was there.
#include "dispatch.h"

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

}  // namespace mps_emulator
