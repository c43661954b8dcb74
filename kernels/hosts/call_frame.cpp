#include "kernels/hosts/call_frame.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "kernels/hosts/crash_report.hpp"
#include "kernels/hosts/cuda_runtime.hpp"

namespace assay::hosts {
namespace {

constexpr const char* kWorkspace = "workspace";

assay_dtype dtype_of(const std::string& name) {
  if (name == "BF16") return {ASSAY_BFLOAT, 16, 1};
  const auto bits = static_cast<std::uint8_t>(8 * element_bytes(name));
  return {static_cast<std::uint8_t>(name[0] == 'I' ? ASSAY_INT : ASSAY_FLOAT), bits, 1};
}

struct Strides {
  Shape strides;
  std::int64_t extent = 0;  // elements from the first to one past the last
};

/// Row-major strides, with gaps where the layout has them: one element after each element, three
/// after each row.
Strides strides_for(const Shape& shape, Layout layout) {
  Strides out;
  out.strides.assign(shape.size(), 0);
  std::int64_t step = layout == Layout::strided ? 2 : 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    out.strides[axis] = step;
    step *= std::max<std::int64_t>(shape[axis], 1);
    if (axis + 1 == shape.size() && layout != Layout::plain) step += 3;
  }
  if (element_count(shape) == 0) return out;
  out.extent = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    out.extent += (shape[axis] - 1) * out.strides[axis];
  }
  return out;
}

/// Calls visit(source index, target index in elements) for every element of a row-major source.
template <class Visit>
void for_each_element(const Shape& shape, const Shape& strides, Visit&& visit) {
  Shape index(shape.size(), 0);
  std::int64_t target = 0;
  const std::int64_t count = element_count(shape);
  for (std::int64_t source = 0; source < count; ++source) {
    visit(source, target);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      target += strides[axis];
      if (++index[axis] < shape[axis]) break;
      target -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

std::string index_text(const Shape& shape, std::int64_t flat) {
  std::string text;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    text = std::to_string(flat % shape[axis]) + (text.empty() ? "" : ",") + text;
    flat /= shape[axis];
  }
  return "[" + text + "]";
}

std::vector<assay_option> abi_options(const std::map<std::string, OptionValue>& options) {
  std::vector<assay_option> out;
  for (const auto& [name, value] : options) {
    assay_option option{};
    option.name = name.c_str();
    option.type = static_cast<std::int32_t>(value.index());  // the enum has the variant's order
    if (const auto* flag = std::get_if<bool>(&value)) option.integer = *flag ? 1 : 0;
    if (const auto* number = std::get_if<std::int64_t>(&value)) option.integer = *number;
    if (const auto* real = std::get_if<double>(&value)) option.real = *real;
    if (const auto* text = std::get_if<std::string>(&value)) option.string = text->c_str();
    out.push_back(option);
  }
  return out;
}

}  // namespace

/// A tensor in its buffer.
struct CallFrame::Placed {
  std::string role, dtype;
  Shape shape, strides;
  std::uint64_t offset_bytes = 0;
  GuardedBuffer* buffer = nullptr;
  std::string original;  // the buffer's bytes before the run, of what is read only

  assay_tensor tensor(std::int32_t device_type) const {
    assay_tensor out{};
    out.role = role.c_str();
    out.view.data = buffer->kernel_data();
    out.view.device = {device_type, 0};
    out.view.ndim = static_cast<std::int32_t>(shape.size());
    out.view.dtype = dtype_of(dtype);
    out.view.shape = shape.data();
    out.view.strides = strides.data();
    out.view.byte_offset = offset_bytes;
    return out;
  }
};

CallFrame::CallFrame(const Plugin& plugin) : plugin_(plugin) {
  if (plugin.table().device_type == ASSAY_DEVICE_CUDA) device_ = std::make_unique<CudaRuntime>();
}

CallFrame::~CallFrame() { forget_buffers(); }

