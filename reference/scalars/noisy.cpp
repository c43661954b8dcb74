#include "reference/scalars/noisy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
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

/// `nearest` of any x.
[[gnu::noinline]] double nearest_slowly(double x, int bits) {
  int exponent;
  const double scaled = std::ldexp(std::frexp(x, &exponent), bits);
  return std::ldexp(std::nearbyint(scaled), exponent - bits);
}
/// The number of `bits` bits nearest to x.
[[gnu::always_inline]] inline double nearest(double x, int bits) {
  const auto u = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t exponent = u >> 52 & 0x7ff;
  if (exponent == 0 || exponent == 0x7ff || bits > 52) return nearest_slowly(x, bits);
  const int drop = 53 - bits;
  const std::uint64_t unit = std::uint64_t{1} << drop;
  return std::bit_cast<double>((u + (unit / 2 - 1) + (u >> drop & 1)) & ~(unit - 1));
}

// A bias is the same everywhere in a lane, so that it adds up as a real one does; over the lanes
// its mean is 0 and its mean square 1.
constexpr double kGains[Noisy::kLanes] = {1, -1, 1.25, -1.25, 0.75, -0.75, 0.935, -0.935};

constexpr int kAlike = Noisy::kLanes / 2;  // lanes that round alike, the first ones
static_assert(Noisy::alike(kAlike - 1) && !Noisy::alike(kAlike));

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A number for each lane, in registers: half of the lanes, and all of them. Functions that take or
// return these must be inlined: how they are passed is another matter with AVX2 and without.
#pragma GCC diagnostic ignored "-Wpsabi"
using Half = double __attribute__((vector_size(8 * kAlike), aligned(8)));
struct Lanes {
  Half alike = {}, other = {};
};
[[gnu::always_inline]] inline Half half_at(const double* x) {
  Half h;
  std::memcpy(&h, x, sizeof h);
  return h;
}
[[gnu::always_inline]] inline double larger(double x, double y) { return x < y ? y : x; }
[[gnu::always_inline]] inline Half larger(const Half& x, const Half& y) { return x < y ? y : x; }
[[gnu::always_inline]] inline Half size_of(const Half& x) { return x < 0 ? -x : x; }

/// The error of casting one operand: `error`, and where `draws`, a random number times `drawn`. The
/// two are not both in one lane.
struct Cast {
  Lanes error, drawn;
  bool draws = false;
};

/// sign · a · b less the product of the values alone.
template <bool casts>
[[gnu::always_inline]] inline Lanes product_lanes(const Noisy& a, const Noisy& b, double sign,
                                                  const Cast& cast_a, const Cast& cast_b) {
  const auto of = [&](Half da, Half db, const Half& error_a, const Half& error_b)
      __attribute__((always_inline)) {
    if constexpr (casts) da += error_a, db += error_b;
    return sign * (b.v * da + (a.v + da) * db);
  };
  return {of(half_at(&a.d[0]), half_at(&b.d[0]), cast_a.error.alike, cast_b.error.alike),
          of(half_at(&a.d[kAlike]), half_at(&b.d[kAlike]), cast_a.error.other, cast_b.error.other)};
}
[[gnu::always_inline]] inline void add_to(Noisy& acc, const Lanes& more) {
  const Half alike = half_at(&acc.d[0]) + more.alike, other = half_at(&acc.d[kAlike]) + more.other;
  std::memcpy(&acc.d[0], &alike, sizeof alike);
  std::memcpy(&acc.d[kAlike], &other, sizeof other);
}

