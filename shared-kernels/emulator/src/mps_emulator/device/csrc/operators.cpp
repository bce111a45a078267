// Registration: the device's own kernels, the boxed kernel for the rest, and the controls.
#include "dispatch.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace mps_emulator {
namespace {

using at::Tensor;

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool> pin_memory,
             std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const auto type = c10::dtype_or_default(dtype);
  refuse_float64(type);
  return at::detail::empty_generic(size, host_allocator(),
                                   c10::DispatchKeySet(c10::DispatchKey::MPS), type, format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<at::Device>, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return empty_like_strided(size, stride, c10::dtype_or_default(dtype));
}

Tensor& copy_(Tensor& self, const Tensor& source, bool non_blocking) {
  if (self.is_same(source)) return self;
  const bool to_cpu = self.device().is_cpu();
  log_call(!to_cpu && source.device().is_mps() ? "aten::copy_"
               : to_cpu                        ? "aten::copy_(mps to cpu)"
                                               : "aten::copy_(cpu to mps)");
  Aliases aliases;
  const auto target = aliases.to_cpu(self);
  target.copy_(aliases.to_cpu(source), non_blocking);
  return self;
}

const Tensor& resize_(const Tensor& self, at::IntArrayRef size,
                      std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    impl->set_sizes_contiguous(size);
    const auto needed = at::detail::computeStorageNbytesContiguous(size, self.itemsize(),
                                                                   self.storage_offset());
    auto* storage = self.storage().unsafeGetStorageImpl();
    if (self.numel() > 0 && storage->nbytes() < needed) {
      TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
      resize_storage(storage, needed);
    }
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    impl->empty_tensor_restride(*format);
  }
  return self;
}

// Not torch's own: up to 2.7 that one is not for MPS tensors.
Tensor as_strided(const Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                  std::optional<int64_t> offset) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  at::native::setStrided(result, size, stride, offset.value_or(self.storage_offset()));
  return result;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                    at::IntArrayRef stride) {
  TORCH_CHECK(source.device().is_mps() || source.nbytes() == 0,
              "Attempted to set the storage of a tensor on device \"mps:0\" to a storage on "
              "different device \"", source.device(), "\".");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  auto* impl = self.unsafeGetTensorImpl();
  const auto strides = stride.data() == nullptr || stride.size() != size.size()
      ? std::nullopt : std::optional<at::IntArrayRef>(stride);
  impl->set_storage_keep_dtype(source);
  if (strides.has_value()) {
    impl->set_sizes_and_strides(size, *strides, offset);
  } else {
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  }
  const auto needed = at::detail::computeStorageNbytes(self.sizes(), self.strides(),
                                                       self.itemsize(), offset);
  if (self.numel() > 0 && source.nbytes() < needed) {
    resize_storage(source.unsafeGetStorageImpl(), needed);
  }
  return self;
}

Tensor& set_whole_storage(Tensor& self, at::Storage source) {
  const auto count = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return set_storage(self, std::move(source), 0, {count}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

Tensor& set_nothing(Tensor& self) {
  at::Storage none(at::Storage::use_byte_size_t(), 0, allocate(0, Fill::kNone), host_allocator(),
                   /*resizable=*/true);
  return set_storage(self, std::move(none), 0, {0}, {});
}

// The composite asks for kernels that a build without Metal does not know of for this device;
// a Mac computes the plain form as well.
void attention(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const auto plain = c10::Dispatcher::singleton().findSchemaOrThrow(
      "aten::_scaled_dot_product_attention_math", "");
  constexpr size_t kDropoutMask = 6;  // the one argument that the plain form has in addition
  const size_t begin = stack->size() + 1 - plain.schema().arguments().size();
  stack->insert(stack->begin() + static_cast<int64_t>(begin + kDropoutMask), c10::IValue());
  plain.callBoxed(stack);
  stack->pop_back();  // the weights
}

torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<&run_on_host>();
}

TORCH_LIBRARY_IMPL(_, MPS, m) { m.fallback(boxed()); }

TORCH_LIBRARY_IMPL(aten, MPS, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy_);
  m.impl("resize_", resize_);
  m.impl("set_", set_nothing);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("as_strided", as_strided);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
}

TORCH_LIBRARY_IMPL(aten, AutogradMPS, m) {
  m.impl("scaled_dot_product_attention",
         torch::CppFunction::makeFromBoxedFunction<&attention>());
}

// Gives the boxed kernel to operators that torch would take apart before they get here.
void run_whole(const std::vector<std::string>& operators) {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::MPS,
                                            __FILE__, __LINE__);
  for (const auto& name : operators) library->impl(name.c_str(), boxed());
}

TORCH_LIBRARY(mps_emulator, m) {
  m.def("set_table(str table, str[] operators) -> ()",
        [](const std::string& table, std::vector<std::string> operators) {
          set_table(table, operators);
        });
  m.def("run_whole(str[] operators) -> ()",
        [](std::vector<std::string> operators) { run_whole(operators); });
  m.def("set_cpu_fallback(bool enabled) -> ()", set_cpu_fallback);
  m.def("start_autograd() -> ()", start_autograd);
  m.def("finish_autograd() -> ()", finish_autograd);
  m.def("log_open() -> ()", log_open);
  m.def("log_take(bool close) -> str[]", log_take);
  m.def("take_overruns() -> str[]", take_overruns);
  m.def("live_bytes() -> int", [] { return static_cast<int64_t>(live_bytes()); });
  m.def("reserved_bytes() -> int", [] { return static_cast<int64_t>(reserved_bytes()); });
  m.def("release_cached_blocks() -> ()", release_cached_blocks);
  m.def("default_generator() -> Generator?", [] { return default_generator(); });
  // judged in Python, where the table of operators known to be wrong is
  m.def("inspect(str operator, str[] tensor_names, Tensor[] tensors, str[] number_names, "
        "float[] numbers, str[] string_names, str[] strings) -> ()");
}

const bool hooks_installed = (install_hooks(), true);

}  // namespace
}  // namespace mps_emulator
