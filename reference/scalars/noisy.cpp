#include "reference/scalars/noisy.hpp"

#include <algorithm>
#include <bit>
#include <vector>

namespace assay {
namespace detail {

constinit thread_local NoiseState tls_noise;

}  // namespace detail

namespace {

using detail::draw_of;

constexpr double kUniform = 0.57735026918962576;  // 1/√3

}  // namespace

void Noisy::add_lasting_noise(double gap) {
  const NoiseModel& model = detail::tls_noise.model;
  const double u = model.elementwise;
  const double times = std::clamp(std::sqrt(u / gap) / gap, 1.0, std::max(1.0, model.steps));
  add_noise(std::sqrt(times) * u * magnitude());
}

void Noisy::add_sum_noise(double term) {
  const NoiseModel& model = detail::tls_noise.model;
  const double sum = magnitude(), widest = std::sqrt(std::max(model.steps / 6, 1.0)) * term;
  const double bound = model.elementwise * std::max(sum, widest);
  if (bound > model.elementwise * model.largest) return add_noise(bound);
  // A term that comes again leaves the same error behind while the sum has the same exponent.
  const std::uint64_t key = std::bit_cast<std::uint64_t>(term) >> 32 ^
                            static_cast<std::uint64_t>(std::ilogb(sum == 0 ? 1 : sum)) << 48 ^
                            model.same_seed;
  const detail::NoiseDraw same = draw_of(key), other(detail::noise_bits());
  const double size = bound * kUniform + model.tiny;
  for (int i = 0; i < kLanes; ++i) d[i] += size * (Noisy::alike(i) ? same : other)[i];
}

namespace la {
namespace {

// AVX2 without FMA: the same operations in the same order as the baseline, so the same bits.
#define ASSAY_CLONES __attribute__((target_clones("avx2", "default")))

/// The number of `bits` bits nearest to x.
double nearest(double x, int bits) {
  int exponent;
  const double scaled = std::ldexp(std::frexp(x, &exponent), bits);
  return std::ldexp(std::nearbyint(scaled), exponent - bits);
}

// A bias is the same everywhere in a lane, so that it adds up as a real one does; over the lanes
// its mean is 0 and its mean square 1.
constexpr double kGains[Noisy::kLanes] = {1, -1, 1.25, -1.25, 0.75, -0.75, 0.935, -0.935};

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// The error of casting one operand, by lane.
struct Cast {
  double error[Noisy::kLanes] = {};
};

/// The model and generator in registers while a kernel runs.
struct Source {
  NoiseModel model = detail::tls_noise.model;
  std::uint64_t random = detail::tls_noise.random;
  // Casts of equal values have equal errors, of opposite values opposite ones: keys that come
  // again add up. So do those of a state that moves by less than half a spacing from step to step,
  // hence no further bits than those count. But what is equal but for its last bits may be on two
  // sides of a rounding boundary, and another form casts other values: in half of the lanes all
  // casts are independent.
  std::uint64_t run = model.operand_bits * 0x9e3779b97f4a7c15ULL ^ model.same_seed;
  bool casts = model.operand > model.accumulator;
  ~Source() { detail::tls_noise.random = random; }

