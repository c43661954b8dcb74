// The gates of Momentum DeltaNet on the device, and back; equations in mdn_gate_rule.cuh.
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/common/cuda/mdn_gate_rule.cuh"
#include "kernels/mdn_gates/mdn_gates_cuda.hpp"

namespace assay::cuda {

namespace {

using P = MdnGatesParams;

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
__device__ __forceinline__ DecayExponent exponent_of_alpha(const P& p, std::int64_t b,
                                                           std::int64_t t, int h) {
  return decay_exponent(token(p.token[P::x_alpha], b, t, h), p.parameter[P::a_alpha],
                        p.parameter[P::b_alpha], h);
}
__device__ __forceinline__ DecayExponent exponent_of_mu(const P& p, std::int64_t b, std::int64_t t,
                                                        int h) {
  return decay_exponent(token(p.token[P::x_mu], b, t, h), p.parameter[P::a_mu],
                        p.parameter[P::b_mu], h);
}

/// The cotangent of -a_μ softplus(z): nothing passes where the floor acts.
__device__ __forceinline__ float d_exponent_of_mu(const P& p, const DecayExponent& e,
                                                  std::int64_t b, std::int64_t t, int h) {
  if (e.value() < p.log_mu_min) return 0;
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
    const GateAngle angle(token(p.token[P::x_eta], b, t, h), p.s, p.tau);
    const DecayExponent alpha = exponent_of_alpha(p, b, t, h), mu = exponent_of_mu(p, b, t, h);
    put(P::eta, angle.eta);
    put(P::beta, gate_sigmoid(token(p.token[P::x_beta], b, t, h)) * angle.sin2);
    put(P::log_alpha, alpha.value() + angle.log_cos2());
    const float log_mu = mu.value();
    put(P::log_mu, log_mu < p.log_mu_min ? p.log_mu_min : log_mu);
  }
}

__device__ float d_x(const P& p, int which, std::int64_t b, std::int64_t t, int h) {
  if (which == P::x_alpha) {
    const DecayExponent e = exponent_of_alpha(p, b, t, h);
    return e.d_z() * cotangent(p.d_output[P::log_alpha], b, t, h);
  }
  if (which == P::x_mu) {
    const DecayExponent e = exponent_of_mu(p, b, t, h);
    return e.d_z() * d_exponent_of_mu(p, e, b, t, h);
  }
  const float x_eta = token(p.token[P::x_eta], b, t, h),
              x_beta = token(p.token[P::x_beta], b, t, h);
  const float d_beta = cotangent(p.d_output[P::beta], b, t, h);
  const GateAngle angle(x_eta, p.s, p.tau);
  if (which == P::x_beta) return angle.d_x_beta(x_beta, d_beta);
  return angle.d_x_eta(x_eta, p.tau, x_beta, cotangent(p.d_output[P::log_alpha], b, t, h), d_beta,
                       cotangent(p.d_output[P::eta], b, t, h));
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

/// Sums of d_a and d_b over the tokens of a part; a block per head and part.
__global__ void parameter_parts_kernel(const __grid_constant__ P p) {
  const int h = blockIdx.y, part = blockIdx.x;
  const std::int64_t tokens = p.batches * p.T;
  double sum[P::kParameters] = {};
  for (std::int64_t i = part * std::int64_t{kItemThreads} + threadIdx.x; i < tokens;
       i += std::int64_t{p.parts} * kItemThreads) {
    const std::int64_t b = i / p.T, t = i % p.T;
    const DecayExponent alpha = exponent_of_alpha(p, b, t, h), mu = exponent_of_mu(p, b, t, h);
    const float d_alpha = cotangent(p.d_output[P::log_alpha], b, t, h);
    const float d_mu = d_exponent_of_mu(p, mu, b, t, h);
    sum[P::a_alpha] += static_cast<double>(alpha.d_a()) * d_alpha;
    sum[P::b_alpha] += static_cast<double>(alpha.d_z()) * d_alpha;
    sum[P::a_mu] += static_cast<double>(mu.d_a()) * d_mu;
    sum[P::b_mu] += static_cast<double>(mu.d_z()) * d_mu;
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
