// The boxed kernel of the device: refuse what a Mac refuses, then run the CPU kernel on aliases.
#include "dispatch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

namespace mps_emulator {
namespace {

struct Traits {
  bool refused = false;
  bool cpu_side = false;
  bool unchecked = false;
  bool watched = false;
};

struct State {
  std::mutex mutex;
  std::unordered_map<std::string, Traits> traits;
  std::vector<std::string> log;
  std::atomic<bool> logging{false};
  std::atomic<bool> cpu_fallback{false};
};

State& state() {
  static auto* the_state = new State();
  return *the_state;
}

thread_local bool inspecting = false;  // a predicate's own operators are not judged again

std::string name_of(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

Traits traits_of(const std::string& name) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  auto found = s.traits.find(name);
  Traits traits = found == s.traits.end() ? Traits{} : found->second;
  // aten's MPS kernels are in the tables; any other namespace came here for want of a kernel
  if (name.rfind("aten::", 0) != 0) traits.refused = true;
  return traits;
}

// Calls see(tensor, argument number, in an optional list) for each defined tensor argument.
template <class See>
void each_tensor(const torch::jit::Stack& stack, size_t begin, See see) {
  for (size_t i = begin; i < stack.size(); i++) {
    const auto& value = stack[i];
    if (value.isTensor()) {
      if (value.toTensor().defined()) see(value.toTensor(), i - begin, false);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        if (tensor.defined()) see(tensor, i - begin, false);
      }
    } else if (value.isList()) {
      // optional tensors; isOptionalTensorList() does not know the lists that TorchScript makes
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor() && element.toTensor().defined()) {
          see(element.toTensor(), i - begin, true);
        }
      }
    }
  }
}

void check_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t begin,
                   bool unchecked) {
  const auto& arguments = op.schema().arguments();
  const bool indexes = op.schema().name().find("index") != std::string::npos;
  bool on_mps = false;
  std::string on_cpu;
  each_tensor(stack, begin, [&](const at::Tensor& tensor, size_t i, bool in_optional_list) {
    if (tensor.device().is_mps()) on_mps = true;
    if (!tensor.device().is_cpu() || (indexes && in_optional_list)) return;
    const auto* alias = arguments[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    if (tensor.dim() > 0 || !unchecked || written) on_cpu = arguments[i].name();
  });
  TORCH_CHECK(!on_mps || on_cpu.empty(),
              "Expected all tensors to be on the same device, but found at least two devices, "
              "mps:0 and cpu! (when checking argument '", on_cpu, "' of ", op.operator_name(), ")");
}

// Hands the arguments to the Python predicates by name; a refusal comes back as an exception.
void inspect(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t begin,
             const std::string& name) {
  static const auto inspector =
      c10::Dispatcher::singleton().findSchemaOrThrow("mps_emulator::inspect", "");
  const auto& arguments = op.schema().arguments();
  c10::List<std::string> tensor_names;
  std::vector<at::Tensor> tensors;
  c10::List<std::string> number_names;
  std::vector<double> numbers;
  c10::List<std::string> string_names;
  c10::List<std::string> strings;
  for (size_t i = 0; i < arguments.size(); i++) {
    const auto& value = stack[begin + i];
    if (value.isTensor() && value.toTensor().defined()) {
      tensor_names.push_back(arguments[i].name());
      tensors.push_back(value.toTensor());
    } else if (value.isInt() || value.isDouble() || value.isBool()) {
      number_names.push_back(arguments[i].name());
      numbers.push_back(value.isBool() ? value.toBool() : value.toScalar().toDouble());
    } else if (value.isString()) {
      string_names.push_back(arguments[i].name());
      strings.push_back(value.toStringRef());
    }
  }
  torch::jit::Stack call{name,         tensor_names, tensors, number_names,
                         numbers, string_names, strings};
  inspecting = true;
  try {
    inspector.callBoxed(call);
  } catch (...) {
    inspecting = false;
    throw;
  }
  inspecting = false;
}

void refuse(const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "The operator '", op.operator_name(),
      "' is not currently implemented for the MPS device. As a temporary fix, you can set the "
      "environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this "
      "op. WARNING: this will be slower than running natively on MPS.");
}

void warn_cpu_side(const c10::OperatorHandle& op) {
  TORCH_WARN_ONCE("The operator '", op.operator_name(),
                  "' is not currently supported on the MPS backend and will fall back to run on "
                  "the CPU. This may have performance implications.");
}

// Lets an operator without a generator argument draw from the device's default generator.
class DrawFromDevice {
 public:
  DrawFromDevice()
      : device_(host_generator(default_generator())), cpu_(at::detail::getDefaultCPUGenerator()) {
    saved_ = cpu_.get_state();
    cpu_.set_state(device_.get_state());
  }
  ~DrawFromDevice() {
    device_.set_state(cpu_.get_state());
    cpu_.set_state(saved_);
  }
  DrawFromDevice(const DrawFromDevice&) = delete;
  DrawFromDevice& operator=(const DrawFromDevice&) = delete;

