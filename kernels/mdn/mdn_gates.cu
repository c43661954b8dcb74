// From the cotangents of a chunk's coefficients to those of its gates: the recursion backward. Each
// column of γ and m is one thread's; (b, μ̄) and (ᾱ, 0) are two more columns, which begin before the
// first step. No division, no subtraction of what was not subtracted forward.
#include "kernels/mdn/mdn_fast.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 128, kColumns = kChunk + 2, kPitch = kColumns + 1;
constexpr int kOfB = kChunk, kOfDecay = kChunk + 1;  // columns

/// Row 0 is before the first step, row i + 1 belongs to step i.
struct Memory {
  float gamma[(kChunk + 1) * kPitch], m[(kChunk + 1) * kPitch];
  float d_gamma[kChunk * kPitch], d_m[kChunk * kPitch];
  float alpha[kChunk], mu[kChunk], beta[kChunk], eta[kChunk], d_alpha[kChunk];
};

__global__ void __launch_bounds__(kThreads) mdn_gates_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  Memory& c = *reinterpret_cast<Memory*>(memory);
  const MdnParams& p = f.p;
  const MdnPlace at = place_of(p, blockIdx.x);
  if (at.steps == 0) return;
  const int j = threadIdx.x;
  const float* in = f.cotangents + at.index * kCotangentFloats;
  if (j < kChunk) {
    const MdnGates g = chunk_gates(p, at, j);
    c.alpha[j] = g.alpha, c.mu[j] = p.momentum ? g.mu : 0.0f, c.beta[j] = g.beta;
    c.eta[j] = g.eta;
  }
  for (int x = j; x < kChunk * kChunk; x += kThreads) {
    c.d_gamma[x / kChunk * kPitch + x % kChunk] = in[x];
  }
  __syncthreads();
  if (j < kColumns) {
    const int from = j < kChunk ? j : 0;
    float gamma = j < kChunk ? 0.0f : j == kOfDecay ? 1.0f : 0.0f;
    float m = j == kOfB ? 1.0f : 0.0f;
    if (j < kChunk) {  // its write begins it
      gamma = c.beta[j], m = 1;
      c.gamma[(j + 1) * kPitch + j] = gamma, c.m[(j + 1) * kPitch + j] = m;
    } else {
      c.gamma[j] = gamma, c.m[j] = m;
    }
    for (int i = j < kChunk ? from + 1 : 0; i < kChunk; ++i) {
      m *= c.mu[i];
      gamma = fmaf(c.alpha[i], gamma, c.beta[i] * m);
      c.gamma[(i + 1) * kPitch + j] = gamma, c.m[(i + 1) * kPitch + j] = m;
    }
  }
  __syncthreads();
  const int last = kChunk - 1;
  if (j < kChunk) {  // reads of the states before, and of the whole chunk
    const float alpha = c.alpha[j], error_S = in[kOfErrorS + j], error_M = in[kOfErrorM + j];
    float direct = in[kOfAlpha + j];
    // Row j of gamma and m is of the step before.
    direct += c.gamma[j * kPitch + kOfB] * error_M - c.gamma[j * kPitch + kOfDecay] * error_S;
    c.d_alpha[j] = ASSAY_MDN_IS_FAULT(p, dalpha_without_residual) ? 0.0f : direct;
    float of_b = -in[kOfReadM + j], of_decay = in[kOfReadS + j];
    if (j < last) {
      of_b += c.alpha[j + 1] * in[kOfErrorM + j + 1];
      of_decay -= c.alpha[j + 1] * in[kOfErrorS + j + 1];
    } else {
      of_b -= in[kOfStates + 1], of_decay += in[kOfStates];
    }
    (void)alpha;
    c.d_gamma[j * kPitch + kOfB] = of_b, c.d_gamma[j * kPitch + kOfDecay] = of_decay;
    c.d_gamma[last * kPitch + j] += c.eta[j] * in[kOfWriteS + j];
  }
  __syncthreads();
  if (j < kColumns) {
    const int from = j < kChunk ? j : 0;
    float d_gamma = 0, d_m = 0;
    if (p.momentum) {
      if (j < kChunk) {
        d_m = -c.eta[j] * in[kOfWriteM + j];
      } else if (j == kOfB && !ASSAY_MDN_IS_FAULT(p, dmu_within_chunk)) {
        d_m = in[kOfStates + 2];
      }
    }
    for (int i = last; i >= from; --i) {
      if (i < last) d_gamma *= c.alpha[i + 1], d_m *= c.mu[i + 1];
      d_gamma += c.d_gamma[i * kPitch + j];
      d_m = fmaf(c.beta[i], d_gamma, d_m);
      c.d_gamma[i * kPitch + j] = d_gamma, c.d_m[i * kPitch + j] = d_m;
    }
  }
  __syncthreads();
  const int lane = j & 31;
  for (int i = j >> 5; i < at.steps; i += kThreads / 32) {
    float d_beta = 0, d_alpha = 0, d_mu = 0;
    for (int x = lane; x < kColumns; x += 32) {
      if (x < kChunk && x > i) continue;
      const float d_gamma = c.d_gamma[i * kPitch + x];
      if (!(x == kOfB && ASSAY_MDN_IS_FAULT(p, dbeta_without_carry))) {
        d_beta = fmaf(d_gamma, c.m[(i + 1) * kPitch + x], d_beta);
      }
      if (x == i) continue;  // begun by this step, not carried into it
      d_alpha = fmaf(d_gamma, c.gamma[i * kPitch + x], d_alpha);
      d_mu = fmaf(c.d_m[i * kPitch + x], c.m[i * kPitch + x], d_mu);
    }
    d_beta = warp_sum(d_beta), d_alpha = warp_sum(d_alpha), d_mu = warp_sum(d_mu);
    if (lane != 0) continue;
    const std::int64_t t = at.first + i;
    store_token(p, p.d_beta, at.batch, t, at.head, 0, d_beta);
    store_token(p, p.d_alpha, at.batch, t, at.head, 0,
                gate_gradient(p.log_alpha, c.alpha[i], d_alpha + c.d_alpha[i]));
    store_token(p, p.d_mu, at.batch, t, at.head, 0, gate_gradient(p.log_mu, c.mu[i], d_mu));
    const float d_eta = in[kOfEta + i] + c.gamma[kChunk * kPitch + i] * in[kOfWriteS + i] -
                        (p.momentum ? c.m[kChunk * kPitch + i] * in[kOfWriteM + i] : 0.0f);
    store_token(p, p.d_eta, at.batch, t, at.head, 0, d_eta);
  }
}

}  // namespace

cudaError_t mdn_gates(const MdnFast& f, cudaStream_t stream) {
  return launch(mdn_gates_kernel, dim3(static_cast<unsigned>(f.p.places())), kThreads,
                static_cast<int>(sizeof(Memory)), stream, f);
}

}  // namespace assay::cuda