GuardedBuffer& CallFrame::buffer(const std::string& slot, std::size_t size, bool fresh) {
  used_.insert(slot);
  std::unique_ptr<GuardedBuffer>& kept = buffers_[slot];
  if (fresh || !kept || kept->size() != size) {
    // The old one is released after the new one is there, or they could have the same address.
    auto made = std::make_unique<GuardedBuffer>(size, device_.get());
    kept = std::move(made);
  }
  return *kept;
}

CallFrame::Placed CallFrame::place(const std::string& slot, const std::string& role,
                                   const std::string& dtype, const Shape& shape, Layout layout,
                                   bool fresh) {
  const std::size_t unit = element_bytes(dtype);
  if (unit == 0) throw std::runtime_error("tensor '" + role + "': unknown dtype " + dtype);
  Placed placed;
  placed.role = role;
  placed.dtype = dtype;
  placed.shape = shape;
  const Strides strides = strides_for(shape, layout);
  placed.strides = strides.strides;
  placed.offset_bytes = layout == Layout::plain ? 0 : unit;
  const std::size_t size = placed.offset_bytes + static_cast<std::size_t>(strides.extent) * unit;
  placed.buffer = &buffer(slot, size, fresh);
  placed.buffer->poison(unit);
  remember_buffer(role, *placed.buffer);
  return placed;
}

CallFrame::Placed CallFrame::place_input(const std::string& slot, const StoredTensor& tensor,
                                         const CallRequest& request) {
  // Sequence bounds are an index, not data: kernels may rely on their being contiguous.
  const Layout layout = tensor.name == "cu_seqlens" ? Layout::plain : request.layout;
  Placed placed =
      place(slot, tensor.name, tensor.dtype, tensor.shape, layout, request.fresh_buffers);
  char* data = placed.buffer->data() + placed.offset_bytes;
  const std::size_t unit = element_bytes(tensor.dtype);
  if (layout == Layout::plain) {
    if (!tensor.bytes.empty()) std::memcpy(data, tensor.bytes.data(), tensor.bytes.size());
  } else {
    for_each_element(tensor.shape, placed.strides, [&](std::int64_t source, std::int64_t target) {
      std::memcpy(data + static_cast<std::size_t>(target) * unit,
                  tensor.bytes.data() + static_cast<std::size_t>(source) * unit, unit);
    });
  }
  placed.original = std::string(placed.buffer->bytes());
  return placed;
}

void CallFrame::run(assay_call& call, const CallRequest& request, CallResult& result) {
  std::uint64_t size = 0;
  result.outcome = plugin_.workspace_bytes(call, size);
  if (result.outcome.status != ASSAY_OK) return;
  try {
    buffer(kWorkspace, size, request.fresh_buffers);
  } catch (const std::bad_alloc&) {
    result.outcome = {ASSAY_OUT_OF_MEMORY,
                      "the workspace of " + std::to_string(size) + " bytes cannot be had"};
    return;
  }
  GuardedBuffer& workspace = *buffers_[kWorkspace];
  workspace.poison(2);
  remember_buffer(kWorkspace, workspace);
  call.workspace = size == 0 ? nullptr : workspace.kernel_data();
  call.workspace_bytes = size;
  std::erase_if(buffers_, [&](const auto& entry) { return used_.count(entry.first) == 0; });
  for (const auto& [slot, buffer] : buffers_) buffer->upload();
  const auto start = std::chrono::steady_clock::now();
  result.outcome = plugin_.run(call);
  if (device_) device_->synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  result.seconds = took.count();
  result.ran = true;
  for (const auto& [slot, buffer] : buffers_) buffer->download();
}

