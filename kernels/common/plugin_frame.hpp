// What the tables of plug-ins share: calls of kernels/abi/assay_kernel.h in the kernels' own terms,
// messages, and that no exception leaves a function of a table.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>

#include "kernels/abi/assay_kernel.h"
#include "kernels/common/call.hpp"

namespace assay::cpu {

inline thread_local char plugin_message[256] = "";

__attribute__((format(printf, 2, 3))) inline assay_status fail(assay_status status,
                                                               const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(plugin_message, sizeof plugin_message, format, arguments);
  va_end(arguments);
  return status;
}

inline assay_status report(const Outcome& outcome) {
  switch (outcome.status) {
    case Status::ok:
      plugin_message[0] = '\0';
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

inline bool read_dtype(const assay_dtype& from, DType& to) {
  constexpr struct {
    int code, bits;
    DType dtype;
  } known[] = {{ASSAY_FLOAT, 64, DType::f64}, {ASSAY_FLOAT, 32, DType::f32},
               {ASSAY_FLOAT, 16, DType::f16}, {ASSAY_BFLOAT, 16, DType::bf16},
               {ASSAY_INT, 64, DType::i64},   {ASSAY_INT, 32, DType::i32}};
  for (const auto& k : known) {
    if (from.lanes != 1 || from.code != k.code || from.bits != k.bits) continue;
    to = k.dtype;
    return true;
  }
  return false;
}

inline assay_status read_option(const assay_option& from, Options& to) {
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
  } else if (is("recompute")) {
    to.recompute = from.integer;
  } else {
    return fail(ASSAY_UNSUPPORTED, "option '%s' is not known here", from.name);
  }
  return ASSAY_OK;
}

inline assay_status read_form(const assay_call& from, Options& to) {
  if (from.form == ASSAY_FORM_RECURRENT) {
    to.form = Form::recurrent;
  } else if (from.form == ASSAY_FORM_CHUNK) {
    to.form = Form::chunk;
  } else if (from.form != ASSAY_FORM_ANY) {
    return fail(ASSAY_UNSUPPORTED, "only the recurrent and the chunk form");
  }
  if (from.chunk > 0) to.chunk = from.chunk;
  return ASSAY_OK;
}

/// Traits: Kernel, with plan(call, bytes); `find` by operation, null for none; kDevice, where
/// tensors must be, and kPlace, the same in words.
template <class Traits>
class PluginFrame {
 public:
  using Kernel = typename Traits::Kernel;

  /// A call in the kernels' terms; borrows names and memory.
  struct Translated {
    View views[64];
    int used = 0;
    Call call;
    const Kernel* kernel = nullptr;
  };

  template <class F>
  static assay_status guarded(const assay_call* from, const F& f) {
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

  static assay_status supports(const assay_call* call, char* reason, std::size_t size) {
    const assay_status status = guarded(call, [](Translated& t) {
      std::size_t bytes = 0;
      return report(t.kernel->plan(t.call, &bytes));
    });
    if (status == ASSAY_OK) return ASSAY_OK;
    if (size > 0) std::snprintf(reason, size, "%s", plugin_message);
    return ASSAY_UNSUPPORTED;
  }

  static assay_status workspace_bytes(const assay_call* call, std::uint64_t* bytes) {
    return guarded(call, [bytes](Translated& t) {
      std::size_t needed = 0;
      const assay_status status = report(t.kernel->plan(t.call, &needed));
      *bytes = needed;
      return status;
    });
  }

  static const char* last_error() { return plugin_message; }

 private:
  static assay_status read_tensors(const assay_tensor* tensors, std::int32_t count, Translated& t,
                                   ViewList& list) {
    constexpr int kMost = sizeof t.views / sizeof *t.views;
    list.views = t.views + t.used;
    list.count = count;
    if (count < 0 || t.used + count > kMost) {
      return fail(ASSAY_INVALID, "more than %d tensors", kMost);
    }
    for (std::int32_t i = 0; i < count; ++i) {
      const assay_view& from = tensors[i].view;
      View& to = t.views[t.used++];
      to.name = tensors[i].role;
      if (from.device.device_type != Traits::kDevice) {
        return fail(ASSAY_UNSUPPORTED, "tensor '%s' is not in %s", to.name, Traits::kPlace);
      }
      if (!read_dtype(from.dtype, to.dtype)) {
        return fail(ASSAY_UNSUPPORTED, "tensor '%s' has a dtype this kernel does not take",
                    to.name);
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

  static assay_status translate(const assay_call& from, Translated& t) {
    if (from.struct_size < sizeof(assay_call)) return fail(ASSAY_INVALID, "struct_size too small");
    t.kernel = Traits::find(from.operation);
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
    if (const auto s = read_form(from, call.options); s != ASSAY_OK) return s;
    call.threads = from.threads;
    call.workspace = from.workspace;
    call.workspace_bytes = from.workspace_bytes;
    return ASSAY_OK;
  }
};

}  // namespace assay::cpu
