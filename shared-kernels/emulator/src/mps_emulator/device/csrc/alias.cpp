// CPU tensors over the memory of MPS tensors, and results brought back.
#include "host_mps.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace mps_emulator {
namespace {

// Keeps the aliased storage alive as long as the alias lives.
struct Owner {
  c10::Storage storage;
};

c10::Storage alias_storage(const c10::Storage& storage, c10::Device device,
                           c10::Allocator* allocator) {
  auto* owner = new Owner{storage};
  c10::DataPtr data(storage.mutable_data(), owner,
                    [](void* context) { delete static_cast<Owner*>(context); }, device);
  return c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), allocator,
                      /*resizable=*/true);
}

at::Tensor over(c10::Storage storage, const at::Tensor& geometry, c10::DispatchKey key) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key),
                                                   geometry.dtype());
  impl->set_sizes_and_strides(geometry.sizes(), geometry.strides(), geometry.storage_offset());
  at::Tensor tensor(std::move(impl));
  if (geometry.is_conj()) tensor._set_conj(true);
  if (geometry.is_neg()) tensor._set_neg(true);
  return tensor;
}

bool same_geometry(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() &&
      a.storage_offset() == b.storage_offset();
}

}  // namespace

void refuse_float64(c10::ScalarType dtype) {
  TORCH_CHECK_TYPE(dtype != at::kDouble && dtype != at::kComplexDouble,
                   "Cannot convert a MPS Tensor to ",
                   dtype == at::kDouble ? "float64" : "complex128",
                   " dtype as the MPS framework doesn't support ",
                   dtype == at::kDouble ? "float64. Please use float32 instead."
                                        : "float64. Please use complex64 instead.");
}

void resize_storage(c10::StorageImpl* storage, size_t bytes) {
  auto fresh = allocate(bytes, Fill::kPoison);
  const size_t kept = std::min(bytes, storage->nbytes());
  if (kept != 0) std::memcpy(fresh.get(), storage->data(), kept);
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
}

at::Tensor empty_like_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::ScalarType dtype) {
  refuse_float64(dtype);
  return at::detail::empty_strided_generic(size, stride, host_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::MPS), dtype);
}

c10::Storage Aliases::storage_of(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  for (const auto& [original, alias] : storages_) {
    if (original.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) return alias;
  }
  auto alias = alias_storage(storage, c10::kCPU, c10::GetCPUAllocator());
  storages_.emplace_back(storage, alias);
  return alias;
}

at::Tensor Aliases::to_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_mps()) return tensor;
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided && tensor.has_storage(),
                              "the emulated MPS device has strided tensors only, got layout ",
                              tensor.layout());
  for (const auto& [original, alias] : tensors_) {
    if (original.is_same(tensor)) return alias;
  }
  auto alias = over(storage_of(tensor), tensor, c10::DispatchKey::CPU);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  tensors_.emplace_back(tensor, alias);
  return alias;
}

at::Tensor Aliases::to_mps(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu()) return tensor;
  for (const auto& [original, alias] : tensors_) {
    if (alias.is_same(tensor)) return original;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided,
                              "the emulated MPS device has strided tensors only, got layout ",
                              tensor.layout());
  refuse_float64(tensor.scalar_type());
  for (const auto& [original, alias] : storages_) {
    if (alias.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl()) {
      return over(original, tensor, c10::DispatchKey::MPS);
    }
  }
  const auto& resolved = tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg()
                                                             : tensor;
  const size_t bytes = resolved.storage().nbytes();
  if (resolved.storage_offset() == 0 && bytes ==
          at::detail::computeStorageNbytes(resolved.sizes(), resolved.strides(),
                                           resolved.itemsize())) {
    auto memory = allocate(bytes, Fill::kNone);
    if (bytes != 0) std::memcpy(memory.get(), resolved.storage().data(), bytes);
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory),
                         host_allocator(), /*resizable=*/true);
    return over(std::move(storage), resolved, c10::DispatchKey::MPS);
  }
  auto result = empty_like_strided(resolved.sizes(),
                                   resolved.is_non_overlapping_and_dense()
                                       ? resolved.strides()
                                       : at::IntArrayRef(resolved.contiguous().strides()),
                                   resolved.scalar_type());
  Aliases target;
  target.to_cpu(result).copy_(resolved);
  return result;
}

void Aliases::write_back() {
  for (auto& [original, alias] : storages_) {
    if (alias.data() == original.data() && alias.nbytes() == original.nbytes()) continue;
    auto* storage = original.unsafeGetStorageImpl();
    auto fresh = allocate(alias.nbytes(), Fill::kNone);
    if (alias.nbytes() != 0) std::memcpy(fresh.get(), alias.data(), alias.nbytes());
    storage->set_data_ptr_noswap(std::move(fresh));
    storage->set_nbytes(alias.nbytes());
  }
  for (auto& [original, alias] : tensors_) {
    if (same_geometry(original, alias)) continue;
    original.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(),
                                                          alias.storage_offset());
  }
}

}  // namespace mps_emulator
