// Formats against a definition by enumeration (every finite value of a format, in order), and
// arithmetic against MPFR with the format's own precision and exponent range.
#include <mpfr.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "reference/scalars/rounded.hpp"

using namespace assay;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Definition {
  Format format;
  int exponent_bits;
  int mantissa_bits;
};

const Definition kBf16{Format::bf16, 8, 7};
const Definition kFp16{Format::fp16, 5, 10};
const Definition kTf32{Format::tf32, 8, 10};
const Definition kFp32{Format::fp32, 8, 23};

// Value of the pattern with fields e and m, straight from IEEE 754.
double value_of(const Definition& f, unsigned pattern) {
  int e = static_cast<int>(pattern >> f.mantissa_bits);
  double m = pattern & ((1U << f.mantissa_bits) - 1);
  int bias = (1 << (f.exponent_bits - 1)) - 1;
  double hidden = e == 0 ? 0 : std::ldexp(1.0, f.mantissa_bits);
  return std::ldexp(m + hidden, (e == 0 ? 1 : e) - bias - f.mantissa_bits);
}

// Number of non-negative finite patterns; the pattern of that number is infinity.
unsigned finite_patterns(const Definition& f) {
  return ((1U << f.exponent_bits) - 1) << f.mantissa_bits;
}

template <class Round>
void check_neighbours(const Definition& f, Round round) {
  long wrong = 0;
  double previous = 0;
  for (unsigned p = 1; p <= finite_patterns(f); ++p) {
    // The pattern beyond the largest counts as the next power of two where ties are concerned.
    bool last = p == finite_patterns(f);
    double next = last ? 2 * value_of(f, p - (1U << f.mantissa_bits)) : value_of(f, p);
    double result = last ? kInfinity : next;
    double tie = previous + (next - previous) / 2;
    double even = (p % 2 == 0) ? result : previous;
    for (double sign : {1.0, -1.0}) {
      wrong += !(round(sign * previous) == sign * previous);
      wrong += !(round(sign * tie) == sign * even);
      wrong += !(round(sign * std::nextafter(tie, 0.0)) == sign * previous);
      wrong += !(round(sign * std::nextafter(tie, kInfinity)) == sign * result);
    }
    previous = next;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("scalars/bf16: every value, tie and neighbour of a tie rounds as enumerated",
          "[scalars][bf16]") {
  check_neighbours(kBf16, [](double x) { return round_to(Format::bf16, x); });
  check_neighbours(kBf16,
                   [](double x) -> double { return bf16_bits_to_float(double_to_bf16_bits(x)); });
}

TEST_CASE("scalars/fp16: every value, tie and neighbour of a tie rounds as enumerated",
          "[scalars][fp16]") {
  check_neighbours(kFp16, [](double x) { return round_to(Format::fp16, x); });
  check_neighbours(kFp16,
                   [](double x) -> double { return fp16_bits_to_float(double_to_fp16_bits(x)); });
}

TEST_CASE("scalars/tf32: every value, tie and neighbour of a tie rounds as enumerated",
          "[scalars][tf32]") {
  check_neighbours(kTf32, [](double x) { return round_to(Format::tf32, x); });
}

TEST_CASE("scalars/formats: conversion from float agrees with the one from double",
          "[scalars][bf16][fp16]") {
  std::mt19937_64 generator(7);
  long wrong = 0;
  for (int n = 0; n < 300000; ++n) {
    auto x = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    wrong += float_to_bf16_bits(x) != double_to_bf16_bits(x) && !std::isnan(x);
    wrong += float_to_fp16_bits(x) != double_to_fp16_bits(x) && !std::isnan(x);
  }
  CHECK(wrong == 0);
}

TEST_CASE("scalars/formats: all 65536 patterns survive the way to float and back",
          "[scalars][bf16][fp16]") {
  long wrong = 0;
  for (unsigned p = 0; p < 65536; ++p) {
    auto bits = static_cast<std::uint16_t>(p);
    float b = bf16_bits_to_float(bits);
    float h = fp16_bits_to_float(bits);
    wrong += float_to_bf16_bits(b) != bits;
    wrong += float_to_fp16_bits(h) != bits;
    bool negative = p & 0x8000;
    unsigned magnitude = p & 0x7fff;
    for (const Definition& f : {kBf16, kFp16}) {
      double x = f.format == Format::bf16 ? b : h;
      wrong += std::signbit(x) != negative;
      if (magnitude < finite_patterns(f)) {
        wrong += std::fabs(x) != value_of(f, magnitude);
      } else {
        wrong += magnitude == finite_patterns(f) ? !std::isinf(x) : !std::isnan(x);
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("scalars/formats: NaN stays NaN, whatever its payload", "[scalars][bf16][fp16]") {
  for (std::uint32_t pattern : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fbfffffU, 0xffffffffU}) {
    auto x = std::bit_cast<float>(pattern);
    CHECK(std::isnan(bf16_bits_to_float(float_to_bf16_bits(x))));
    CHECK(std::isnan(fp16_bits_to_float(float_to_fp16_bits(x))));
    CHECK(std::isnan(bf16_bits_to_float(double_to_bf16_bits(x))));
    CHECK((float_to_bf16_bits(x) >> 15) == (pattern >> 31));
  }
  for (Format format : {Format::fp32, Format::tf32, Format::fp16, Format::bf16}) {
    CHECK(std::isnan(round_to(format, std::nan(""))));
    CHECK(std::signbit(round_to(format, -0.0)));
    CHECK(std::signbit(round_to(format, -1e-300)));
    CHECK(round_to(format, 1e300) == kInfinity);
    FormatScope scope(format);
    CHECK_THROWS_AS(fn::from_double<Rounded>(std::nan("")), std::invalid_argument);
  }
}

TEST_CASE("scalars/formats: published constants", "[scalars][bf16][fp16]") {
  CHECK(unit_roundoff(Format::bf16) == 0x1p-8);
  CHECK(unit_roundoff(Format::fp16) == 0x1p-11);
  CHECK(unit_roundoff(Format::tf32) == 0x1p-11);
  CHECK(unit_roundoff(Format::fp32) == 0x1p-24);
  CHECK(fp16_bits_to_float(0x7bff) == 65504.0F);
  CHECK(double_to_fp16_bits(65519.99) == 0x7bff);
  CHECK(double_to_fp16_bits(65520) == 0x7c00);
  CHECK(float_to_bf16_bits(1.00390625F) == 0x3f80);  // 1 + 2^-8, a tie
  CHECK(float_to_bf16_bits(1.01171875F) == 0x3f82);  // 1 + 3 2^-8, a tie
}

namespace {

// a op b rounded once into the format by MPFR. Exponents of MPFR count from mantissas in [1/2, 1).
double rounded_once(const Definition& f, char op, double a, double b) {
  int bias = (1 << (f.exponent_bits - 1)) - 1;
  mpfr_exp_t saved_min = mpfr_get_emin();
  mpfr_exp_t saved_max = mpfr_get_emax();
  mpfr_t x, y, z;
  mpfr_init2(x, 53);
  mpfr_init2(y, 53);
  mpfr_init2(z, f.mantissa_bits + 1);
  mpfr_set_d(x, a, MPFR_RNDN);
  mpfr_set_d(y, b, MPFR_RNDN);
  mpfr_set_emin(1 - bias - f.mantissa_bits + 1);
  mpfr_set_emax(bias + 1);
  int ternary = 0;
  switch (op) {
    case '+':
      ternary = mpfr_add(z, x, y, MPFR_RNDN);
      break;
    case '-':
      ternary = mpfr_sub(z, x, y, MPFR_RNDN);
      break;
    case '*':
      ternary = mpfr_mul(z, x, y, MPFR_RNDN);
      break;
    case '/':
      ternary = mpfr_div(z, x, y, MPFR_RNDN);
      break;
    default:
      ternary = mpfr_sqrt(z, x, MPFR_RNDN);
      break;
  }
  ternary = mpfr_check_range(z, ternary, MPFR_RNDN);
  mpfr_subnormalize(z, ternary, MPFR_RNDN);
  double result = mpfr_get_d(z, MPFR_RNDN);
  mpfr_set_emin(saved_min);
  mpfr_set_emax(saved_max);
  mpfr_clears(x, y, z, static_cast<mpfr_ptr>(nullptr));
  return result;
}

double random_value(const Definition& f, std::mt19937_64& generator) {
  std::uniform_int_distribution<unsigned> pattern(0, finite_patterns(f) - 1);
  double x = value_of(f, pattern(generator));
  return generator() & 1 ? -x : x;
}

bool same(double a, double b) { return (std::isnan(a) && std::isnan(b)) || a == b; }

}  // namespace

TEST_CASE("scalars/rounded: + - * / sqrt are the exact results rounded once",
          "[scalars][rounded]") {
  std::mt19937_64 generator(11);
  for (const Definition& f : {kBf16, kFp16, kTf32, kFp32}) {
    FormatScope scope(f.format);
    long wrong = 0;
    for (int n = 0; n < 20000; ++n) {
      double a = random_value(f, generator);
      double b = random_value(f, generator);
      if (n % 2)
        b = round_to(f.format, std::ldexp(a, static_cast<int>(generator() % 40) - 20) *
                                   (1 + 0x1p-6 * static_cast<double>(generator() % 64)));
      if (!std::isfinite(b)) continue;
      Rounded x = Rounded::from(a);
      Rounded y = Rounded::from(b);
      wrong += !same((x + y).value(), rounded_once(f, '+', a, b));
      wrong += !same((x - y).value(), rounded_once(f, '-', a, b));
      wrong += !same((x * y).value(), rounded_once(f, '*', a, b));
      wrong += !same((x / y).value(), rounded_once(f, '/', a, b));
      wrong += !same(fn::sqrt(x).value(), rounded_once(f, 's', a, 0));
      // Quotients near the subnormal range, where rounding twice would show first.
      double small = std::ldexp(a, -100);
      wrong += !same((Rounded::from(small) / y).value(),
                     rounded_once(f, '/', round_to(f.format, small), b));
    }
    INFO("precision " << f.mantissa_bits + 1);
    CHECK(wrong == 0);
  }
}

TEST_CASE("scalars/rounded: the format belongs to the thread and is restored",
          "[scalars][rounded]") {
  FormatScope outer(Format::bf16);
  {
    FormatScope inner(Format::fp16);
    CHECK((Rounded(1) / 3).value() == round_to(Format::fp16, 1.0 / 3));
    Format seen = Format::bf16;
    std::thread([&] { seen = working_format(); }).join();
    CHECK(seen == Format::fp32);
  }
  CHECK((Rounded(1) / 3).value() == round_to(Format::bf16, 1.0 / 3));
  CHECK(Rounded(257).value() == 256);
}
