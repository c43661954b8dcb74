// What the device kernels of mdn, gdn and delta are told. gdn is mdn whose momentum is forgotten at
// once (mu = 0, eta = 1): then M never matters and is not carried (`momentum` false). delta is gdn
// with alpha = 1.
//
// A unit is a head of a sequence. Time is cut into chunks of kChunk steps from the start of each
// sequence; steps beyond the end of a chunk are steps with alpha = mu = 1, beta = 0 and rows of
// zeros, which change nothing. A slot is a place for what belongs to a chunk: those of sequence s
// begin at first_slot(s), so that they can be found without the host knowing cu_seqlens.
//
// All chunks at once, or a window of them of every sequence: then the kernels see that part of each
// sequence alone, and states and their cotangents pass from window to window, in fp32, in marks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda/made_gates.hpp"
#include "kernels/common/cuda/strided.hpp"

namespace assay::cuda {

inline constexpr int kChunk = 64;
inline constexpr int kMaxMdnWidth = 256;  // of K and V

/// Where a gradient per token goes: into the tensor itself, or into fp32 parts [token, head of the
/// state, width] that are added up afterwards.
struct MdnSink {
  Strided direct;
  float* partial = nullptr;
  int width = 1;
};

/// Inputs that lie in the order of their tokens, while sequences are packed as Mixture-of-Memories
/// wants them: step t is token `token[t]`, and sequence s has memory s % memories. Only for the
/// fast kernels, and for tokens that lie without gaps between batches. q, k and v are all looked
/// up; q has no memories.
struct MdnTable {
  /// Of an input: whether it is looked up, how far its memories are apart, in bytes, and, if the
  /// last memory has a tensor of its own, that.
  struct Input {
    bool looked_up = false;
    std::int64_t to_memory = 0;
    Strided shared;
  };
  const int* token = nullptr;  // null in planning
  int memories = 1;
  bool shared = false;
  std::int64_t longest = 0;  // no sequence has more steps
  Input k, v, alpha, mu, beta, eta;
  Input d_k, d_v;  // stored where the rows of k and v lie
  /// Bit m of step t: d_k and d_v of its token are zero in memory m, and stored with the step's
  /// own.
  const std::uint32_t* zeros = nullptr;  // [T, zero_words], or null
  int zero_words = 0;
};

struct MdnParams {
  std::int64_t sequences = 0, T = 0;  // T: of the batch, or all tokens when packed
  int H = 1, K = 0, V = 0;
  const char* cu_seqlens = nullptr;
  std::int64_t cu_stride = 1;
  bool cu_is_i32 = false;

  bool momentum = false, log_alpha = false, log_mu = false, l2norm = false;
  float l2norm_eps = 0, scale = 1;
  Strided q, k, v, alpha, mu, beta, eta, q_correction, s0, m0;
  Strided o, s_final, m_final;
  Strided d_o, d_s_final, d_m_final;
  MdnSink d_q, d_k, d_v, d_alpha, d_mu, d_beta, d_eta;
  Strided d_s0, d_m0;
  Strided s_marks, m_marks;  // [mark, H, K, V]: between windows, the states or their cotangents
  std::int64_t first_chunk = 0, window = 0;  // chunks; window 0: all of them
  float* d_correction = nullptr;             // [unit], parts of d_q_correction
  bool gradients = false;

  MdnTable table;
  MadeGates made;  // or alpha, beta, mu, eta are given and this is not

  float* states = nullptr;   // [slot, head, 1 or 2, K, V]: before each chunk
  float* scratch = nullptr;  // [unit, scratch_floats]
  std::int64_t scratch_floats = 0;
  int fault = 0;  // see mdn_fault.hpp

  std::int64_t units() const { return sequences * H; }
  std::int64_t chunks_per_sequence() const { return (T + kChunk - 1) / kChunk; }
  std::int64_t slots() const { return window > 0 ? sequences * window : all_slots(); }
  std::int64_t all_slots() const {
    return cu_seqlens ? T / kChunk + sequences : sequences * chunks_per_sequence();
  }
  /// A sequence of n windows has n - 1 of them.
  std::int64_t marks() const {
    const std::int64_t steps = window * kChunk;
    return steps == 0 ? 0 : cu_seqlens ? T / steps : sequences * ((T - 1) / steps);
  }
  /// No sequence has more.
  std::int64_t longest_chunks() const {
    const std::int64_t steps = table.longest > 0 ? table.longest : T;
    return (steps + kChunk - 1) / kChunk;
  }
  std::int64_t places() const { return slots() * H; }
  int matrices() const { return momentum ? 2 : 1; }
  std::int64_t exact_scratch() const {
    const std::int64_t forward = 2 * K + 2 * V, backward = 4 * K + 2 * V;
    return kChunk * (forward + (gradients ? backward : 0)) + std::int64_t{4} * K * V;
  }
};

/// Sums of partial gradients over the heads that share a row, times the gate where that was given
/// as a logarithm: out [batch, time, head, width].
struct MdnTokenSum {
  const float* partial = nullptr;  // [token, head of the state, width]
  Strided out;
  std::int64_t batches = 0, T = 0;
  int H = 1, width = 1;
  int fault = 0;
};

/// Sums of the gradients of the gates' parameters over all places: out[i] [heads of it].
struct MdnParameterSum {
  const float* parts = nullptr;  // [place, head of the state, kParameters]
  Strided out[MadeGates::kParameters];
  std::int64_t places = 0;
  int H = 1;
  int fault = 0;
};

/// Outputs and, with `gradients`, gradients, in fp32 throughout. Any K and V to kMaxMdnWidth.
cudaError_t mdn_exact(const MdnParams& p, cudaStream_t stream);
cudaError_t mdn_sum_tokens(const MdnTokenSum& sum, cudaStream_t stream);
cudaError_t mdn_sum_parameters(const MdnParameterSum& sum, cudaStream_t stream);
/// d_q_correction [heads of it] from the parts of the units.
cudaError_t mdn_sum_correction(const MdnParams& p, const Strided& out, cudaStream_t stream);

}  // namespace assay::cuda
