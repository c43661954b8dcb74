// Noisy: a double that carries, in eight lanes, tangents along random rounding noise.
//
// Every operation r = a ∘ b adds to each lane a random ±u|r|/√3, the variance of a rounding error
// that is uniform in ±u|r|; lanes are independent, and so are operations. The root mean square of
// the lanes of a result then estimates its standard deviation under the declared arithmetic,
//
//   σ² = Σ over rounding sites r of (∂y/∂r)² (u_r |r|)² / 3,
//
// for every element at once, gradients included, for the price of a few evaluations in double.
// The unit roundoffs come from the calling thread's NoiseScope: `operand` for the operands of
// matrix products (none where the value is representable in that format), `accumulator` for their
// sums, `elementwise` for everything else. A site's size has the floor `tiny` (underflow).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "reference/scalars/double.hpp"
#include "reference/scalars/functions.hpp"
#include "reference/scalars/linalg.hpp"

namespace assay {

/// Unit roundoffs and relative error bounds of the arithmetic that the noise stands for.
struct NoiseModel {
  double operand = 0x1p-24, accumulator = 0x1p-24, elementwise = 0x1p-24;
  int operand_bits = 24;  // precision of the operand format, to see what is representable
  double exp_error = 0, tanh_error = 0, softplus_error = 0, rsqrt_error = 0;
  double tiny = 0x1p-149;  // smallest rounding unit of the formats
};

namespace detail {
struct NoiseState {
  NoiseModel model;
  std::uint64_t random = 0x9e3779b97f4a7c15u;
};
extern constinit thread_local NoiseState tls_noise __attribute__((tls_model("initial-exec")));

// Row b holds the signs of the eight bits of b.
struct NoiseSigns {
  double row[256][8];
  constexpr NoiseSigns() : row() {
    for (int b = 0; b < 256; ++b) {
      for (int i = 0; i < 8; ++i) row[b][i] = (b >> i & 1) ? 1.0 : -1.0;
    }
  }
  constexpr const double* operator[](std::size_t b) const { return row[b]; }
};
inline constexpr NoiseSigns kNoiseSigns{};

// xorshift64*: eight sign bits per call are taken from the well-mixed high half.
inline std::uint32_t noise_bits() {
  std::uint64_t& s = tls_noise.random;
  s ^= s >> 12;
  s ^= s << 25;
  s ^= s >> 27;
  return static_cast<std::uint32_t>((s * 0x2545f4914f6cdd1dULL) >> 40);
}
}  // namespace detail

/// Sets model and seed of the calling thread until the end of the block.
class NoiseScope {
 public:
  NoiseScope(const NoiseModel& model, std::uint64_t seed) : saved_(detail::tls_noise) {
    detail::tls_noise.model = model;
    detail::tls_noise.random = (seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
    for (int i = 0; i < 8; ++i) detail::noise_bits();
  }
  ~NoiseScope() { detail::tls_noise = saved_; }
  NoiseScope(const NoiseScope&) = delete;
  NoiseScope& operator=(const NoiseScope&) = delete;

 private:
  detail::NoiseState saved_;
};

class Noisy {
 public:
  static constexpr int kLanes = 8;

  double v = 0;
  std::array<double, kLanes> d{};

  Noisy() = default;
  template <std::integral Integer>
  Noisy(Integer n) : v(static_cast<double>(n)) {}  // NOLINT: implicit by contract

  /// Adds one rounding site of the given standard deviation times √3.
  void add_noise(double bound) {
    constexpr double kUniform = 0.57735026918962576;  // 1/√3
    const double size = bound * kUniform + detail::tls_noise.model.tiny;
    const double* sign = detail::kNoiseSigns[detail::noise_bits() & 255];
    for (int i = 0; i < kLanes; ++i) d[i] += size * sign[i];
  }
  /// The rounding of this = x·(1 ± gap), u < gap < √u. A state that a gate near 1 multiplies step
  /// after step moves by gap/u spacings each time, and what is left over after rounding changes by
  /// gap²/u only: the same error comes again while the state stays within a factor 1 ± u/gap.
  void add_lasting_noise(double gap);
  Noisy&& rounded() && {
    if (v != 0) add_noise(detail::tls_noise.model.elementwise * std::fabs(v));
    return static_cast<Noisy&&>(*this);
  }

  friend Noisy operator+(const Noisy& a, const Noisy& b) {
    // Adding an exact zero is exact.
    if (a.is_exact_zero()) return b;
    if (b.is_exact_zero()) return a;
    return combine(a.v + b.v, 1, a, 1, b).rounded();
  }
  friend Noisy operator-(const Noisy& a, const Noisy& b) {
    if (b.is_exact_zero()) return a;
    return combine(a.v - b.v, 1, a, -1, b).rounded();
  }
  friend Noisy operator*(const Noisy& a, const Noisy& b) {
    Noisy r = combine(a.v * b.v, b.v, a, a.v, b);
    if (r.v == 0) return r;
    const double u = detail::tls_noise.model.elementwise;
    const double gap = std::min(std::fabs(1 - std::fabs(a.v)), std::fabs(1 - std::fabs(b.v)));
    if (gap > u && gap * gap < u) {
      r.add_lasting_noise(gap);
    } else {
      r.add_noise(u * std::fabs(r.v));
    }
    return r;
  }
  friend Noisy operator/(const Noisy& a, const Noisy& b) {
    const double q = a.v / b.v;
    return combine(q, 1 / b.v, a, -q / b.v, b).rounded();
  }
  Noisy operator-() const { return combine(-v, -1, *this, 0, *this); }
  Noisy& operator+=(const Noisy& o) { return *this = *this + o; }
  Noisy& operator-=(const Noisy& o) { return *this = *this - o; }
  Noisy& operator*=(const Noisy& o) { return *this = *this * o; }
  Noisy& operator/=(const Noisy& o) { return *this = *this / o; }

