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

namespace detail {
extern constinit thread_local Format tls_format __attribute__((tls_model("initial-exec")));
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
  // Two roundings: the product, then the sum.
  static void mul_add(Rounded& acc, Rounded a, Rounded b) { acc += a * b; }
  static void mul_sub(Rounded& acc, Rounded a, Rounded b) { acc -= a * b; }
};

}  // namespace assay
