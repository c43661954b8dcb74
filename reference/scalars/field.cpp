#include "reference/scalars/field.hpp"

#include <atomic>
#include <limits>

#include "reference/scalars/double.hpp"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::atomic<std::uint64_t> symbol_seed{0x243f6a8885a308d3};

enum class Symbol : std::uint64_t { exp = 1, log, log1p, sqrt, tanh, sigmoid, softplus };

// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection with full avalanche.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Field symbol(Symbol function, Field argument, double shadow) {
  std::uint64_t key = mix(symbol_seed.load(std::memory_order_relaxed)) ^
                      mix(static_cast<std::uint64_t>(function) << 56);
  std::uint64_t hash = mix(mix(key ^ argument.residue()) + key);
  Field result = Field::from_parts(hash, shadow);
  // A symbol stands for a number that is not zero (except at the fixed points), so dividing by one
  // must not fail, not even with probability 2^-61.
  return result.residue() == 0 ? Field::from_parts(1, shadow) : result;
}

bool is_minus_infinity(Field x) { return x.shadow() == -kInfinity; }

}  // namespace

void FieldSymbols::seed(std::uint64_t seed) { symbol_seed.store(seed, std::memory_order_relaxed); }
std::uint64_t FieldSymbols::seed() { return symbol_seed.load(std::memory_order_relaxed); }

// Fermat: x^(p-2), with p - 2 = 2^61 - 3 = binary 1...1 (59 ones) 01.
Field Field::inverse() const {
  if (residue_ == 0) {
    throw std::domain_error("assay::Field: division by residue 0 (shadow " +
                            std::to_string(shadow_) + "), which has no inverse modulo 2^61 - 1");
  }
  std::uint64_t power = 1;
  std::uint64_t base = residue_;
  for (std::uint64_t exponent = kPrime - 2; exponent != 0; exponent >>= 1) {
    if (exponent & 1) power = multiply(power, base);
    base = multiply(base, base);
  }
  return Field(power, 1 / shadow_);
}

Field Functions<Field>::exp(Field x) {
  if (is_minus_infinity(x)) return 0;
  if (x.residue() == 0) return Field::from_parts(1, std::exp(x.shadow()));
  return symbol(Symbol::exp, x, std::exp(x.shadow()));
}
Field Functions<Field>::log(Field x) {
  if (x.residue() == 0) return Field::from_parts(0, -kInfinity);
  if (x.residue() == 1) return Field::from_parts(0, std::log(x.shadow()));
  return symbol(Symbol::log, x, std::log(x.shadow()));
}
Field Functions<Field>::log1p(Field x) {
  if (is_zero(x)) return Field::from_parts(0, std::log1p(x.shadow()));
  return symbol(Symbol::log1p, x, std::log1p(x.shadow()));
}
Field Functions<Field>::sqrt(Field x) {
  if (x.residue() <= 1) return Field::from_parts(x.residue(), std::sqrt(x.shadow()));
  return symbol(Symbol::sqrt, x, std::sqrt(x.shadow()));
}
Field Functions<Field>::tanh(Field x) {
  if (is_minus_infinity(x)) return -1;
  if (is_zero(x)) return Field::from_parts(0, std::tanh(x.shadow()));
  return symbol(Symbol::tanh, x, std::tanh(x.shadow()));
}
Field Functions<Field>::sigmoid(Field x) {
  if (is_minus_infinity(x)) return 0;
  return symbol(Symbol::sigmoid, x, Functions<double>::sigmoid(x.shadow()));
}
Field Functions<Field>::softplus(Field x) {
  if (is_minus_infinity(x)) return 0;
  return symbol(Symbol::softplus, x, Functions<double>::softplus(x.shadow()));
}

Field Functions<Field>::from_double(double x) {
  if (std::isinf(x)) {
    if (x < 0) return Field::from_parts(0, x);
    throw std::domain_error(
        "assay::fn::from_double<Field>: +inf; of infinities only -inf is legal");
  }
  int exponent = 0;
  // |x| = m 2^(e - 53) with an integer m < 2^53 < p, and powers of two have period 61.
  double fraction = std::frexp(std::fabs(x), &exponent);
  auto m = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  int shift = ((exponent - 53) % 61 + 61) % 61;
  std::uint64_t power = std::uint64_t{1} << shift;
  Field product = Field::from_parts(m, 1) * Field::from_parts(power, 1);
  if (std::signbit(x)) product = -product;
  return Field::from_parts(product.residue(), x);
}

}  // namespace assay