  static Noisy combine(double value, double x, const Noisy& a, double y, const Noisy& b) {
    Noisy r;
    r.v = value;
    for (int i = 0; i < kLanes; ++i) r.d[i] = x * a.d[i] + y * b.d[i];
    return r;
  }

 private:
  bool is_exact_zero() const {
    if (v != 0) return false;
    for (double lane : d) {
      if (lane != 0) return false;
    }
    return true;
  }
};

template <>
struct Functions<Noisy> {
  using D = Functions<double>;
  static constexpr const char* kName = "Noisy";

  static Noisy exp(const Noisy& x) {
    const double y = std::exp(x.v);
    return apply(x, y, y, detail::tls_noise.model.exp_error);
  }
  static Noisy log(const Noisy& x) {
    return apply(x, std::log(x.v), 1 / x.v, detail::tls_noise.model.exp_error);
  }
  static Noisy log1p(const Noisy& x) {
    return apply(x, std::log1p(x.v), 1 / (1 + x.v), detail::tls_noise.model.exp_error);
  }
  static Noisy sqrt(const Noisy& x) {
    const double y = std::sqrt(x.v);
    return apply(x, y, y == 0 ? 0 : 0.5 / y, detail::tls_noise.model.rsqrt_error);
  }
  static Noisy tanh(const Noisy& x) {
    const double y = std::tanh(x.v);
    return apply(x, y, 1 - y * y, detail::tls_noise.model.tanh_error);
  }
  static Noisy sigmoid(const Noisy& x) {
    const double y = D::sigmoid(x.v);
    return apply(x, y, y * (1 - y), detail::tls_noise.model.exp_error);
  }
  static Noisy softplus(const Noisy& x) {
    return apply(x, D::softplus(x.v), D::sigmoid(x.v), detail::tls_noise.model.softplus_error);
  }
  static bool less(const Noisy& a, const Noisy& b) { return a.v < b.v; }
  static bool is_zero(const Noisy& x) { return x.v == 0; }
  static Noisy max(const Noisy& a, const Noisy& b) { return a.v > b.v ? a : b; }
  static Noisy clamp(const Noisy& x, const Noisy& lo, const Noisy& hi) {
    return x.v < lo.v ? lo : x.v > hi.v ? hi : x;
  }
  static Noisy heaviside(const Noisy& x) { return x.v > 0 ? 1 : 0; }
  static Noisy from_double(double x) {
    Noisy r;
    r.v = x;
    return r;
  }
  static double to_double(const Noisy& x) { return x.v; }
  static bool is_finite(const Noisy& x) { return std::isfinite(x.v); }
  static void mul_add(Noisy& acc, const Noisy& a, const Noisy& b) { add_product(acc, a, b, 1); }
  static void mul_sub(Noisy& acc, const Noisy& a, const Noisy& b) { add_product(acc, a, b, -1); }

 private:
  static Noisy apply(const Noisy& x, double y, double slope, double error) {
    Noisy r;
    r.v = y;
    if (std::isinf(x.v)) return r;  // log gates at -inf: exactly 0, and no tangent
    for (int i = 0; i < Noisy::kLanes; ++i) r.d[i] = slope * x.d[i];
    if (y != 0 && y != 1) {
      r.add_noise(std::max(error, detail::tls_noise.model.elementwise) * std::fabs(y));
    }
    return r;
  }
  static void add_product(Noisy& acc, const Noisy& a, const Noisy& b, double sign) {
    const double product = a.v * b.v, u = detail::tls_noise.model.elementwise;
    acc.v += sign * product;
    const double x = sign * b.v, y = sign * a.v;
    for (int i = 0; i < Noisy::kLanes; ++i) acc.d[i] += x * a.d[i] + y * b.d[i];
    if (product != 0) acc.add_noise(u * std::sqrt(product * product + acc.v * acc.v));
  }
};

namespace la {

// Matrix products: operands are cast to the operand format, products summed in the accumulator.
// Everything else (scale, axpby) is element by element and keeps the generic loops.
template <>
struct Kernels<Noisy> : GenericKernels<Noisy, Kernels<Noisy>> {
  static void dot_add(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy);
  static void dot_sub(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy);
  static void gemv_t_add(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out);
  static void gemv_t_sub(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out);
  static void ger_add(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S);
  static void ger_sub(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S);
  static void scale_ger_add(long rows, long cols, const Noisy& a, const Noisy* x, const Noisy* y,
                            Noisy* S);
};

}  // namespace la
}  // namespace assay
