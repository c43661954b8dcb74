// Where a unit's rows lie, and gates and rows as numbers.
#pragma once

#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/mdn/mdn_cuda.hpp"
#include "kernels/mdn/mdn_fault.hpp"

namespace assay::cuda {

__device__ __forceinline__ std::int64_t segment_bound(const MdnParams& p, std::int64_t s) {
  const std::int64_t at = s * p.cu_stride;
  return p.cu_is_i32 ? reinterpret_cast<const std::int32_t*>(p.cu_seqlens)[at]
                     : reinterpret_cast<const std::int64_t*>(p.cu_seqlens)[at];
}

/// A sequence's steps, or those in the window: `first` counts in the tensors' time axis. `mark` is
/// that of the states before the window, the next that of those after it; `closes`: the sequence
/// ends in the window, or before it.
struct MdnSegment {
  std::int64_t sequence, batch, first, length, first_slot, mark;
  bool closes;
};

__device__ __forceinline__ MdnSegment segment_of(const MdnParams& p, std::int64_t sequence) {
  MdnSegment u;
  u.sequence = sequence;
  if (p.cu_seqlens) {
    u.batch = 0, u.first = segment_bound(p, sequence);
    u.length = segment_bound(p, sequence + 1) - u.first;
    u.first_slot = u.first / kChunk + sequence;
  } else {
    u.batch = sequence, u.first = 0, u.length = p.T;
    u.first_slot = sequence * ((p.T + kChunk - 1) / kChunk);
  }
  u.mark = 0, u.closes = true;
  if (p.window > 0) {
    const std::int64_t steps = p.window * kChunk, skipped = p.first_chunk * kChunk;
    const std::int64_t marks = p.cu_seqlens ? u.first / steps : sequence * ((p.T - 1) / steps);
    const std::int64_t left = u.length - skipped;
    u.mark = marks + p.first_chunk / p.window - 1, u.closes = left <= steps;
    u.first += skipped, u.length = left < 0 ? 0 : left < steps ? left : steps;
    u.first_slot = sequence * p.window;
  }
  return u;
}
/// Nothing of the sequence is in the window; an empty one is in the first.
__device__ __forceinline__ bool passes_over(const MdnParams& p, const MdnSegment& u) {
  return p.first_chunk > 0 && u.length == 0;
}

/// The row of step t (of the tensor's time axis) that head h of the state uses.
__device__ __forceinline__ char* token_at(const Strided& x, std::int64_t batch, std::int64_t t,
                                          int head) {
  const int own = x.share == 1 ? head : head / x.share;
  return x.data + batch * x.batch + t * x.time + own * x.head;
}
__device__ __forceinline__ char* state_at(const Strided& x, std::int64_t sequence, int head) {
  return x.data + sequence * x.batch + head * x.head;
}

struct MdnGates {
  float alpha = 1, mu = 1, beta = 0, eta = 1;
};

/// take(input, where the table has it, what it is if it is missing).
template <class Take>
__device__ __forceinline__ MdnGates make_gates(const MdnParams& p, const Take& take) {
  MdnGates g;
  g.alpha = take(p.alpha, p.table.alpha, p.log_alpha ? 0.0f : 1.0f);
  if (p.log_alpha) g.alpha = expf(g.alpha);
  g.beta = take(p.beta, p.table.beta, 1);
  g.eta = take(p.eta, p.table.eta, 1);
  g.mu = 0;
  if (p.momentum) {
    g.mu = take(p.mu, p.table.mu, 0);
    if (p.log_mu) g.mu = expf(g.mu);
  }
  return g;
}
__device__ __forceinline__ MdnGates load_gates(const MdnParams& p, std::int64_t batch,
                                               std::int64_t t, int head) {
  return make_gates(p, [&](const Strided& x, const MdnTable::Input&, float missing) {
    return x.data ? load_element(token_at(x, batch, t, head), x.dtype) : missing;
  });
}

__device__ __forceinline__ void store_token(const MdnParams& p, const MdnSink& to,
                                            std::int64_t batch, std::int64_t t, int head,
                                            int column, float x) {
  if (to.partial) {
    to.partial[((batch * p.T + t) * p.H + head) * to.width + column] = x;
  } else if (to.direct.data) {
    store_element(token_at(to.direct, batch, t, head) + column * to.direct.column, to.direct.dtype,
                  x);
  }
}

/// A gate's gradient, d log x = x d x, and 0 where x is 0, whatever d x is.
__device__ __forceinline__ float gate_gradient(bool is_log, float gate, float d) {
  if (!is_log) return d;
  return gate == 0.0f ? 0.0f : gate * d;
}

}  // namespace assay::cuda
