// Random numbers: an MPS generator over a CPU one, with other numbers than the CPU's own.
#include "host_mps.h"

#include <ATen/CPUGeneratorImpl.h>

namespace mps_emulator {
namespace {

// Equal seeds give different numbers on the CPU and on a Mac's GPU; code must not count on
// equality, so here they differ as well. The low 32 bits matter: that is all the engine takes.
constexpr uint64_t kSeedMix = 0x5DEECE66DULL;

struct HostGenerator final : c10::GeneratorImpl {
  explicit HostGenerator(at::Generator inner)
      : c10::GeneratorImpl(kMpsDevice, c10::DispatchKeySet(c10::DispatchKey::MPS)),
        inner_(std::move(inner)) {}

  void set_current_seed(uint64_t seed) override { inner_.set_current_seed(seed ^ kSeedMix); }
  uint64_t current_seed() const override { return inner_.current_seed() ^ kSeedMix; }
  uint64_t seed() override { return inner_.seed() ^ kSeedMix; }
  void set_offset(uint64_t) override {
    TORCH_CHECK(false, "MPS Generator does not use offset on the emulated device");
  }
  uint64_t get_offset() const override {
    TORCH_CHECK(false, "MPS Generator does not use offset on the emulated device");
  }
  void set_state(const c10::TensorImpl& state) override {
    inner_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner_.unsafeGetGeneratorImpl()->get_state();
  }
  const at::Generator& inner() const { return inner_; }

 private:
  HostGenerator* clone_impl() const override { return new HostGenerator(inner_.clone()); }
  at::Generator inner_;
};

}  // namespace

at::Generator make_generator() {
  auto generator = at::make_generator<HostGenerator>(at::detail::createCPUGenerator());
  generator.set_current_seed(c10::default_rng_seed_val);
  return generator;
}

const at::Generator& default_generator() {
  static auto* generator = new at::Generator(make_generator());
  return *generator;
}

at::Generator host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == c10::kMPS,
              "Expected a 'mps' device type for generator but found '",
              c10::DeviceTypeName(generator.device().type(), /*lower_case=*/true), "'");
  auto* impl = dynamic_cast<HostGenerator*>(generator.unsafeGetGeneratorImpl());
  TORCH_INTERNAL_ASSERT(impl != nullptr);
  return impl->inner();
}

}  // namespace mps_emulator