/// The model and generator in registers while a kernel runs.
template <bool casts>
struct Source {
  NoiseModel model = detail::tls_noise.model;
  std::uint64_t random = detail::tls_noise.random;
  // Casts of equal values have equal errors, of opposite values opposite ones: keys that come
  // again add up. So do those of a state that moves by less than half a spacing from step to step,
  // hence no further bits than those count. But what is equal but for its last bits may be on two
  // sides of a rounding boundary, and another form casts other values: in half of the lanes all
  // casts are independent.
  std::uint64_t run = model.operand_bits * 0x9e3779b97f4a7c15ULL ^ model.same_seed;
  Half gains_alike = half_at(kGains), gains_other = half_at(kGains + kAlike);
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
    const Lanes more = product_lanes<casts>(a, b, sign, cast_a, cast_b);
    add_to(acc, {more.alike + (signed_size * of<0>(same) + shift * gains_alike),
                 more.other + (signed_size * of<kAlike>(other) + shift * gains_other)});
  }
  template <int first>
  [[gnu::always_inline]] static Half of(const detail::NoiseDraw& draw) {
    return half_at(draw.sign + first) * half_at(draw.size + first);
  }
  [[gnu::always_inline]] detail::NoiseDraw next() {
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    return detail::NoiseDraw((random * 0x2545f4914f6cdd1dULL) >> 40);
  }
  [[gnu::always_inline]] void draw(Cast& c) {
    if (!c.draws) return;
    const auto draw = next();
    c.error.alike += c.drawn.alike * of<0>(draw);
    c.error.other += c.drawn.other * of<kAlike>(draw);
  }
  [[gnu::always_inline]] void cast(const Noisy& x, Cast& c) {
    castable(x, c);
    draw(c);
  }
  /// What is known before anything is drawn, added to a `c` of zeros.
  [[gnu::always_inline]] void castable(const Noisy& x, Cast& c) const {
    if (!casts || x.magnitude() == 0) return;
    const double size = std::fabs(x.v);
    if (size > model.operand_max) {
      c.error.alike += kInfinite, c.error.other += kInfinite;
      return;
    }
    const double half = larger(size * model.operand, model.operand_tiny);
    const Half alike = half_at(&x.d[0]), other = half_at(&x.d[kAlike]);
    const Half most = larger(larger(Half{}, size_of(alike)), size_of(other));
    const double noise = larger(larger(most[0], most[1]), larger(most[2], most[3]));
    if (noise >= size) {
      // Nothing but errors is left to be cast.
      c.draws = true;
      const Half tiny = Half{} + model.operand_tiny;
      c.drawn.alike = kUniform * larger(model.operand * size_of(x.v + alike), tiny);
      c.drawn.other = kUniform * larger(model.operand * size_of(x.v + other), tiny);
      return;
    }
    if (half > model.operand_tiny && noise < half && nearest(x.v, model.operand_bits) == x.v) {
      // The candidate's value is close to a number of the format and becomes that number, or one
      // beside it: below a power of two they are half as far apart. Another form may not cast it,
      // so half of the lanes keep their error.
      const auto error = [&](double own) { return nearest(own, model.operand_bits) - own; };
      c.error.alike = Half{0, 0, error(x.v + x.d[2]), error(x.v + x.d[3])};
      c.error.other = Half{0, 0, error(x.v + x.d[6]), error(x.v + x.d[7])};
      return;
    }
    // The two halves of a spacing are cast in opposite directions, which averages out where many
    // values are spread over both.
    const std::uint64_t half_spacing = std::uint64_t{1} << (52 - model.operand_bits);
    const auto drawn = [&](double value) {
      return draw_of((std::bit_cast<std::uint64_t>(std::fabs(value)) & ~(2 * half_spacing - 1)) ^
                     run);
    };
    const auto sign = [&](double value) {
      return std::bit_cast<std::uint64_t>(value) & half_spacing ? -1.0 : 1.0;
    };
    const double error = std::copysign(kUniform * half, x.v);
    // What a lane casts is its own value, errors included, once they are not far below the spacing.
    if (noise > half / 8) {
      const auto of_lane = [&](int i) {
        const double own = x.v + x.d[i];
        return sign(own) * drawn(own)[i];
      };
      c.error.alike = error * Half{of_lane(0), of_lane(1), of_lane(2), of_lane(3)};
    } else {
      c.error.alike = error * sign(x.v) * of<0>(drawn(x.v));
    }
    c.draws = true;
    c.drawn.other = Half{} + error;
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

  template <bool casts>
  [[gnu::always_inline]] void add(Noisy& acc, const Noisy& a, const Noisy& b, double sign,
                                  const Cast& cast_a, const Cast& cast_b) {
    const double product = a.v * b.v;
    if (count == 0) start = acc.v;
    acc.v += sign * product;
    add_to(acc, product_lanes<casts>(a, b, sign, cast_a, cast_b));
    const double term = std::fabs(product) + std::fabs(b.v * a.d[0] + (a.v + a.d[0]) * b.d[0]);
    if (term == 0) return;
    products += term * term;
    linear += acc.v;
    squares += acc.v * acc.v;
    count += 1;
  }
  template <bool casts>
  [[gnu::always_inline]] void finish(Noisy& acc, Source<casts>& source) const {
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

template <bool casts>
[[gnu::always_inline]] inline void dot_with(Noisy& acc, long n, const Noisy* x, long incx,
                                            const Noisy* y, long incy, double sign) {
  Source<casts> source;
  Sum sum;
  for (long i = 0; i < n; ++i) {
    const Noisy &a = x[i * incx], &b = y[i * incy];
    Cast cast_a, cast_b;
    source.cast(b, cast_b);
    source.cast(a, cast_a);
    sum.add<casts>(acc, a, b, sign, cast_a, cast_b);
  }
  sum.finish(acc, source);
}

template <bool casts>
[[gnu::always_inline]] inline void gemv_t_with(long rows, long cols, const Noisy* S, const Noisy* x,
                                               Noisy* out, double sign) {
  Source<casts> source;
  thread_local std::vector<Sum> sums;
  sums.assign(static_cast<std::size_t>(cols), Sum());
  for (long i = 0; i < rows; ++i) {
    Cast cast;
    source.cast(x[i], cast);
    for (long j = 0; j < cols; ++j) {
      const Noisy& s = S[i * cols + j];
      Cast own;
      source.cast(s, own);
      sums[j].add<casts>(out[j], s, x[i], sign, own, cast);
    }
  }
  for (long j = 0; j < cols; ++j) sums[j].finish(out[j], source);
}

template <bool casts>
[[gnu::always_inline]] inline void ger_with(long rows, long cols, const Noisy* x, const Noisy* y,
                                            Noisy* S, double sign) {
  Source<casts> source;
  thread_local std::vector<Cast> columns;
  if (casts) {
    columns.assign(static_cast<std::size_t>(cols), Cast());
    for (long j = 0; j < cols; ++j) source.castable(y[j], columns[j]);
  }
  for (long i = 0; i < rows; ++i) {
    Cast cast;
    source.cast(x[i], cast);
    for (long j = 0; j < cols; ++j) {
      Cast column;
      if (casts) column = columns[j];
      source.draw(column);
      source.multiply_add(S[i * cols + j], x[i], y[j], sign, cast, column);
    }
  }
}

bool model_casts() { return detail::tls_noise.model.operand > detail::tls_noise.model.accumulator; }

ASSAY_CLONES void dot(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy,
                      double sign, bool may_cast = true) {
  if (may_cast && model_casts()) return dot_with<true>(acc, n, x, incx, y, incy, sign);
  dot_with<false>(acc, n, x, incx, y, incy, sign);
}
ASSAY_CLONES void gemv_t(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out,
                         double sign) {
  if (model_casts()) return gemv_t_with<true>(rows, cols, S, x, out, sign);
  gemv_t_with<false>(rows, cols, S, x, out, sign);
}
ASSAY_CLONES void ger(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S, double sign) {
  if (model_casts()) return ger_with<true>(rows, cols, x, y, S, sign);
  ger_with<false>(rows, cols, x, y, S, sign);
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
