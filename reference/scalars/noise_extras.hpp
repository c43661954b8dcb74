// What independent relative noise does not show: accumulators that truncate, and operands cast to a
// format of small range.
#pragma once

#include <cstdint>
#include <limits>

namespace assay {

struct NoiseExtras {
  /// Noisy sums of products carry a common error of g·bias·|sum| towards zero, g being fixed in a
  /// lane and of mean square 1. Truncation to unit roundoff u (of rounding to nearest) loses
  /// between 0 and 2u: bias = u.
  double bias = 0;
  /// Half the spacing of the operand format's smallest numbers, and its largest number: a cast
  /// beyond that makes the result's noise infinite.
  double operand_tiny = 0, operand_max = std::numeric_limits<double>::infinity();
  /// Casts of equal values have equal errors; which, this decides.
  std::uint64_t cast_seed = 0;
};

namespace detail {
extern constinit thread_local NoiseExtras tls_noise_extras
    __attribute__((tls_model("initial-exec")));
}

/// Sets them for the calling thread until the end of the block.
class NoiseExtrasScope {
 public:
  explicit NoiseExtrasScope(const NoiseExtras& extras) : saved_(detail::tls_noise_extras) {
    detail::tls_noise_extras = extras;
  }
  ~NoiseExtrasScope() { detail::tls_noise_extras = saved_; }
  NoiseExtrasScope(const NoiseExtrasScope&) = delete;
  NoiseExtrasScope& operator=(const NoiseExtrasScope&) = delete;

 private:
  NoiseExtras saved_;
};

}  // namespace assay
