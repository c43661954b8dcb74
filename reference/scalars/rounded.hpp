// Rounded: emulation of fp32, tf32, fp16 and bf16 arithmetic, and the conversions between doubles
// and the bit patterns of these formats.
//
// The value is held as a double and rounded to nearest, ties to even, into the calling thread's
// format after every operation. For + - * / and sqrt this is the correctly rounded result of the
// format, subnormals included: a double has at least 2 p + 2 digits for every p here (p <= 24), and
// then rounding twice equals rounding once (Figueroa 1995). Elementary functions are the C
// library's doubles rounded once: wrong by at most one ulp of the format, and that only where the
// true value lies within about 2^-52 of a tie.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "reference/scalars/functions.hpp"
#include "reference/scalars/linalg.hpp"

namespace assay {

// Precision (with the hidden bit), exponent range: fp32 24, [-126, 127]; tf32 11, as fp32;
// fp16 11, [-14, 15]; bf16 8, as fp32.
enum class Format { fp32, tf32, fp16, bf16 };

// Nearest value of the format, ties to even; overflow gives infinity, NaN stays NaN, the sign of
// zero is kept.
double round_to(Format format, double x);

// Half the distance from 1 to the next larger value: 2^-24, 2^-11, 2^-11, 2^-8.
double unit_roundoff(Format format);

// Bit patterns. Conversion to 16 bits rounds to nearest even; a NaN keeps its sign and the leading
// payload bits (and stays a NaN), so every pattern survives the way to float and back.
std::uint16_t float_to_bf16_bits(float x);
float bf16_bits_to_float(std::uint16_t bits);
std::uint16_t float_to_fp16_bits(float x);
float fp16_bits_to_float(std::uint16_t bits);
// From double directly: one rounding, not two.
std::uint16_t double_to_bf16_bits(double x);
std::uint16_t double_to_fp16_bits(double x);

// As round_to, but towards zero; overflow gives the largest value of the format.
double truncate_to(Format format, double x);

// How matrix products (la:: functions whose loops sum products) differ from plain arithmetic in the
// working format. Every combination is a correct way to compute in the formats that it names.
enum class SumOrder { forward, reversed, pairwise };
struct Emulation {
  bool casts = false;  // operands of matrix products are rounded to `operand` first
  Format operand = Format::fp32;
  SumOrder order = SumOrder::forward;
  bool fma = false;        // a product is not rounded before it is added
  bool truncates = false;  // sums of matrix products are rounded towards zero
};

namespace detail {
extern constinit thread_local Format tls_format __attribute__((tls_model("initial-exec")));
extern constinit thread_local Emulation tls_emulation __attribute__((tls_model("initial-exec")));
}  // namespace detail

// Format of the calling thread's innermost FormatScope; fp32 without one.
inline Format working_format() { return detail::tls_format; }

class FormatScope {
 public:
  explicit FormatScope(Format format) : saved_(detail::tls_format) { detail::tls_format = format; }
  ~FormatScope() { detail::tls_format = saved_; }
  FormatScope(const FormatScope&) = delete;
  FormatScope& operator=(const FormatScope&) = delete;

 private:
  Format saved_;
};

// Emulation of the calling thread's innermost EmulationScope; plain without one.
inline const Emulation& working_emulation() { return detail::tls_emulation; }

class EmulationScope {
 public:
  explicit EmulationScope(const Emulation& emulation) : saved_(detail::tls_emulation) {
    detail::tls_emulation = emulation;
  }
  ~EmulationScope() { detail::tls_emulation = saved_; }
  EmulationScope(const EmulationScope&) = delete;
  EmulationScope& operator=(const EmulationScope&) = delete;

 private:
  Emulation saved_;
};

class Rounded {
 public:
  Rounded() = default;
  template <std::integral Integer>
  Rounded(Integer n)  // NOLINT: implicit by contract
      : value_(round_to(working_format(), static_cast<double>(n))) {}

