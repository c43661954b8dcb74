// Random numbers that are the same bytes on every platform: no library distribution, no
// elementary function beyond the correctly rounded ones.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace assay {

/// A counter-based stream (SplitMix64, Steele et al. 2014): number n of the stream of `name` under
/// `seed`. One stream per tensor, so that adding a tensor to a case leaves the others as they are.
class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view name) : state_(mix(seed)) {
    for (const char c : name) state_ = mix(state_ ^ static_cast<unsigned char>(c));
  }
  explicit Stream(std::uint64_t state) : state_(state) {}

  std::uint64_t bits() { return mix(state_ += 0x9E3779B97F4A7C15u); }

  /// Uniform on the multiples of 2^-53 in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double uniform(double lo, double hi) { return lo + (hi - lo) * uniform(); }

  /// Uniform on 0 .. n-1 (n small against 2^64, whose remainder is ignored).
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n));
  }

  /// Mean 0, variance 1: the sum of 12 uniforms. Additions round alike everywhere; the logarithm
  /// and cosine of Box-Muller do not.
  double normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  /// A magnitude spread evenly over the octaves 2^-most .. 2^(1-least).
  double octaves(int least, int most) {
    const int n = least + static_cast<int>(below(most - least + 1));
    return std::ldexp(1.0 + uniform(), -n);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace assay