  [[gnu::always_inline]] void multiply_add(Noisy& acc, const Noisy& a, const Noisy& b, double sign,
                                           const Cast& cast_a, const Cast& cast_b) {
    const double product = a.v * b.v, u = model.accumulator;
    const double term = std::fabs(product) + std::fabs(b.v * a.d[0] + (a.v + a.d[0]) * b.d[0]);
    acc.v += sign * product;
    const auto other = next();
    const auto same =
        acc.v == 0 ? other : draw_of(std::bit_cast<std::uint64_t>(std::fabs(acc.v)) ^ run);
    const double variance = sum_variance(term, acc.magnitude(), model.reorder);
    double size = term == 0 ? 0 : kUniform * u * std::sqrt(variance) + model.tiny;
    if (std::fabs(acc.v) > model.largest) size = kInfinite;
    const double signed_size = std::copysign(size, acc.v), shift = -model.bias * acc.v;
    for (int i = 0; i < Noisy::kLanes; ++i) {
      const double da = a.d[i] + cast_a.error[i], db = b.d[i] + cast_b.error[i];
      acc.d[i] += sign * (b.v * da + (a.v + da) * db) +
                  (signed_size * (Noisy::alike(i) ? same : other)[i] + shift * kGains[i]);
    }
  }
  [[gnu::always_inline]] detail::NoiseDraw next() {
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    return detail::NoiseDraw((random * 0x2545f4914f6cdd1dULL) >> 40);
  }
  [[gnu::always_inline]] Cast cast(const Noisy& x) {
    Cast c;
    if (!casts || x.magnitude() == 0) return c;
    const double size = std::fabs(x.v);
    if (size > model.operand_max) {
      std::fill(c.error, c.error + Noisy::kLanes, kInfinite);
      return c;
    }
    const double half = std::max(size * model.operand, model.operand_tiny);
    double noise = 0;
    for (const double d : x.d) noise = std::max(noise, std::fabs(d));
    if (noise >= size) {
      // Nothing but errors is left to be cast.
      const auto draw = next();
      for (int i = 0; i < Noisy::kLanes; ++i) {
        const double own = std::max(model.operand * std::fabs(x.v + x.d[i]), model.operand_tiny);
        c.error[i] = kUniform * own * draw[i];
      }
      return c;
    }
    if (half > model.operand_tiny && noise < half && nearest(x.v, model.operand_bits) == x.v) {
      // The candidate's value is close to a number of the format and becomes that number, or one
      // beside it: below a power of two they are half as far apart. Another form may not cast it,
      // so half of the lanes keep their error.
      for (int i = 0; i < Noisy::kLanes; ++i) {
        const double own = x.v + x.d[i];
        c.error[i] = i & 2 ? nearest(own, model.operand_bits) - own : 0;
      }
      return c;
    }
    // The two halves of a spacing are cast in opposite directions, which averages out where many
    // values are spread over both.
    const std::uint64_t half_spacing = std::uint64_t{1} << (52 - model.operand_bits);
    const auto drawn = [&](double value, int lane) {
      const std::uint64_t bits = std::bit_cast<std::uint64_t>(std::fabs(value));
      const double draw = draw_of((bits & ~(2 * half_spacing - 1)) ^ run)[lane];
      return bits & half_spacing ? -draw : draw;
    };
    const double error = std::copysign(kUniform * half, x.v);
    const auto other = next();
    // What a lane casts is its own value, errors included, once they are not far below the spacing.
    const bool own = noise > half / 8;
    for (int i = 0; i < Noisy::kLanes; ++i) {
      if (Noisy::alike(i)) c.error[i] = error * drawn(own ? x.v + x.d[i] : x.v, i);
    }
    for (int i = 0; i < Noisy::kLanes; ++i) {
      if (!Noisy::alike(i)) c.error[i] = error * other[i];
    }
    return c;
  }
};

/// One sum of products whose order is the kernel's own affair: its noise is that of the order
/// given, of the reverse or of a random one, whichever is largest. With partial sums S_0 … S_n = P
/// of products p these are u² Σ S_i², u² Σ (P - S_i)² and u² times the mean over all orders, (n/3)
/// P² + ((n + 1)/6) (Σ p² - P²/n), with what was there before as one of the p.
struct Sum {
  double start = 0;                // what was there before
  double products = 0;             // Σ p²
  double linear = 0, squares = 0;  // Σ S_i, Σ S_i²
  double count = 0;                // of products that are not 0, their errors included

  [[gnu::always_inline]] void add(Noisy& acc, const Noisy& a, const Noisy& b, double sign,
                                  const Cast& cast_a, const Cast& cast_b) {
    const double product = a.v * b.v;
    if (count == 0) start = acc.v;
    acc.v += sign * product;
    for (int i = 0; i < Noisy::kLanes; ++i) {
      const double da = a.d[i] + cast_a.error[i], db = b.d[i] + cast_b.error[i];
      acc.d[i] += sign * (b.v * da + (a.v + da) * db);
    }
    const double term = std::fabs(product) + std::fabs(b.v * a.d[0] + (a.v + a.d[0]) * b.d[0]);
    if (term == 0) return;
    products += term * term;
    linear += acc.v;
    squares += acc.v * acc.v;
    count += 1;
  }

