// The plug-in interface (kernels/abi/assay_kernel.h) over the kernels' own Call. Compiled for the
// portable build only; the kernels it calls are those of the build the processor can run.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>

#include "kernels/abi/assay_kernel.h"
#include "kernels/common/call.hpp"
#include "kernels/common/kernels.hpp"

namespace assay::cpu {
namespace {

constexpr int kMaxTensorsOfCall = 64;

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

assay_status report(const Outcome& outcome) {
  switch (outcome.status) {
    case Status::ok:
      last_message[0] = '\0';
      return ASSAY_OK;
    case Status::bad_argument:
      return fail(ASSAY_INVALID, "%s", outcome.message);
    case Status::unsupported:
      return fail(ASSAY_UNSUPPORTED, "%s", outcome.message);
    case Status::out_of_memory:
      return fail(ASSAY_OUT_OF_MEMORY, "%s", outcome.message);
  }
  return ASSAY_FAILED;
}

bool read_dtype(const assay_dtype& from, DType& to) {
  if (from.lanes != 1) return false;
  const int key = from.code * 1000 + from.bits;
  switch (key) {
    case ASSAY_FLOAT * 1000 + 64:
      to = DType::f64;
      return true;
    case ASSAY_FLOAT * 1000 + 32:
      to = DType::f32;
      return true;
    case ASSAY_FLOAT * 1000 + 16:
      to = DType::f16;
      return true;
    case ASSAY_BFLOAT * 1000 + 16:
      to = DType::bf16;
      return true;
    case ASSAY_INT * 1000 + 64:
      to = DType::i64;
      return true;
    case ASSAY_INT * 1000 + 32:
      to = DType::i32;
      return true;
    default:
      return false;
  }
}

/// A call in the kernels' terms; borrows names and memory.
struct Translated {
  View views[kMaxTensorsOfCall];
  int used = 0;
  Call call;
  const OpKernel* kernel = nullptr;
};

assay_status read_tensors(const assay_tensor* tensors, std::int32_t count, Translated& t,
                          ViewList& list) {
  list.views = t.views + t.used;
  list.count = count;
  if (count < 0 || t.used + count > kMaxTensorsOfCall) {
    return fail(ASSAY_INVALID, "more than %d tensors", kMaxTensorsOfCall);
  }
  for (std::int32_t i = 0; i < count; ++i) {
    const assay_view& from = tensors[i].view;
    View& to = t.views[t.used++];
    to.name = tensors[i].role;
    if (from.device.device_type != ASSAY_DEVICE_CPU) {
      return fail(ASSAY_UNSUPPORTED, "tensor '%s' is not in CPU memory", to.name);
    }
    if (!read_dtype(from.dtype, to.dtype)) {
      return fail(ASSAY_UNSUPPORTED, "tensor '%s' has a dtype this kernel does not take", to.name);
    }
    if (from.ndim < 0 || from.ndim > kMaxRank) {
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

assay_status read_option(const assay_option& from, Options& to) {
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
  } else if (is("silu")) {
    to.silu = from.integer != 0;
  } else if (is("eps")) {
    to.eps = real;
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

assay_status translate(const assay_call& from, Translated& t) {
  if (from.struct_size < sizeof(assay_call)) return fail(ASSAY_INVALID, "struct_size too small");
  t.kernel = find_kernel(kernel_table(), from.operation);
  if (!t.kernel) return fail(ASSAY_UNSUPPORTED, "no kernel for '%s'", from.operation);
  Call& call = t.call;
  const struct {
    const assay_tensor* tensors;
    std::int32_t count;
    ViewList& list;
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
  switch (from.form) {
    case ASSAY_FORM_ANY:
      call.options.form = Form::unspecified;
      break;
    case ASSAY_FORM_RECURRENT:
      call.options.form = Form::recurrent;
      break;
    case ASSAY_FORM_CHUNK:
      call.options.form = Form::chunk;
      break;
    default:
      return fail(ASSAY_UNSUPPORTED, "only the recurrent and the chunk form");
  }
  if (from.chunk > 0) call.options.chunk = from.chunk;
  call.threads = from.threads;
  call.workspace = from.workspace;
  call.workspace_bytes = from.workspace_bytes;
  return ASSAY_OK;
}

// No exception may leave a function of the table.
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
  return guarded(call, [](Translated& t) { return report(t.kernel->run(t.call)); });
}

const char* last_error() { return last_message; }

constexpr std::uint64_t kEverything = ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_PACKED |
                                      ASSAY_CAN_HEAD_GROUPS | ASSAY_CAN_LOG_GATES |
                                      ASSAY_CAN_LINEAR_GATES | ASSAY_CAN_INITIAL_STATE |
                                      ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED;
constexpr std::uint64_t kPart =
    ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED;

#define ASSAY_CPU_ENTRY(op) {#op, kEverything},
#define ASSAY_CPU_PART_ENTRY(op) {#op, kPart},
constexpr assay_operation kOperations[] = {ASSAY_CPU_RECURRENCES(ASSAY_CPU_ENTRY) ASSAY_CPU_PARTS(
    ASSAY_CPU_ENTRY) ASSAY_CPU_ROUTING(ASSAY_CPU_PART_ENTRY)};

// Whatever is stored, every sum and every coefficient is fp32 (fp64 for fp64 tensors); one rounding
// when an output is stored. Chunk forms where there is one, recurrent elsewhere.
constexpr assay_precision precision(std::int32_t stored, std::int32_t computed) {
  return {stored, computed, computed, computed, computed, stored, ASSAY_FORM_CHUNK,
          64,     0,        0,        0,        0,        0,      0};
}
constexpr assay_precision kPrecisions[] = {
    precision(ASSAY_FP32, ASSAY_FP32), precision(ASSAY_BF16, ASSAY_FP32),
    precision(ASSAY_FP16, ASSAY_FP32), precision(ASSAY_FP64, ASSAY_FP64)};

}  // namespace
}  // namespace assay::cpu

extern "C" {
ASSAY_KERNEL_EXPORT const assay_table assay_kernel_table = {
    ASSAY_ABI_VERSION,
    sizeof(assay_table),
    "assay kernels for the CPU",
    "0.1.0",
    ASSAY_DEVICE_CPU,
    static_cast<std::int32_t>(std::size(assay::cpu::kOperations)),
    assay::cpu::kOperations,
    assay::cpu::kPrecisions,
    static_cast<std::int32_t>(std::size(assay::cpu::kPrecisions)),
    0,
    assay::cpu::supports,
    assay::cpu::workspace_bytes,
    assay::cpu::run,
    assay::cpu::last_error};
}
