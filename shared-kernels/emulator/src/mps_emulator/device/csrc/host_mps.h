// A host-memory device of type MPS for PyTorch builds without Metal. Shared declarations.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <string>
#include <utility>
#include <vector>

// torch/csrc/api/include/torch/version.h and the newer headeronly/version.h both define these
#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/version.h>
#endif
#define TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) ||  \
   (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace mps_emulator {

inline const c10::Device kMpsDevice{c10::kMPS, 0};

// --- allocator.cpp: poisoned blocks between unmapped guard pages ---
enum class Fill { kPoison, kNone };
c10::Allocator* host_allocator();
c10::DataPtr allocate(size_t bytes, Fill fill);
size_t live_bytes();
size_t reserved_bytes();
void release_cached_blocks();
std::vector<std::string> take_overruns();

// --- generator.cpp: a generator of device type MPS ---
at::Generator make_generator();
const at::Generator& default_generator();
// The CPU generator behind an MPS one.
at::Generator host_generator(const at::Generator& generator);

// --- alias.cpp: the same memory as a CPU tensor, and back ---
void refuse_float64(c10::ScalarType dtype);
void resize_storage(c10::StorageImpl* storage, size_t bytes);
at::Tensor empty_like_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype);

// CPU aliases of the MPS tensors of one call. Tensors that share a storage share it as aliases
// too, so that the overlap checks of the CPU kernels see what a Mac would see.
class Aliases {
 public:
  at::Tensor to_cpu(const at::Tensor& tensor);
  // The original of an alias, a view for a view of an alias, otherwise new MPS memory.
  at::Tensor to_mps(const at::Tensor& tensor);
  // Carries what the call did to an alias's geometry and storage over to its original.
  void write_back();
  bool empty() const { return tensors_.empty(); }

 private:
  c10::Storage storage_of(const at::Tensor& tensor);
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;       // MPS original, CPU alias
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;  // MPS original, CPU alias
};

// --- runtime.cpp ---
void install_hooks();

// --- engine.cpp ---
void start_autograd();
void finish_autograd();

}  // namespace mps_emulator
