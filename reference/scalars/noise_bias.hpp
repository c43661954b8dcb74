// Accumulators that truncate: their errors all point towards zero and add up, which independent
// noise does not show.
#pragma once

namespace assay {

namespace detail {
extern constinit thread_local double tls_noise_bias __attribute__((tls_model("initial-exec")));
}

/// Until the end of the block the calling thread's Noisy sums of products carry, beside their
/// noise, a common error of g·bias·|sum| towards zero, g being fixed in a lane and of mean
/// square 1. Truncation to unit roundoff u (of rounding to nearest) loses between 0 and 2u: bias =
/// u.
class NoiseBiasScope {
 public:
  explicit NoiseBiasScope(double bias) : saved_(detail::tls_noise_bias) {
    detail::tls_noise_bias = bias;
  }
  ~NoiseBiasScope() { detail::tls_noise_bias = saved_; }
  NoiseBiasScope(const NoiseBiasScope&) = delete;
  NoiseBiasScope& operator=(const NoiseBiasScope&) = delete;

 private:
  double saved_;
};

}  // namespace assay
