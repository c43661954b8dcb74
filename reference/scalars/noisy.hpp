// Noisy: a double that carries eight further evaluations of the same formula, each with random
// rounding noise, as differences from its own.
//
// Every operation r = a ∘ b adds to each lane a random number uniform in ±u|r|, as rounding does;
// lanes are independent, and so are operations. The root mean square of the lanes of a result then
// estimates its standard deviation under the declared arithmetic, to first order
//
//   σ² = Σ over rounding sites r of (∂y/∂r)² (u_r |r|)² / 3,
//
// for every element at once, gradients included, for the price of a few evaluations in double.
// Lanes are differences of full evaluations and not tangents: where errors multiply each other, or
// a function bends within them, they do so here too.
// The unit roundoffs come from the calling thread's NoiseScope: `operand` for the operands of
// matrix products (none where the value is representable in that format), `accumulator` for their
// sums, `elementwise` for everything else. A site's size has the floor `tiny` (underflow).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
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
  /// Beyond this a format of the arithmetic may overflow: infinite noise.
  double largest = std::numeric_limits<double>::infinity();
  /// n/6 for sums of n products that a kernel may take in any order: see sum_variance.
  double reorder = 0;
  double steps = 1;  // of the recurrence
  /// Sums of products carry a common error of g·bias·|sum| towards zero, g being fixed in a lane
  /// and of mean square 1. Truncation to unit roundoff u (of rounding to nearest) loses between 0
  /// and 2u: bias = u.
  double bias = 0;
  /// Half the spacing of the operand format's smallest numbers, and its largest number: a cast
  /// beyond that makes the result's noise infinite.
  double operand_tiny = 0, operand_max = std::numeric_limits<double>::infinity();
  /// Equal values have equal rounding errors; which, this decides.
  std::uint64_t same_seed = 0;
};

/// Variance, in units of u²/3, of adding one product to a running sum that is then `sum`. Taken in
/// random order, n products p that cancel to little have partial sums of mean square (n/6) p² per
/// product, however small they are in the order at hand.
inline double sum_variance(double product, double sum, double reorder) {
  return product * product + std::max(sum * sum, reorder * product * product);
}

namespace detail {
struct NoiseState {
  NoiseModel model;
  std::uint64_t random = 0x9e3779b97f4a7c15u;
};
extern constinit thread_local NoiseState tls_noise __attribute__((tls_model("initial-exec")));

// Row b of `sign` holds the signs of the eight bits of b; the rows of `size` are of mean square 1
// and such that sign · size is uniform in ±√3, strata in random order.
struct NoiseTables {
  static constexpr int kSizes = 64;
  double sign[256][8];
  double size[kSizes][8];
  constexpr NoiseTables() : sign(), size() {
    for (int b = 0; b < 256; ++b) {
      for (int i = 0; i < 8; ++i) sign[b][i] = (b >> i & 1) ? 1.0 : -1.0;
    }
    std::uint64_t random = 88172645463325252u;
    for (int i = 0; i < 8; ++i) {
      int order[kSizes] = {};
      for (int k = 0; k < kSizes; ++k) order[k] = k;
      for (int k = kSizes - 1; k > 0; --k) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const auto other = static_cast<int>(random >> 33) % (k + 1);
        const int swapped = order[k];
        order[k] = order[other];
        order[other] = swapped;
      }
      for (int k = 0; k < kSizes; ++k) size[k][i] = 1.7320508075688772 * (order[k] + 0.5) / kSizes;
    }
  }
};
inline constexpr NoiseTables kNoise{};

/// Eight random numbers of mean square 1, one for each lane.
struct NoiseDraw {
  const double *sign, *size;
  explicit NoiseDraw(std::uint64_t bits)
      : sign(kNoise.sign[bits & 255]), size(kNoise.size[bits >> 8 & (NoiseTables::kSizes - 1)]) {}
  double operator[](int lane) const { return sign[lane] * size[lane]; }
};

/// A draw that depends on nothing but `key`.
inline NoiseDraw draw_of(std::uint64_t key) {
  key = (key ^ key >> 29) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ key >> 32) * 0x94d049bb133111ebULL;
  return NoiseDraw(key >> 40);
}