  // Casts to the thread's format.
  static Rounded from(double x) {
    Rounded result;
    result.value_ = round_to(working_format(), x);
    return result;
  }
  static Rounded truncated(double x) {
    Rounded result;
    result.value_ = truncate_to(working_format(), x);
    return result;
  }
  double value() const { return value_; }

  friend Rounded operator+(Rounded a, Rounded b) { return from(a.value_ + b.value_); }
  friend Rounded operator-(Rounded a, Rounded b) { return from(a.value_ - b.value_); }
  friend Rounded operator*(Rounded a, Rounded b) { return from(a.value_ * b.value_); }
  friend Rounded operator/(Rounded a, Rounded b) { return from(a.value_ / b.value_); }
  Rounded operator-() const {
    Rounded result;
    result.value_ = -value_;
    return result;
  }
  Rounded& operator+=(Rounded o) { return *this = *this + o; }
  Rounded& operator-=(Rounded o) { return *this = *this - o; }
  Rounded& operator*=(Rounded o) { return *this = *this * o; }
  Rounded& operator/=(Rounded o) { return *this = *this / o; }

 private:
  double value_ = 0;
};

template <>
struct Functions<Rounded> {
  static constexpr const char* kName = "Rounded";

  static Rounded exp(Rounded x);
  static Rounded log(Rounded x);
  static Rounded log1p(Rounded x);
  static Rounded sqrt(Rounded x);
  static Rounded tanh(Rounded x);
  static Rounded sigmoid(Rounded x);
  static Rounded softplus(Rounded x);
  static bool less(Rounded a, Rounded b) { return a.value() < b.value(); }
  static bool is_zero(Rounded x) { return x.value() == 0; }
  static Rounded max(Rounded a, Rounded b) {
    return a.value() > b.value() || std::isnan(a.value()) ? a : b;
  }
  static Rounded clamp(Rounded x, Rounded lo, Rounded hi) {
    return less(x, lo) ? lo : less(hi, x) ? hi : x;
  }
  static Rounded heaviside(Rounded x) { return x.value() > 0 ? 1 : 0; }
  static Rounded from_double(double x) { return Rounded::from(x); }
  static double to_double(Rounded x) { return x.value(); }
  static bool is_finite(Rounded x) { return std::isfinite(x.value()); }
  // Two roundings, the product and the sum; one with Emulation::fma. (The product of two values of
  // 24 digits is exact in double; rounding its sum twice, to double and to the format, can differ
  // from a true FMA only within 2^-53 of a tie.)
  static void mul_add(Rounded& acc, Rounded a, Rounded b) {
    acc =
        working_emulation().fma ? Rounded::from(acc.value() + a.value() * b.value()) : acc + a * b;
  }
  static void mul_sub(Rounded& acc, Rounded a, Rounded b) {
    acc =
        working_emulation().fma ? Rounded::from(acc.value() - a.value() * b.value()) : acc - a * b;
  }
};

namespace la {

// Matrix products under the thread's Emulation; without one exactly the generic loops. Element-wise
// work (axpy, scale) stays in the working format.
template <>
struct Kernels<Rounded> : GenericKernels<Rounded, Kernels<Rounded>> {
  static void reduce_add(Rounded& acc, long n, const Rounded* x, const Rounded* y);
  static void dot_add(Rounded& acc, long n, const Rounded* x, long incx, const Rounded* y,
                      long incy);
  static void dot_sub(Rounded& acc, long n, const Rounded* x, long incx, const Rounded* y,
                      long incy);
  static void gemv_t_add(long rows, long cols, const Rounded* S, const Rounded* x, Rounded* out);
  static void gemv_t_sub(long rows, long cols, const Rounded* S, const Rounded* x, Rounded* out);
  static void ger_add(long rows, long cols, const Rounded* x, const Rounded* y, Rounded* S);
  static void ger_sub(long rows, long cols, const Rounded* x, const Rounded* y, Rounded* S);
  static void scale_ger_add(long rows, long cols, const Rounded& a, const Rounded* x,
                            const Rounded* y, Rounded* S);
};

}  // namespace la

}  // namespace assay
