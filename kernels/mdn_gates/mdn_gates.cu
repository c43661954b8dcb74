// The gates of Momentum DeltaNet on the device.   [MDN v1, Sec. 3.3]
//
//   η = tanh(x_η / τ) + 1 = 2 σ(2 x_η / τ)      X = s² η²
//   log α = -a_α softplus(x_α + b_α) - log(1 + X)          β = σ(x_β) X / (1 + X)
//   log μ = max(-a_μ softplus(x_μ + b_μ), log_mu_min)
//
// The sigmoid keeps all digits of a small η; 2 - η comes from the mirrored one for the same reason.
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/mdn_gates/mdn_gates_cuda.hpp"

namespace assay::cuda {

namespace {

using P = MdnGatesParams;

__device__ __forceinline__ float sigmoid(float x) {
  const float e = expf(-fabsf(x)), s = 1.0f / (1.0f + e);
  return x < 0 ? e * s : s;
}
__device__ __forceinline__ float softplus(float x) {
  const float tail = log1pf(expf(-fabsf(x)));
  return x > 0 ? x + tail : tail + (x == x ? 0.0f : x);
}

__device__ __forceinline__ char* at_token(const Strided& x, std::int64_t b, std::int64_t t, int h) {
  return x.data + b * x.batch + t * x.time + h / x.share * x.head;
}
__device__ __forceinline__ float token(const Strided& x, std::int64_t b, std::int64_t t, int h) {
  return load_element(at_token(x, b, t, h), x.dtype);
}
__device__ __forceinline__ float cotangent(const Strided& x, std::int64_t b, std::int64_t t,
                                           int h) {
  return x.data ? token(x, b, t, h) : 0.0f;
}
__device__ __forceinline__ float parameter(const Strided& x, int h) {
  return load_element(x.data + h / x.share * x.head, x.dtype);
}

/// z = x + b and a of a decay exponent -a softplus(z).
struct Exponent {
  float z, a;
};
__device__ __forceinline__ Exponent exponent_of_alpha(const P& p, std::int64_t b, std::int64_t t,
                                                      int h) {
  return {token(p.token[P::x_alpha], b, t, h) + parameter(p.parameter[P::b_alpha], h),
          parameter(p.parameter[P::a_alpha], h)};
}
__device__ __forceinline__ Exponent exponent_of_mu(const P& p, std::int64_t b, std::int64_t t,
                                                   int h) {
  return {token(p.token[P::x_mu], b, t, h) + parameter(p.parameter[P::b_mu], h),
          parameter(p.parameter[P::a_mu], h)};
}

/// The cotangent of -a_μ softplus(z): nothing passes where the floor acts.
__device__ __forceinline__ float d_exponent_of_mu(const P& p, const Exponent& e, std::int64_t b,
                                                  std::int64_t t, int h) {
  if (-e.a * softplus(e.z) < p.log_mu_min) return 0;
  return cotangent(p.d_output[P::log_mu], b, t, h);
}

__global__ void forward_kernel(const __grid_constant__ P p) {
  const std::int64_t items = p.batches * p.T * p.heads;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const int h = static_cast<int>(at % p.heads);
    const std::int64_t t = at / p.heads % p.T, b = at / p.heads / p.T;
    const auto put = [&](P::Output which, float x) {
      const Strided& out = p.output[which];
      if (out.data) store_element(at_token(out, b, t, h), out.dtype, x);
    };
    const float eta = 2.0f * sigmoid(2.0f * token(p.token[P::x_eta], b, t, h) / p.tau);
    const float root = p.s * eta, X = root * root;
    const Exponent alpha = exponent_of_alpha(p, b, t, h), mu = exponent_of_mu(p, b, t, h);
    put(P::eta, eta);
    put(P::beta, sigmoid(token(p.token[P::x_beta], b, t, h)) * (X / (1.0f + X)));
    put(P::log_alpha, -alpha.a * softplus(alpha.z) - log1pf(X));
    const float log_mu = -mu.a * softplus(mu.z);
    put(P::log_mu, log_mu < p.log_mu_min ? p.log_mu_min : log_mu);
  }
}

// d_X = (d_β σ(x_β) / (1+X) - d_logα) / (1+X), d_η += 2 s² η d_X, d_x_η = d_η η (2 - η) / τ
__device__ float d_x(const P& p, int which, std::int64_t b, std::int64_t t, int h) {
  if (which == P::x_alpha) {
    const Exponent e = exponent_of_alpha(p, b, t, h);
    return -e.a * sigmoid(e.z) * cotangent(p.d_output[P::log_alpha], b, t, h);
  }
  if (which == P::x_mu) {
    const Exponent e = exponent_of_mu(p, b, t, h);
    return -e.a * sigmoid(e.z) * d_exponent_of_mu(p, e, b, t, h);
  }
  const float z = 2.0f * token(p.token[P::x_eta], b, t, h) / p.tau;
  const float eta = 2.0f * sigmoid(z), root = p.s * eta, X = root * root, rest = 1.0f / (1.0f + X);
  const float x_beta = token(p.token[P::x_beta], b, t, h), sigma = sigmoid(x_beta);
  const float d_beta = cotangent(p.d_output[P::beta], b, t, h);
  if (which == P::x_beta) return d_beta * X * rest * sigma * sigmoid(-x_beta);
  const float d_X = rest * (d_beta * sigma * rest - cotangent(p.d_output[P::log_alpha], b, t, h));
  const float d_eta = cotangent(p.d_output[P::eta], b, t, h) + 2.0f * p.s * p.s * eta * d_X;
  return d_eta * eta * (2.0f * sigmoid(-z)) / p.tau;
}

__global__ void token_gradients_kernel(const __grid_constant__ P p) {
  const int which = blockIdx.y;
  const Strided& out = p.d_token[which];
  if (!out.data) return;
  const int heads = p.heads / out.share;
  const std::int64_t items = p.batches * p.T * heads;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const int h = static_cast<int>(at % heads);
    const std::int64_t t = at / heads % p.T, b = at / heads / p.T;
    float sum = 0;
    for (int i = 0; i < out.share; ++i) sum += d_x(p, which, b, t, h * out.share + i);
    store_element(out.data + b * out.batch + t * out.time + h * out.head, out.dtype, sum);
  }
}

