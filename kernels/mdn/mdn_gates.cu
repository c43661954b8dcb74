// From the cotangents of a chunk's coefficients to those of its gates: the recursion backward. Each
// column of γ and m is one thread's; (b, μ̄) and (ᾱ, 0) are two more columns, which begin before the
// first step. No division, no subtraction of what was not subtracted forward. Where the gates were
// made here (mdn_gate_rule.cuh), on to their pre-activations and parameters.
#include "kernels/mdn/mdn_fast.cuh"
#include "kernels/mdn/mdn_made_gates.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 256, kColumns = kChunk + 2, kPitch = kColumns + 1;
constexpr int kParameters = MadeGates::kParameters;
constexpr float kSmallBeta = 0x1p-6f;
constexpr int kOfDecay = kChunk, kOfB = kChunk + 1;  // columns

/// Row 0 is before the first step, row i + 1 belongs to step i.
template <bool momentum>
struct Memory {
  float gamma[(kChunk + 1) * kPitch], d_gamma[(kChunk + 1) * kPitch];
  float m[momentum ? (kChunk + 1) * kPitch : 1], d_m[momentum ? (kChunk + 1) * kPitch : 1];
  float alpha[kChunk + 1], mu[kChunk + 1], beta[kChunk + 1], eta[kChunk], d_alpha[kChunk];
};

/// From the gradients of a step's gates, the same in its four threads, to those of its
/// pre-activations, one by each thread, and the chunk's parts of those of the parameters.
__device__ __forceinline__ void store_through_rule(const MdnParams& p, const MdnPlace& at,
                                                   const MdnGates& gates, const MdnGates& d) {
  __shared__ float of_warp[kThreads / 32][kParameters];
  const int j = threadIdx.x, i = j / 4, which = j % 4, warp = j / 32;
  MdnMadeGradient made;
  if (i < at.steps) {
    const std::int64_t t = at.first + i;
    made = made_gradient(p, which, at.batch, t, at.head, gates, d);
    const MdnSink& to = which == kMadeAlpha  ? p.d_alpha
                        : which == kMadeBeta ? p.d_beta
                        : which == kMadeMu   ? p.d_mu
                                             : p.d_eta;
    store_token(p, to, at.batch, t, at.head, 0, made.d_x);
  }
  const float d_a = sum_rows(made.d_a), d_b = sum_rows(made.d_x);
  if (j % 32 == kMadeAlpha || j % 32 == kMadeMu) {
    float* to = of_warp[warp] + (j % 32 == kMadeMu ? MadeGates::a_mu : MadeGates::a_alpha);
    to[0] = d_a, to[1] = d_b;
  }
  __syncthreads();
  if (j >= kParameters) return;
  float sum = 0;
  for (int w = 0; w < kThreads / 32; ++w) sum += of_warp[w][j];
  p.made.parts[index_of_all(p, at) * kParameters + j] = sum;
}

template <bool momentum>
__global__ void __launch_bounds__(kThreads) mdn_gates_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  Memory<momentum>& c = *reinterpret_cast<Memory<momentum>*>(memory);
  const MdnParams& p = f.p;
  const MdnPlace at = place_of(p, blockIdx.x);
  const int j = threadIdx.x;
  if (at.steps == 0) {  // of windows, the places of all are zeros to begin with
    if (p.made.given && p.window == 0 && j < kParameters)
      p.made.parts[at.index * kParameters + j] = 0;
    return;
  }
  const float* in = f.cotangents + at.index * kCotangentFloats;
  for (int x = 4 * j; x < kChunk * kChunk; x += 4 * kThreads) {
    const float4 y = *reinterpret_cast<const float4*>(in + x);
    float* to = c.d_gamma + (x / kChunk + 1) * kPitch + x % kChunk;
    to[0] = y.x, to[1] = y.y, to[2] = y.z, to[3] = y.w;
  }
  const float* kept = f.coefficients + at.index * kKeptFloats;
  if (j < kChunk) {
    const float* gates = kept + kKeptGates + j;
    c.alpha[j + 1] = gates[0], c.mu[j + 1] = gates[kChunk], c.beta[j + 1] = gates[2 * kChunk];
    c.eta[j] = gates[3 * kChunk];
  }
  if constexpr (!momentum) {  // γ and ᾱ as they were; with momentum, m is needed too
    for (int x = 4 * j; x < kChunk * kChunk; x += 4 * kThreads) {
      const float4 y = *reinterpret_cast<const float4*>(kept + x);
      float* to = c.gamma + (x / kChunk + 1) * kPitch + x % kChunk;
      to[0] = y.x, to[1] = y.y, to[2] = y.z, to[3] = y.w;
    }
    if (j < kChunk) {
      const float* vectors = vectors_of(f, at.index);
      c.gamma[(j + 1) * kPitch + kOfDecay] = vectors[kDecay * kChunk + j];
      if (j == 0) c.gamma[kOfDecay] = 1;
    }
  }
  __syncthreads();
  constexpr int kOwn = momentum ? kColumns : kColumns - 1;
  const int begin = j < kChunk ? j + 1 : 0;  // the row in which a column begins
  if constexpr (momentum) {
    if (j < kOwn) {
      float gamma = j < kChunk ? c.beta[j + 1] : j == kOfDecay ? 1.0f : 0.0f;
      float m = j == kOfDecay ? 0.0f : 1.0f;
      c.gamma[begin * kPitch + j] = gamma, c.m[begin * kPitch + j] = m;
#pragma unroll 8
      for (int row = begin + 1; row <= kChunk; ++row) {
        m *= c.mu[row];
        gamma = fmaf(c.alpha[row], gamma, c.beta[row] * m);
        c.gamma[row * kPitch + j] = gamma, c.m[row * kPitch + j] = m;
      }
    }
    __syncthreads();
  }
  const int last = kChunk - 1;
  if (j < kChunk) {  // reads of the states before, and writes into those after
    float direct = in[kOfAlpha + j] - c.gamma[j * kPitch + kOfDecay] * in[kOfErrorS + j];
    float of_decay = in[kOfReadS + j];
    of_decay += j < last ? -c.alpha[j + 2] * in[kOfErrorS + j + 1] : in[kOfStates];
    c.d_gamma[(j + 1) * kPitch + kOfDecay] = of_decay;
    if constexpr (momentum) {
      direct += c.gamma[j * kPitch + kOfB] * in[kOfErrorM + j];
      float of_b = -in[kOfReadM + j];
      of_b += j < last ? c.alpha[j + 2] * in[kOfErrorM + j + 1] : -in[kOfStates + 1];
      c.d_gamma[(j + 1) * kPitch + kOfB] = of_b;
    }
    c.d_alpha[j] = ASSAY_MDN_IS_FAULT(p, dalpha_without_residual) ? 0.0f : direct;
    c.d_gamma[kChunk * kPitch + j] += c.eta[j] * in[kOfWriteS + j];
  }
  __syncthreads();
  if (j < kOwn) {
    float d_gamma = 0, d_m = 0, alpha = 0, mu = 0;
    if constexpr (momentum) {
      if (j < kChunk) d_m = -c.eta[j] * in[kOfWriteM + j];
      if (j == kOfB && !ASSAY_MDN_IS_FAULT(p, dmu_within_chunk)) d_m = in[kOfStates + 2];
      mu = 1;
    }
    const int stop = begin > 0 ? begin : 1;
#pragma unroll 8
    for (int row = kChunk; row >= stop; --row) {
      d_gamma = fmaf(alpha, d_gamma, c.d_gamma[row * kPitch + j]);
      c.d_gamma[row * kPitch + j] = d_gamma;
      alpha = c.alpha[row];
      if constexpr (momentum) {
        d_m = fmaf(mu, d_m, c.beta[row] * d_gamma);
        c.d_m[row * kPitch + j] = d_m;
        mu = c.mu[row];
      }
    }
  }
  __syncthreads();
  // Sums along the rows, four threads each.
  const int i = j / 4, row = i + 1;
  float d_beta = 0, d_alpha = 0, d_mu = 0;
