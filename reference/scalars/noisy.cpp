#include "reference/scalars/noisy.hpp"

#include "reference/scalars/noise_bias.hpp"

namespace assay {
namespace detail {

constinit thread_local NoiseState tls_noise;
constinit thread_local double tls_noise_bias = 0;

}  // namespace detail

namespace la {
namespace {

// AVX2 without FMA: the same operations in the same order as the baseline, so the same bits.
#define ASSAY_CLONES __attribute__((target_clones("avx2", "default")))

/// Is x exactly a number of the operand format?
bool representable(double x, int bits) {
  int exponent;
  const double scaled = std::ldexp(std::frexp(x, &exponent), bits);
  return scaled == std::nearbyint(scaled);
}

// A bias is the same everywhere in a lane, so that it adds up as a real one does; over the lanes
// its mean is 0 and its mean square 1.
constexpr double kGains[Noisy::kLanes] = {1, -1, 1.25, -1.25, 0.75, -0.75, 0.935, -0.935};

/// The model and generator in registers while a kernel runs.
struct Source {
  NoiseModel model = detail::tls_noise.model;
  std::uint64_t random = detail::tls_noise.random;
  double bias = detail::tls_noise_bias;
  bool casts = model.operand > model.accumulator;
  ~Source() { detail::tls_noise.random = random; }

  [[gnu::always_inline]] void multiply_add(Noisy& acc, const Noisy& a, const Noisy& b, double sign,
                                           double cast_variance) {
    constexpr double kUniform = 0.57735026918962576;  // 1/√3
    const double product = a.v * b.v, u = model.accumulator;
    const double x = sign * b.v, y = sign * a.v;
    acc.v += sign * product;
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    const double* signs = detail::kNoiseSigns[(random * 0x2545f4914f6cdd1dULL) >> 40 & 255];
    const double variance = product * product * (cast_variance + u * u) + u * u * acc.v * acc.v;
    const double size = product == 0 ? 0 : kUniform * std::sqrt(variance) + model.tiny;
    const double shift = -bias * acc.v;
    for (int i = 0; i < Noisy::kLanes; ++i) {
      acc.d[i] += x * a.d[i] + y * b.d[i] + (size * signs[i] + shift * kGains[i]);
    }
  }
  /// Variance that casting one operand adds, relative to the product squared.
  double cast(const Noisy& x) const {
    return casts && !representable(x.v, model.operand_bits) ? model.operand * model.operand : 0;
  }
};

ASSAY_CLONES void dot(Noisy& acc, long n, const Noisy* x, long incx, const Noisy* y, long incy,
                      double sign) {
  Source source;
  for (long i = 0; i < n; ++i) {
    const Noisy &a = x[i * incx], &b = y[i * incy];
    source.multiply_add(acc, a, b, sign, source.cast(a) + source.cast(b));
  }
}

ASSAY_CLONES void gemv_t(long rows, long cols, const Noisy* S, const Noisy* x, Noisy* out,
                         double sign) {
  Source source;
  for (long i = 0; i < rows; ++i) {
    const double cast = source.cast(x[i]);
    for (long j = 0; j < cols; ++j) {
      const Noisy& s = S[i * cols + j];
      source.multiply_add(out[j], s, x[i], sign, cast + source.cast(s));
    }
  }
}

ASSAY_CLONES void ger(long rows, long cols, const Noisy* x, const Noisy* y, Noisy* S, double sign) {
  Source source;
  for (long i = 0; i < rows; ++i) {
    const double cast = source.cast(x[i]);
    for (long j = 0; j < cols; ++j) {
      source.multiply_add(S[i * cols + j], x[i], y[j], sign, cast + source.cast(y[j]));
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
