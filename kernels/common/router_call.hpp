// What mom_dispatch and mom_aux_loss share: the router's logits [B,T,M] and top_k of a call.
#pragma once

#include "kernels/common/binding.hpp"

ASSAY_CPU_BEGIN

struct RouterCall {
  const View* logits = nullptr;
  std::int64_t B = 0, T = 0, M = 0, top_k = 0;

  std::int64_t rows() const { return B * T; }
  /// Row of a flat token, as doubles or floats of the call.
  template <class Real>
  void row(std::int64_t token, Real* out) const {
    const char* at = static_cast<const char*>(logits->data) +
                     element_size(logits->dtype) *
                         (token / T * logits->stride[0] + token % T * logits->stride[1]);
    load_row(at, logits->dtype, logits->stride[2], M, out);
  }
};

inline Outcome read_router(const char* op, const Call& call, RouterCall& r) {
  r.logits = find_view(call.inputs, "", "router_logits");
  if (!r.logits || r.logits->rank != 3) {
    return refuse(Status::bad_argument, "%s: router_logits must be [B,T,M]", op);
  }
  if (find_view(call.inputs, "", "cu_seqlens")) {
    return refuse(Status::unsupported, "%s does not take cu_seqlens", op);
  }
  r.B = r.logits->shape[0], r.T = r.logits->shape[1], r.M = r.logits->shape[2];
  r.top_k = call.options.top_k;
  if (r.top_k >= 1 && r.top_k <= r.M) return {};
  return refuse(Status::bad_argument, "%s: top_k is %lld of %lld memories", op,
                static_cast<long long>(r.top_k), static_cast<long long>(r.M));
}

ASSAY_CPU_END