// xorshift64*: the bits of one draw are taken from the well-mixed high half.
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
  /// Equal values are rounded alike, as real ones are, in half of the lanes of every evaluation;
  /// in the others all roundings are independent, because a last bit may make the difference.
  static constexpr bool alike(std::size_t lane) { return lane % kLanes < kLanes / 2; }

  double v = 0;
  std::array<double, kLanes> d{};

  Noisy() = default;
  template <std::integral Integer>
  Noisy(Integer n) : v(static_cast<double>(n)) {}  // NOLINT: implicit by contract

  /// Adds one rounding site: uniform in ±bound. In lanes that round alike, opposite results are
  /// rounded in opposite directions.
  void add_noise(double bound) {
    constexpr double kUniform = 0.57735026918962576;  // 1/√3
    const NoiseModel& model = detail::tls_noise.model;
    const double size = bound > model.elementwise * model.largest
                            ? std::numeric_limits<double>::infinity()
                            : bound * kUniform + model.tiny;
    const detail::NoiseDraw other(detail::noise_bits()),
        same = v == 0
                   ? other
                   : detail::draw_of(std::bit_cast<std::uint64_t>(std::fabs(v)) ^ model.same_seed);
    const double signed_size = std::copysign(size, v);
    for (int i = 0; i < kLanes; ++i) d[i] += signed_size * (alike(i) ? same : other)[i];
  }
  /// The rounding of this = x·(1 ± gap), u <= gap < ∛u. A state that a gate near 1 multiplies step
  /// after step moves by gap/u spacings each time; what is left over after rounding changes by
  /// gap²/u, which may be near a whole number, and that again by gap³/u: the same error may come
  /// n = √(u/gap³) times in a row, which independent errors of √n times the size add up to. At
  /// gap = u it is lost or doubled in every step.
  void add_lasting_noise(double gap);
  void add_sum_noise(double term);
  /// What is rounded: where values cancel to nothing, the errors that are left.
  double magnitude() const { return std::fabs(v) + std::fabs(d[0]); }
  Noisy&& rounded() && {
    const double size = magnitude();
    if (size != 0) add_noise(detail::tls_noise.model.elementwise * size);
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
    Noisy r;
    r.v = a.v * b.v;
    for (int i = 0; i < kLanes; ++i) r.d[i] = b.v * a.d[i] + (a.v + a.d[i]) * b.d[i];
    const double size = r.magnitude();
    if (size == 0) return r;
    const double u = detail::tls_noise.model.elementwise;
    const double gap = std::min(std::fabs(1 - std::fabs(a.v)), std::fabs(1 - std::fabs(b.v)));
    if (gap >= u && gap * gap * gap < u) {
      r.add_lasting_noise(gap);
    } else {
      r.add_noise(u * size);
    }
    return r;
  }
  friend Noisy operator/(const Noisy& a, const Noisy& b) {
    Noisy r;
    r.v = a.v / b.v;
    for (int i = 0; i < kLanes; ++i) r.d[i] = (a.d[i] - r.v * b.d[i]) / (b.v + b.d[i]);
    return static_cast<Noisy&&>(r).rounded();
  }
  Noisy operator-() const { return combine(-v, -1, *this, 0, *this); }
  /// A sum over tokens, whose order is the kernel's own affair; equal terms are rounded alike.
  Noisy& operator+=(const Noisy& o) {
    if (o.is_exact_zero()) return *this;
    if (is_exact_zero()) return *this = o;
    *this = combine(v + o.v, 1, *this, 1, o);
    add_sum_noise(o.magnitude());
    return *this;
  }
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
    return apply(x, y, y, 1, model().exp_error, [](double t) { return std::exp(t); });
  }
  static Noisy log(const Noisy& x) {
    return apply(x, std::log(x.v), 1 / x.v, x.v, model().exp_error,
                 [](double t) { return std::log(t); });
  }
  static Noisy log1p(const Noisy& x) {
    return apply(x, std::log1p(x.v), 1 / (1 + x.v), 1 + x.v, model().exp_error,
                 [](double t) { return std::log1p(t); });
  }
  static Noisy sqrt(const Noisy& x) {
    const double y = std::sqrt(x.v);
    Noisy r = apply(x, y, y == 0 ? 0 : 0.5 / y, x.v, model().rsqrt_error,
                    [](double t) { return std::sqrt(std::fmax(t, 0)); });
    // A sum of squares that underflows is 0, its root is exactly that, and what is divided by it
    // overflows.
    for (int i = 0; i < Noisy::kLanes; ++i) {
      if (x.v + x.d[i] <= 0) r.d[i] = -y;
    }
    return r;
  }
  static Noisy tanh(const Noisy& x) {
    const double y = std::tanh(x.v);
    return short_of_one(
        x, model().tanh_error,
        apply(x, y, 1 - y * y, 1, model().tanh_error, [](double t) { return std::tanh(t); }));
  }
  static Noisy sigmoid(const Noisy& x) {
    const double y = D::sigmoid(x.v);
    return short_of_one(
        x, model().exp_error,
        apply(x, y, y * (1 - y), 1, model().exp_error, [](double t) { return D::sigmoid(t); }));
  }
  static Noisy softplus(const Noisy& x) {
    return apply(x, D::softplus(x.v), D::sigmoid(x.v), 1, model().softplus_error,
                 [](double t) { return D::softplus(t); });
  }
  static bool less(const Noisy& a, const Noisy& b) { return a.v < b.v; }
  static bool is_zero(const Noisy& x) { return x.v == 0; }
  static Noisy max(const Noisy& a, const Noisy& b) {
    Noisy r;
    r.v = std::max(a.v, b.v);
    for (int i = 0; i < Noisy::kLanes; ++i) {
      // Neither difference is lost in the larger value where the order stays.
      const double x = a.v + a.d[i], y = b.v + b.d[i];
      r.d[i] = x > y ? (a.v - r.v) + a.d[i] : (b.v - r.v) + b.d[i];
    }
    return r;
  }
  static Noisy clamp(const Noisy& x, const Noisy& lo, const Noisy& hi) {
    const Noisy above = x.v < lo.v ? lo : x;
    Noisy r = hi.v < above.v ? hi : above;
    for (int i = 0; i < Noisy::kLanes; ++i) {
      const double t = x.v + x.d[i], low = lo.v + lo.d[i], high = hi.v + hi.d[i];
      r.d[i] = t < low    ? (lo.v - r.v) + lo.d[i]
               : t > high ? (hi.v - r.v) + hi.d[i]
                          : (x.v - r.v) + x.d[i];
    }
    return r;
  }
  static Noisy heaviside(const Noisy& x) {
    Noisy r = x.v > 0 ? 1 : 0;
    for (int i = 0; i < Noisy::kLanes; ++i) r.d[i] = (x.v + x.d[i] > 0 ? 1 : 0) - r.v;
    return r;
  }
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
  static const NoiseModel& model() { return detail::tls_noise.model; }
  /// What is 1 in double only has the error of any other value.
  static Noisy short_of_one(const Noisy& x, double error, Noisy y) {
    if (y.v == 1 && std::isfinite(x.v)) y.add_noise(std::max(error, model().elementwise));
    return y;
  }
  /// y = f(x) with its slope; `bend` is the length over which f bends.
  template <class F>
  static Noisy apply(const Noisy& x, double y, double slope, double bend, double error, F f) {
    constexpr double kStraight = 1e-3;
    Noisy r;
    r.v = y;
    if (std::isinf(x.v)) return r;  // log gates at -inf: exactly 0, and no noise
    double most = 0;
    for (const double d : x.d) most = std::max(most, std::fabs(d));
    if (most <= kStraight * bend) {
      for (int i = 0; i < Noisy::kLanes; ++i) r.d[i] = slope * x.d[i];
    } else {
      for (int i = 0; i < Noisy::kLanes; ++i) r.d[i] = f(x.v + x.d[i]) - y;
    }
    if (r.magnitude() != 0 && y != 1) {
      r.add_noise(std::max(error, model().elementwise) * r.magnitude());
    }
    return r;
  }
  static void add_product(Noisy& acc, const Noisy& a, const Noisy& b, double sign) {
    const double product = a.v * b.v, u = model().elementwise;
    const double term = std::fabs(product) + std::fabs(b.v * a.d[0] + (a.v + a.d[0]) * b.d[0]);
    acc.v += sign * product;
    for (int i = 0; i < Noisy::kLanes; ++i) {
      acc.d[i] += sign * (b.v * a.d[i] + (a.v + a.d[i]) * b.d[i]);
    }
    if (term == 0) return;
    acc.add_noise(u * std::sqrt(sum_variance(term, acc.magnitude(), model().reorder)));
  }
};

namespace la {

// Matrix products: operands are cast to the operand format, products summed in the accumulator.
// Everything else (scale, axpby) is element by element and keeps the generic loops.
template <>
struct Kernels<Noisy> : GenericKernels<Noisy, Kernels<Noisy>> {
  static void dot_add(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy);
  static void dot_sub(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy);
  static void reduce_add(Noisy& acc, long n, const Noisy* x, const Noisy* y);
  static void gemv_t_add(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out);
  static void gemv_t_sub(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out);
  static void ger_add(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S);
  static void ger_sub(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S);
  static void scale_ger_add(long rows, long cols, const Noisy& a, const Noisy* x, const Noisy* y,
                            Noisy* S);
};

}  // namespace la
}  // namespace assay