/// d_a = -Σ softplus(z) d, d_b = -Σ a σ(z) d, over the tokens of a part; a block per head and part.
__global__ void parameter_parts_kernel(const __grid_constant__ P p) {
  const int h = blockIdx.y, part = blockIdx.x;
  const std::int64_t tokens = p.batches * p.T;
  double sum[P::kParameters] = {};
  for (std::int64_t i = part * std::int64_t{kItemThreads} + threadIdx.x; i < tokens;
       i += std::int64_t{p.parts} * kItemThreads) {
    const std::int64_t b = i / p.T, t = i % p.T;
    const Exponent alpha = exponent_of_alpha(p, b, t, h), mu = exponent_of_mu(p, b, t, h);
    const float d_alpha = cotangent(p.d_output[P::log_alpha], b, t, h);
    const float d_mu = d_exponent_of_mu(p, mu, b, t, h);
    sum[P::a_alpha] -= static_cast<double>(softplus(alpha.z)) * d_alpha;
    sum[P::b_alpha] -= static_cast<double>(alpha.a * sigmoid(alpha.z)) * d_alpha;
    sum[P::a_mu] -= static_cast<double>(softplus(mu.z)) * d_mu;
    sum[P::b_mu] -= static_cast<double>(mu.a * sigmoid(mu.z)) * d_mu;
  }
  for (int i = 0; i < P::kParameters; ++i) {
    const double all = sum_of_block(sum[i]);
    if (threadIdx.x == 0) p.sums[(i * p.heads + h) * p.parts + part] = all;
  }
}

__global__ void parameter_sums_kernel(const __grid_constant__ P p) {
  const std::int64_t items = std::int64_t{P::kParameters} * p.heads;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const int which = static_cast<int>(at / p.heads), h = static_cast<int>(at % p.heads);
    const Strided& out = p.d_parameter[which];
    if (!out.data || h % out.share != 0) continue;
    double sum = 0;
    for (int i = 0; i < out.share * p.parts; ++i) sum += p.sums[at * p.parts + i];
    store_element(out.data + h / out.share * out.head, out.dtype, static_cast<float>(sum));
  }
}

}  // namespace

cudaError_t mdn_gates_forward(const P& p, cudaStream_t stream) {
  const std::int64_t items = p.batches * p.T * p.heads;
  if (items <= 0) return cudaSuccess;
  return launch(forward_kernel, dim3(blocks_for(items)), kItemThreads, 0, stream, p);
}

cudaError_t mdn_gates_backward(const P& p, cudaStream_t stream) {
  const std::int64_t items = p.batches * p.T * p.heads;
  bool tokens = false, parameters = false;
  for (const Strided& d : p.d_token) tokens = tokens || d.data;
  for (const Strided& d : p.d_parameter) parameters = parameters || d.data;
  if (tokens && items > 0) {
    const cudaError_t e = launch(token_gradients_kernel, dim3(blocks_for(items), P::kTokens),
                                 kItemThreads, 0, stream, p);
    if (e != cudaSuccess) return e;
  }
  if (!parameters) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(p.parts), static_cast<unsigned>(p.heads));
  const cudaError_t e = launch(parameter_parts_kernel, grid, kItemThreads, 0, stream, p);
  if (e != cudaSuccess) return e;
  return launch(parameter_sums_kernel, dim3(blocks_for(4 * p.heads)), kItemThreads, 0, stream, p);
}

}  // namespace assay::cuda
