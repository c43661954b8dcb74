// The plug-in interface (kernels/abi/assay_kernel.h) over the device kernels.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>

#include "kernels/abi/assay_kernel.h"
#include "kernels/common/cuda/kernels.hpp"

namespace assay::cuda {
namespace {

constexpr int kMaxTensorsOfCall = 64;
#if defined(ASSAY_CUDA_ON_CPU)
constexpr std::int32_t kDevice = ASSAY_DEVICE_CPU;
constexpr char kName[] = "assay kernels for NVIDIA GPUs, on the CPU";
#else
constexpr std::int32_t kDevice = ASSAY_DEVICE_CUDA;
constexpr char kName[] = "assay kernels for NVIDIA GPUs";
#endif

thread_local char last_message[256] = "";

assay_status fail(assay_status status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
assay_status fail(assay_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_message, sizeof last_message, format, arguments);
  va_end(arguments);
  return status;
}

assay_status report(const cpu::Outcome& outcome) {
  switch (outcome.status) {
    case cpu::Status::ok:
      last_message[0] = '\0';
      return ASSAY_OK;
    case cpu::Status::bad_argument:
      return fail(ASSAY_INVALID, "%s", outcome.message);
    case cpu::Status::unsupported:
      return fail(ASSAY_UNSUPPORTED, "%s", outcome.message);
    case cpu::Status::out_of_memory:
      return fail(ASSAY_OUT_OF_MEMORY, "%s", outcome.message);
  }
  return ASSAY_FAILED;
}

bool read_dtype(const assay_dtype& from, cpu::DType& to) {
  constexpr struct {
    int code, bits;
    cpu::DType dtype;
  } known[] = {{ASSAY_FLOAT, 64, cpu::DType::f64}, {ASSAY_FLOAT, 32, cpu::DType::f32},
               {ASSAY_FLOAT, 16, cpu::DType::f16}, {ASSAY_BFLOAT, 16, cpu::DType::bf16},
               {ASSAY_INT, 64, cpu::DType::i64},   {ASSAY_INT, 32, cpu::DType::i32}};
  for (const auto& k : known) {
    if (from.lanes != 1 || from.code != k.code || from.bits != k.bits) continue;
    to = k.dtype;
    return true;
  }
  return false;
}

/// A call in the kernels' terms; borrows names and memory.
struct Translated {
  cpu::View views[kMaxTensorsOfCall];
  int used = 0;
  cpu::Call call;
  const OpKernel* kernel = nullptr;
};

assay_status read_tensors(const assay_tensor* tensors, std::int32_t count, Translated& t,
                          cpu::ViewList& list) {
  list.views = t.views + t.used;
  list.count = count;
  if (count < 0 || t.used + count > kMaxTensorsOfCall) {
    return fail(ASSAY_INVALID, "more than %d tensors", kMaxTensorsOfCall);
  }
  for (std::int32_t i = 0; i < count; ++i) {
    const assay_view& from = tensors[i].view;
    cpu::View& to = t.views[t.used++];
    to.name = tensors[i].role;
    if (from.device.device_type != kDevice) {
      return fail(ASSAY_UNSUPPORTED, "tensor '%s' is not in device memory", to.name);
    }
    if (!read_dtype(from.dtype, to.dtype)) {
      return fail(ASSAY_UNSUPPORTED, "tensor '%s' has a dtype this kernel does not take", to.name);
    }
    if (from.ndim < 0 || from.ndim > cpu::kMaxRank) {
      return fail(ASSAY_INVALID, "tensor '%s' has %d axes", to.name, from.ndim);
    }
    to.rank = from.ndim;
    to.data = from.data ? static_cast<char*>(from.data) + from.byte_offset : nullptr;
    for (int a = 0; a < from.ndim; ++a) {
      to.shape[a] = from.shape[a];
      to.stride[a] = from.strides[a];
      if (to.shape[a] < 0) return fail(ASSAY_INVALID, "tensor '%s': negative axis", to.name);
    }
  }
  return ASSAY_OK;
}

assay_status read_option(const assay_option& from, cpu::Options& to) {
  const auto is = [&](const char* name) { return std::strcmp(from.name, name) == 0; };
  const double real =
      from.type == ASSAY_OPTION_REAL ? from.real : static_cast<double>(from.integer);
  if (is("scale")) {
    to.has_scale = true, to.scale = real;
  } else if (is("qk_l2norm")) {
    to.qk_l2norm = from.integer != 0;
  } else if (is("l2norm_eps")) {
    to.l2norm_eps = real;
  } else if (is("chunk")) {
    to.chunk = from.integer;
  } else if (is("state_grad_clip")) {
    to.has_state_grad_clip = true, to.state_grad_clip = real;
  } else if (is("top_k")) {
    to.top_k = from.integer;
  } else if (is("update") && from.string) {
    to.update = from.string;
  } else if (is("s")) {
    to.s = real;
  } else if (is("tau")) {
    to.tau = real;
  } else if (is("log_mu_min")) {
    to.log_mu_min = real;
  } else {
    return fail(ASSAY_UNSUPPORTED, "option '%s' is not known here", from.name);
  }
  return ASSAY_OK;
}

assay_status read_form(const assay_call& from, cpu::Options& to) {
  if (from.form == ASSAY_FORM_RECURRENT) {
    to.form = cpu::Form::recurrent;
  } else if (from.form == ASSAY_FORM_CHUNK) {
    to.form = cpu::Form::chunk;
  } else if (from.form != ASSAY_FORM_ANY) {
    return fail(ASSAY_UNSUPPORTED, "only the recurrent and the chunk form");
  }
  if (from.chunk > 0) to.chunk = from.chunk;
  return ASSAY_OK;
}

const OpKernel* find_kernel(const char* op) {
#define ASSAY_CUDA_ADDRESS(op, can) &op##_kernel,
  static const OpKernel* const all[] = {ASSAY_CUDA_OPERATIONS(ASSAY_CUDA_ADDRESS)};
#undef ASSAY_CUDA_ADDRESS
  for (const OpKernel* kernel : all) {
    if (std::strcmp(kernel->op, op) == 0) return kernel;
  }
  return nullptr;
}

assay_status translate(const assay_call& from, Translated& t) {
  if (from.struct_size < sizeof(assay_call)) return fail(ASSAY_INVALID, "struct_size too small");
  t.kernel = find_kernel(from.operation);
  if (!t.kernel) return fail(ASSAY_UNSUPPORTED, "no device kernel for '%s'", from.operation);
  cpu::Call& call = t.call;
  const struct {
    const assay_tensor* tensors;
    std::int32_t count;
    cpu::ViewList& list;
  } lists[] = {{from.inputs, from.num_inputs, call.inputs},
               {from.outputs, from.num_outputs, call.outputs},
               {from.cotangents, from.num_cotangents, call.cotangents},
               {from.gradients, from.num_gradients, call.gradients}};
  for (const auto& l : lists) {
    if (const auto s = read_tensors(l.tensors, l.count, t, l.list); s != ASSAY_OK) return s;
  }
  for (std::int32_t i = 0; i < from.num_options; ++i) {
    if (const auto s = read_option(from.options[i], call.options); s != ASSAY_OK) return s;
  }
  if (const auto s = read_form(from, call.options); s != ASSAY_OK) return s;
  call.workspace = from.workspace;
  call.workspace_bytes = from.workspace_bytes;
  return ASSAY_OK;
}

/// No exception may leave a function of the table.
template <class F>
assay_status guarded(const assay_call* from, const F& f) {
  try {
    Translated t;
    if (const assay_status s = translate(*from, t); s != ASSAY_OK) return s;
    return f(t);
  } catch (const std::exception& e) {
    return fail(ASSAY_FAILED, "%s", e.what());
  } catch (...) {
    return fail(ASSAY_FAILED, "unknown exception");
  }
}

assay_status supports(const assay_call* call, char* reason, std::size_t size) {
  const assay_status status = guarded(call, [](Translated& t) {
    std::size_t bytes = 0;
    return report(t.kernel->plan(t.call, &bytes));
  });
  if (status == ASSAY_OK) return ASSAY_OK;
  if (size > 0) std::snprintf(reason, size, "%s", last_message);
  return ASSAY_UNSUPPORTED;
}

assay_status workspace_bytes(const assay_call* call, std::uint64_t* bytes) {
  return guarded(call, [bytes](Translated& t) {
    std::size_t needed = 0;
    const assay_status status = report(t.kernel->plan(t.call, &needed));
    *bytes = needed;
    return status;
  });
}

assay_status run(const assay_call* call) {
  return guarded(call, [call](Translated& t) {
    const RunOutcome out = t.kernel->run(t.call, static_cast<cudaStream_t>(call->stream));
    if (out.refusal.status != cpu::Status::ok) return report(out.refusal);
    if (out.error == cudaSuccess) return report({});
    cudaGetLastError();
    const auto status =
        out.error == cudaErrorMemoryAllocation ? ASSAY_OUT_OF_MEMORY : ASSAY_DEVICE_ERROR;
    return fail(status, "%s: %s", t.kernel->op, cudaGetErrorString(out.error));
  });
}

const char* last_error() { return last_message; }

#define ASSAY_CUDA_ENTRY(op, can) {#op, can},
constexpr assay_operation kOperations[] = {ASSAY_CUDA_OPERATIONS(ASSAY_CUDA_ENTRY)};
#undef ASSAY_CUDA_ENTRY

// The delta rules compute in chunks; who knows no chunk form is judged by the recurrent one.
// fp32 tokens: products with operands of 24 bits, sums on the tensor cores, libm's transcendentals.
// 16-bit tokens: tanh.approx.f32 has 2^-11; the coarsest operands are, with bf16, the states that
// the way back of m2rnn reads, with fp16 the tf32 ones of H W (D W^T has bf16 in two parts in
// both).
constexpr assay_precision precision(std::int32_t stored, std::int32_t operand, double tanh_error) {
  return {stored, operand, ASSAY_FP32, ASSAY_FP32, ASSAY_FP32, stored, ASSAY_FORM_CHUNK,
          64,     0,       tanh_error, 0,          0,          1,      0};
}
constexpr assay_precision kPrecisions[] = {precision(ASSAY_FP32, ASSAY_FP32, 0),
                                           precision(ASSAY_BF16, ASSAY_BF16, 0x1p-11),
                                           precision(ASSAY_FP16, ASSAY_FP16, 0x1p-11)};

}  // namespace
}  // namespace assay::cuda

extern "C" {
const assay_table assay_kernel_table = {  // exported by its declaration
    ASSAY_ABI_VERSION,
    sizeof(assay_table),
    assay::cuda::kName,
    "0.1.0",
    assay::cuda::kDevice,
    static_cast<std::int32_t>(std::size(assay::cuda::kOperations)),
    assay::cuda::kOperations,
    assay::cuda::kPrecisions,
    static_cast<std::int32_t>(std::size(assay::cuda::kPrecisions)),
    0,
    assay::cuda::supports,
    assay::cuda::workspace_bytes,
    assay::cuda::run,
    assay::cuda::last_error};
}
