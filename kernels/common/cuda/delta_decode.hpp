// Few steps of the delta rule and its momentum at the speed of memory: a block holds some columns
// of the state in registers, walks through time, and writes them back.
//
//   gdn, delta:  D = α S,  r = v - D^T k,  S <- D + β k r^T            (delta: α = 1)
//   mdn:         r = v - S^T (α k),  M <- μ M - η k r^T,  S <- α S - β M
//   o = scale S^T q                                        [GDN, Eq. 10], [MDN v1, Eqs. 3-5]
#pragma once

#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/cuda/made_gates.hpp"
#include "kernels/common/cuda/strided.hpp"

namespace assay::cuda {

inline constexpr int kDecodeMaxK = 256;

/// Tokens [B,T,H,*], states [B or S,H,K,V]; what is not there has no data. A gate that is absent
/// is 1. K of at most kDecodeMaxK.
struct DecodeParams {
  Strided q, k, v, alpha, mu, beta, eta, q_correction, s0, m0;
  Strided o, s_final, m_final;
  bool alpha_is_log = false, mu_is_log = false, momentum = false, normalise = false;
  float scale = 1, eps = 0;
  int H = 1, K = 0, V = 0;
  std::int64_t sequences = 0, T = 0;
  const char* cu_seqlens = nullptr;  // [sequences + 1] in device memory
  std::int64_t cu_stride = 1;
  bool cu_is_i32 = false;
  MadeGates made;
};

/// Is this call of gdn, delta, mdn or mdn_fused_gates for `run_decode`: no gradients, a step or two
/// per sequence?
bool decode_applies(const cpu::Call& call);

/// Launches the steps; for calls that decode_applies to and whose shapes were checked.
RunOutcome run_decode(const cpu::Call& call, cudaStream_t stream);

/// The launch behind it, for whoever has the tensors apart.
cudaError_t launch_decode(const DecodeParams& p, cudaStream_t stream);

/// The same for one step of many heads of 64 or 128, at the speed of memory (delta_stream.cu).
bool stream_applies(const DecodeParams& p);
cudaError_t launch_stream(const DecodeParams& p, cudaStream_t stream);

}  // namespace assay::cuda