 private:
  at::Generator device_;
  at::Generator cpu_;
  at::Tensor saved_;
};

bool takes_generator(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    auto type = argument.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::GeneratorType) return true;
  }
  return false;
}

void note_call(const torch::jit::Stack& stack, size_t begin, const std::string& name) {
  bool mask = false;
  each_tensor(stack, begin, [&](const at::Tensor& tensor, size_t, bool in_optional_list) {
    const auto dtype = tensor.scalar_type();
    if (in_optional_list && (dtype == at::kBool || dtype == at::kByte)) mask = true;
  });
  log_call(mask ? name + "(mask)" : name);
}

// Arguments to the CPU side; returns whether the call belongs to the device at all.
bool arguments_to_cpu(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t begin,
                      Aliases& aliases) {
  bool on_mps = false;
  for (size_t i = begin; i < stack.size(); i++) {
    auto& value = stack[i];
    if (value.isTensor()) {
      value = aliases.to_cpu(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        tensors.push_back(aliases.to_cpu(tensor));
      }
      value = c10::IValue(std::move(tensors));
    } else if (value.isList()) {
      const auto elements = value.toList();
      auto moved = c10::impl::GenericList(elements.elementType());
      bool any = false;
      for (const c10::IValue& element : value.toListRef()) {
        any = any || element.isTensor();
        moved.push_back(element.isTensor() ? c10::IValue(aliases.to_cpu(element.toTensor()))
                                           : element);
      }
      if (any) value = c10::IValue(std::move(moved));
    } else if (value.isDevice() && value.toDevice().is_mps()) {
      on_mps = true;
      value = c10::IValue(c10::Device(c10::kCPU));
    }
  }
  on_mps = on_mps || !aliases.empty();
  if (!on_mps) return false;
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); i++) {
    auto& value = stack[begin + i];
    if (value.isGenerator()) {
      value = host_generator(value.toGenerator());
    } else if (value.isNone()) {
      auto optional = arguments[i].type()->cast<c10::OptionalType>();
      if (optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType) {
        value = host_generator(default_generator());
      }
    }
  }
  return true;
}

void results_to_mps(torch::jit::Stack& stack, size_t begin, Aliases& aliases) {
  for (size_t i = begin; i < stack.size(); i++) {
    auto& value = stack[i];
    if (value.isTensor()) {
      value = aliases.to_mps(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        tensors.push_back(aliases.to_mps(tensor));
      }
      value = c10::IValue(std::move(tensors));
    }
  }
}

}  // namespace

void set_table(const std::string& table, const std::vector<std::string>& operators) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  bool Traits::* member = table == "refused" ? &Traits::refused
      : table == "cpu_side"                  ? &Traits::cpu_side
      : table == "unchecked"                 ? &Traits::unchecked
      : table == "watched"                   ? &Traits::watched
                                             : nullptr;
  TORCH_CHECK(member != nullptr, "unknown operator table '", table, "'");
  for (auto& [name, traits] : s.traits) traits.*member = false;
  for (const auto& name : operators) s.traits[name].*member = true;
}

void set_cpu_fallback(bool enabled) { state().cpu_fallback = enabled; }

void log_open() {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.log.clear();
  s.logging = true;
}

std::vector<std::string> log_take(bool close) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (close) s.logging = false;
  return std::exchange(s.log, {});
}

void log_call(const std::string& name) {
  State& s = state();
  if (!s.logging || inspecting) return;
  std::lock_guard<std::mutex> lock(s.mutex);
  s.log.push_back(name);
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const size_t begin = stack->size() - schema.arguments().size();
  const std::string name = name_of(op);
  const Traits traits = traits_of(name);
  if (traits.cpu_side || (traits.refused && state().cpu_fallback)) {
    warn_cpu_side(op);
  } else if (traits.refused) {
    refuse(op);
  }
  check_devices(op, *stack, begin, traits.unchecked);
  if (traits.watched && !inspecting) inspect(op, *stack, begin, name);
  if (state().logging) note_call(*stack, begin, name);

  // The caller's modes end at the device: the CPU kernels are not to be recorded or cast again.
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  Aliases aliases;
  const size_t outer = begin;
  const bool ours = arguments_to_cpu(op, *stack, outer, aliases);
  std::optional<DrawFromDevice> draw;
  if (ours && op.hasTag(at::Tag::nondeterministic_seeded) && !takes_generator(schema)) {
    draw.emplace();
  }
  op.callBoxed(stack);
  draw.reset();
  if (!ours) return;
  aliases.write_back();
  results_to_mps(*stack, stack->size() - schema.returns().size(), aliases);
}

}  // namespace mps_emulator
