// What PyTorch asks an accelerator: the device guard, the backend's hooks, and CUDA out of the way.
#include "host_mps.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <unistd.h>

#include <chrono>

namespace mps_emulator {
namespace {

using Clock = std::chrono::steady_clock;

// One stream, one device. Work is finished when it returns, so an event is the time of its record.
template <c10::DeviceType kType>
struct Guard : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kType;
  static c10::Device device() { return {kType, kType == c10::kMPS ? 0 : -1}; }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, device()); }

  c10::DeviceType type() const override { return kType; }
  c10::Device getDevice() const override { return device(); }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}

  void record(void** event, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock::time_point();
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from != nullptr && to != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    const auto passed =
        *static_cast<Clock::time_point*>(to) - *static_cast<Clock::time_point*>(from);
    return std::chrono::duration<double, std::milli>(passed).count();
  }
};

struct HostGuard final : Guard<c10::kMPS> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

// A CUDA build registers its guard whether or not a GPU is there.
struct NoCudaGuard final : Guard<c10::kCUDA> {
  c10::DeviceIndex deviceCount() const noexcept override { return 0; }
};

struct HostHooks final : at::MPSHooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return default_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return make_generator(); }
  c10::Device getDeviceFromPtr(void*) const override { return kMpsDevice; }
  c10::Allocator* getMPSDeviceAllocator() const override { return host_allocator(); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  bool isPinnedPtr(const void*) const override { return false; }
  void deviceSynchronize() const override {}
  void commitStream() const override {}
  void emptyCache() const override { release_cached_blocks(); }
  void setMemoryFraction(double) const override {}
  size_t getCurrentAllocatedMemory() const override { return live_bytes(); }
  size_t getDriverAllocatedMemory() const override { return reserved_bytes(); }
  size_t getRecommendedMaxMemory() const override {
    return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  }
};

struct NoCudaHooks final : at::CUDAHooksInterface {
  bool isBuilt() const override { return false; }
};

// The hooks objects are created once, on first use, which may have been before this library was
// loaded; they cannot be replaced. None of the classes has members, so the object that is there
// takes on another class's behaviour by its table of virtual functions.
template <class Replacement, class Base>
void take_over(const Base& object) {
  static auto* replacement = new Replacement();
  *reinterpret_cast<void**>(const_cast<Base*>(&object)) = *reinterpret_cast<void**>(replacement);
}

C10_REGISTER_GUARD_IMPL(MPS, HostGuard);
C10_REGISTER_GUARD_IMPL(CUDA, NoCudaGuard);

}  // namespace

void install_hooks() {
  c10::SetAllocator(c10::kMPS, host_allocator());
  take_over<HostHooks>(at::detail::getMPSHooks());
  take_over<NoCudaHooks>(at::detail::getCUDAHooks());
}

}  // namespace mps_emulator