#pragma unroll 4
  for (int x = j % 4; x < kOwn; x += 4) {
    if (x < kChunk && x > i) continue;
    const float d_gamma = c.d_gamma[row * kPitch + x];
    if constexpr (momentum) {
      const bool dropped = x == kOfB && ASSAY_MDN_IS_FAULT(p, dbeta_without_carry);
      if (!dropped) d_beta = fmaf(d_gamma, c.m[row * kPitch + x], d_beta);
    } else if (x == i) {
      d_beta = d_gamma;
    }
    if (x == i) continue;  // begun by this step, not carried into it
    d_alpha = fmaf(d_gamma, c.gamma[i * kPitch + x], d_alpha);
    if constexpr (momentum) d_mu = fmaf(c.d_m[row * kPitch + x], c.m[i * kPitch + x], d_mu);
  }
  d_beta = sum_columns(d_beta), d_alpha = sum_columns(d_alpha);
  // Of keys that come again and again and never fade, what later steps erase cancels in that sum.
  // Without momentum it is R · d_X / β as well, in which nothing does.
  const bool fades = p.alpha.data != nullptr;
  if (!momentum && !fades && fabsf(c.beta[row]) > kSmallBeta) d_beta = in[kOfEta + i] / c.beta[row];
  if constexpr (momentum) d_mu = sum_columns(d_mu);
  if constexpr (momentum) {
    if (p.made.given) {
      const float d_eta = in[kOfEta + i] + c.gamma[kChunk * kPitch + i] * in[kOfWriteS + i] -
                          c.m[kChunk * kPitch + i] * in[kOfWriteM + i];
      const MdnGates gates{c.alpha[row], c.mu[row], c.beta[row], 0};
      store_through_rule(p, at, gates, {d_alpha + c.d_alpha[i], d_mu, d_beta, d_eta});
      return;
    }
  }
  if (j % 4 != 0 || i >= at.steps) return;
  const std::int64_t t = at.first + i;
  store_token(p, p.d_beta, at.batch, t, at.head, 0, d_beta);
  store_token(p, p.d_alpha, at.batch, t, at.head, 0,
              gate_gradient(p.log_alpha, c.alpha[row], d_alpha + c.d_alpha[i]));
  if constexpr (momentum) {
    store_token(p, p.d_mu, at.batch, t, at.head, 0, gate_gradient(p.log_mu, c.mu[row], d_mu));
    const float d_eta = in[kOfEta + i] + c.gamma[kChunk * kPitch + i] * in[kOfWriteS + i] -
                        c.m[kChunk * kPitch + i] * in[kOfWriteM + i];
    store_token(p, p.d_eta, at.batch, t, at.head, 0, d_eta);
  }
}

}  // namespace

cudaError_t mdn_gates(const MdnFast& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(f.p.places()));
  if (f.p.momentum) {
    return launch(mdn_gates_kernel<true>, grid, kThreads, sizeof(Memory<true>), stream, f);
  }
  return launch(mdn_gates_kernel<false>, grid, kThreads, sizeof(Memory<false>), stream, f);
}

}  // namespace assay::cuda
