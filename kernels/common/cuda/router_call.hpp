// The router's logits [B,T,M] and top_k of a call, for mom_dispatch and mom_aux_loss.
#pragma once

#include "kernels/common/cuda/call_checks.hpp"
#include "kernels/common/cuda/routing.hpp"
#include "kernels/common/router_call.hpp"

namespace assay::cuda {

/// Refuses what cannot be counted in 32 bits.
inline cpu::Outcome check_routing(const Routing& r) {
  if (r.rows() < std::int64_t{1} << 31 && r.sequences < std::int64_t{1} << 31 &&
      r.segments() < std::int64_t{1} << 31 && r.M < 1 << 24) {
    return {};
  }
  return cpu::refuse(cpu::Status::unsupported, "more than 2^31 selections, segments or memories");
}

inline cpu::Outcome read_routing(const char* op, const cpu::Call& call, Routing& r) {
  using cpu::Status;
  if (const cpu::Outcome o = refuse_fp64(call); o.status != Status::ok) return o;
  cpu::RouterCall router;
  const cpu::Outcome o = cpu::read_router(op, call, router);
  if (o.status != Status::ok) return o;
  if (router.logits->dtype == DType::i64 || router.logits->dtype == DType::i32) {
    return cpu::refuse(Status::unsupported, "router_logits is an integer tensor");
  }
  r.logits = strided(router.logits, "BTM", 1);
  r.batches = router.B, r.T = router.T, r.sequences = router.B;
  r.M = static_cast<int>(router.M), r.top_k = static_cast<int>(router.top_k);
  return check_routing(r);
}

}  // namespace assay::cuda
