// The fast kernels of mdn, gdn and delta: on tensor cores, in several launches. Those of bf16 take
// rows of 64 or 128; those of fp32 (mdn_fp32.cuh) any dtype and widths that are multiples of 16 up
// to 128. What is below is how those of bf16 go about it.
//
//   prepare   a block per chunk and head: coefficients, W and T = (I + L)^-1 into a record
//   scan      a warp per 16 columns of a state, through time: R = T (V - ᾱ K S + b' K M), O, states
//   reverse   the same backward: d_X = T^T (W^T d_O + γ_C k̂ d_S - m_C k̂ d_M), cotangents of states
//   local     a block per chunk and head: gradients of q, k, v, and of W, L and the coefficients;
//             zeros of those of k and v, for memories that a token does not go to (mdn_zeros.cuh)
//   last      blocks per head: what bf16 took from the cotangents of the last chunk's coefficients
//   gates     a block per chunk and head: those of the coefficients to the gates, and to what those
//             were made of
//
// States are carried in fp32; operands of products are bf16, sums and coefficients fp32.
#pragma once

#include "kernels/mdn/mdn_cuda.hpp"

namespace assay::cuda {

/// What `prepare` leaves for a chunk and head, in bytes: T, W (with the scale of the read-out) and
/// what W loses by being bf16, in blocks of tiles (mdn_fast.cuh); vectors [kChunk] of fp32 and what
/// the whole chunk does to a state; and, for the way back alone, what T loses. W and T in two parts
/// because hardly anything else is rounded on the way from d_O to the d_V of a sequence's last
/// steps: an error of 2^-9 of one term would stand out where terms cancel.
inline constexpr int kTriangleBytes = kChunk / 16 * (kChunk / 16 + 1) / 2 * 512;
inline constexpr int kRecordT = 0, kRecordW = kTriangleBytes, kRecordWLow = 2 * kTriangleBytes;
inline constexpr int kRecordVectors = 3 * kTriangleBytes, kVectorsBytes = 1536;
inline constexpr int kRecordForward = kRecordVectors + kVectorsBytes;
inline constexpr int kRecordTLow = kRecordForward, kRecordBytes = kRecordTLow + kTriangleBytes;
enum MdnVector { kDecay, kCarry, kReadCarry, kWrite, kWriteMomentum };  // ᾱ, b', b, γ_C η, m_C η
enum MdnEnd { kEndDecay = 5 * kChunk, kEndCarry, kEndMomentum };        // ᾱ_C, b_C, μ̄_C

/// What `local` leaves for `gates`: the cotangent of γ [kChunk, kChunk], then vectors.
enum MdnCotangent {
  kOfReadS = kChunk * kChunk,      // q · (d_O S^T), with scale
  kOfReadM = kOfReadS + kChunk,    // the same of M
  kOfErrorS = kOfReadM + kChunk,   // k · (d_X S^T)
  kOfErrorM = kOfErrorS + kChunk,  // k · (d_X M^T)
  kOfWriteS = kOfErrorM + kChunk,  // k · (R d_S^T)
  kOfWriteM = kOfWriteS + kChunk,  // k · (R d_M^T)
  kOfAlpha = kOfWriteM + kChunk,   // of alpha in p, through L
  kOfEta = kOfAlpha + kChunk,      // of eta through W and L; without momentum R · d_X
  kOfStates = kOfEta + kChunk,     // <d_S, S>, <d_S, M>, <d_M, M>
  kCotangentFloats = kOfStates + 64
};

/// What `prepare` leaves for the way back, in floats: Γ [kChunk, kChunk], of which the lower
/// triangle means something, and the gates alpha, mu, beta, eta [kChunk] each.
enum MdnKept { kKeptGates = kChunk * kChunk, kKeptFloats = kKeptGates + 4 * kChunk };

/// What `prepare` leaves with fp32: the vectors, T and W [kChunk, kChunk], of which the blocks of
/// 16 above the diagonal mean nothing.
enum MdnFullRecord {
  kFullT = kVectorsBytes / 4,
  kFullW = kFullT + kChunk * kChunk,
  kFullFloats = kFullW + kChunk * kChunk
};

/// With fp32, what is bf16 in tiles below is fp32 in rows, states [K, V], residuals [kChunk, V].
struct MdnFast {
  MdnParams p;
  bool full = false;               // fp32
  char* records = nullptr;         // [slot, head, kRecordBytes], or with fp32 kFullFloats
  float* rows = nullptr;           // with fp32: [slot, head, q or k, kChunk, K]
  char* kept = nullptr;            // [slot, head, S or M, V K / 64 tiles] of S^T before the chunk
  char* d_kept = nullptr;          // the same of d_S^T after it
  char* residuals = nullptr;       // [slot, head, V kChunk / 64 tiles] of R^T
  char* residual_rests = nullptr;  // [unit, the same]: what R of its last chunk loses by being bf16
  char* d_residuals = nullptr;     // of d_X^T
  float* coefficients = nullptr;   // [slot, head, kKeptFloats]
  float* cotangents = nullptr;     // [slot, head, kCotangentFloats]
  int pairs = 4;                   // 16 columns each, of a block of `reverse`
};

/// q and k made ready: corrected by k, normalised, in bf16 or fp32 [token, head of the state, K];
/// and the way back of the gradients with respect to those, fp32 of the same layout, in place.
struct MdnPack {
  Strided q, k, q_correction;
  std::int64_t tokens = 0, T = 0;
  int H = 1, K = 0;
  bool l2norm = false;
  float l2norm_eps = 0;
  DType dtype = DType::bf16;  // of what is packed
  char *packed_q = nullptr, *packed_k = nullptr;
  float *d_q = nullptr, *d_k = nullptr;
  float* d_correction = nullptr;  // [token, head], parts
};
cudaError_t mdn_pack(const MdnPack& p, cudaStream_t stream);
cudaError_t mdn_unpack(const MdnPack& p, const Strided& d_correction, cudaStream_t stream);

/// Whether the fast kernels take the call, those of bf16 or those of fp32: dtypes and widths.
bool mdn_bf16_takes(const MdnParams& p);
bool mdn_fp32_takes(const MdnParams& p);
using MdnLaunch = cudaError_t (*)(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_prepare(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_scan(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_reverse(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_local(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_last(const MdnFast& f, cudaStream_t stream);
cudaError_t mdn_gates(const MdnFast& f, cudaStream_t stream);
/// All of them, window by window; all members but `kept` ... of one window.
cudaError_t mdn_recompute(const MdnFast& f, cudaStream_t stream);

}  // namespace assay::cuda