  [[gnu::always_inline]] void finish(Noisy& acc, Source& source) const {
    if (count == 0) return;
    const double u = source.model.accumulator, total = acc.v, n = count + (start != 0);
    const double left = acc.d[0] * acc.d[0];  // where the products cancel to nothing
    const double reversed = count * total * total - 2 * total * linear + squares;
    const double spread = std::max(0.0, products + start * start - total * total / n);
    const double shuffled = n < 3 ? 0 : n / 3 * total * total + (n + 1) / 6 * spread;
    const double sums = std::max({squares, reversed, shuffled});
    const double largest = source.model.largest;
    const double size =
        squares > largest * largest
            ? kInfinite
            : kUniform * u * std::sqrt(products + sums + left) + count * source.model.tiny;
    const double shift = -source.model.bias * linear;
    // The same sum of the same products has the same error, in half of the lanes: see cast.
    const auto other = source.next();
    const auto same = draw_of(std::bit_cast<std::uint64_t>(std::fabs(total)) ^ source.run);
    const double signed_size = std::copysign(size, total);
    for (int i = 0; i < Noisy::kLanes; ++i) {
      acc.d[i] += signed_size * (Noisy::alike(i) ? same : other)[i] + shift * kGains[i];
    }
  }
};

ASSAY_CLONES void dot(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy,
                      double sign, bool may_cast = true) {
  Source source;
  source.casts = source.casts && may_cast;
  Sum sum;
  for (long i = 0; i < n; ++i) {
    const Noisy &a = x[i * incx], &b = y[i * incy];
    sum.add(acc, a, b, sign, source.cast(a), source.cast(b));
  }
  sum.finish(acc, source);
}

ASSAY_CLONES void gemv_t(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out,
                         double sign) {
  Source source;
  thread_local std::vector<Sum> sums;
  sums.assign(static_cast<std::size_t>(cols), Sum());
  for (long i = 0; i < rows; ++i) {
    const Cast cast = source.cast(x[i]);
    for (long j = 0; j < cols; ++j) {
      const Noisy& s = S[i * cols + j];
      sums[j].add(out[j], s, x[i], sign, source.cast(s), cast);
    }
  }
  for (long j = 0; j < cols; ++j) sums[j].finish(out[j], source);
}

ASSAY_CLONES void ger(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S, double sign) {
  Source source;
  for (long i = 0; i < rows; ++i) {
    const Cast cast = source.cast(x[i]);
    for (long j = 0; j < cols; ++j) {
      source.multiply_add(S[i * cols + j], x[i], y[j], sign, cast, source.cast(y[j]));
    }
  }
}

}  // namespace

void Kernels<Noisy>::dot_add(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y,
                             long incy) {
  dot(acc, n, x, incx, y, incy, 1);
}
void Kernels<Noisy>::dot_sub(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y,
                             long incy) {
  dot(acc, n, x, incx, y, incy, -1);
}
void Kernels<Noisy>::reduce_add(Noisy& acc, long n, const Noisy* x, const Noisy* y) {
  dot(acc, n, x, 1, y, 1, 1, false);
}
void Kernels<Noisy>::gemv_t_add(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out) {
  gemv_t(rows, cols, S, x, out, 1);
}
void Kernels<Noisy>::gemv_t_sub(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out) {
  gemv_t(rows, cols, S, x, out, -1);
}
void Kernels<Noisy>::ger_add(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S) {
  ger(rows, cols, x, y, S, 1);
}
void Kernels<Noisy>::ger_sub(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S) {
  ger(rows, cols, x, y, S, -1);
}
void Kernels<Noisy>::scale_ger_add(long rows, long cols, const Noisy& a, const Noisy* x,
                                   const Noisy* y, Noisy* S) {
  for (long i = 0; i < rows * cols; ++i) S[i] *= a;
  ger(rows, cols, x, y, S, 1);
}

}  // namespace la
}  // namespace assay