void CallFrame::inspect(const std::vector<Placed>& read, const std::vector<Placed>& written,
                        CallResult& result) {
  const auto check_zones = [&](const std::string& name, const GuardedBuffer& buffer) {
    const std::string damage = buffer.zone_damage();
    if (!damage.empty()) result.findings.push_back({"written outside", name, damage});
  };
  for (const Placed& tensor : read) {
    check_zones(tensor.role, *tensor.buffer);
    const std::string_view now = tensor.buffer->bytes();
    if (now == tensor.original) continue;
    std::size_t first = 0;
    while (now[first] == tensor.original[first]) ++first;
    const std::size_t unit = element_bytes(tensor.dtype);
    const bool plain = tensor.offset_bytes == 0;
    const std::string place =
        plain ? "element " + index_text(tensor.shape, static_cast<std::int64_t>(first / unit))
              : "byte " + std::to_string(first) + " of its strided buffer";
    result.findings.push_back({"input modified", tensor.role, "the first change is in " + place});
  }
  for (const Placed& tensor : written) {
    check_zones(tensor.role, *tensor.buffer);
    if (result.outcome.status != ASSAY_OK) continue;
    const std::size_t unit = element_bytes(tensor.dtype);
    const std::int64_t count = element_count(tensor.shape);
    std::int64_t missing = 0, first = 0;
    for (std::int64_t i = count; i-- > 0;) {
      if (!is_poison(tensor.buffer->data() + static_cast<std::size_t>(i) * unit, unit)) continue;
      ++missing;
      first = i;
    }
    if (missing == 0) continue;
    result.findings.push_back({"not written", tensor.role,
                               std::to_string(missing) + " of " + std::to_string(count) +
                                   " elements, the first at " + index_text(tensor.shape, first)});
  }
  check_zones(kWorkspace, *buffers_.at(kWorkspace));
}

CallResult CallFrame::call(const CallRequest& request) {
  forget_buffers();
  used_.clear();
  CallResult result;
  std::vector<Placed> read, written;
  for (const StoredTensor& tensor : request.inputs) {
    read.push_back(place_input("in " + tensor.name, tensor, request));
  }
  for (const StoredTensor& tensor : request.cotangents) {
    read.push_back(place_input("in " + tensor.name, tensor, request));
  }
  for (const auto* list : {&request.outputs, &request.gradients}) {
    for (const TensorRequest& want : *list) {
      written.push_back(place("out " + want.role, want.role, want.dtype, want.shape, Layout::plain,
                              request.fresh_buffers));
    }
  }
  std::vector<assay_tensor> tensors;
  for (const auto* list : {&read, &written}) {
    for (const Placed& p : *list) tensors.push_back(p.tensor(plugin_.table().device_type));
  }
  const std::vector<assay_option> options = abi_options(request.options);

  assay_call call{};
  call.struct_size = sizeof call;
  call.operation = request.operation.c_str();
  call.num_inputs = static_cast<std::int32_t>(request.inputs.size());
  call.num_cotangents = static_cast<std::int32_t>(request.cotangents.size());
  call.num_outputs = static_cast<std::int32_t>(request.outputs.size());
  call.num_gradients = static_cast<std::int32_t>(request.gradients.size());
  call.num_options = static_cast<std::int32_t>(options.size());
  call.inputs = tensors.data();
  call.cotangents = call.inputs + call.num_inputs;
  call.outputs = call.cotangents + call.num_cotangents;
  call.gradients = call.outputs + call.num_outputs;
  call.options = options.data();
  call.form = request.form;
  call.chunk = request.chunk;
  call.threads = request.threads;

  result.outcome = plugin_.supports(call);
  if (result.outcome.status != ASSAY_OK) return result;
  try {
    run(call, request, result);
  } catch (const CudaError& error) {
    result.outcome = {ASSAY_DEVICE_ERROR, error.what()};
    result.device_lost = true;
  }
  if (!result.ran) return result;
  inspect(read, written, result);
  if (result.outcome.status != ASSAY_OK) return result;
  for (const Placed& p : written) {
    result.results.push_back({p.role, p.dtype, p.shape, p.buffer->bytes()});
  }
  return result;
}

}  // namespace assay::hosts
