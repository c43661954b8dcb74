#include "checks/output/decimal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/multiprecision/gmp.hpp>
#include <cctype>
#include <charconv>
#include <cmath>

namespace assay {
namespace {

using Integer = boost::multiprecision::mpz_int;

/// mantissa * 10^exponent; the unit of the last digit is 10^exponent.
struct Decimal {
  Integer mantissa;
  long exponent = 0;
  bool exact_zero = false;
};

Decimal parse(const std::string& text) {
  const auto fail = [&] { return InputError("'" + text + "' is not a decimal"); };
  std::string digits;
  Decimal result;
  std::size_t i = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) ++i;
  bool point = false;
  for (; i < text.size() && (std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '.');
       ++i) {
    if (text[i] == '.') {
      if (point) throw fail();
      point = true;
      continue;
    }
    digits += text[i];
    if (point) --result.exponent;
  }
  if (digits.empty()) throw fail();
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') throw fail();
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    long exponent = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + i, end, exponent);
    if (error != std::errc() || stop != end) throw fail();
    result.exponent += exponent;
  }
  // GMP would read a leading zero as the mark of an octal number.
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  result.mantissa = Integer(digits);
  if (negative) result.mantissa = -result.mantissa;
  result.exact_zero = text == "0" || text == "-0";
  return result;
}

Integer power_of_ten(long exponent) {
  return boost::multiprecision::pow(Integer(10), static_cast<unsigned>(exponent));
}

// evaluate_certified prints 0 for values that are smaller than their tensor's largest by at least
// this factor, from where on depends on the digits asked for.
constexpr int kZeroBits = -256;

double largest_magnitude(const DecimalTensor& tensor) {
  double largest = 0;
  for (double value : tensor.nearest) largest = std::max(largest, std::abs(value));
  return largest;
}

bool both_negligible(const DecimalTensor& a, const DecimalTensor& b, std::size_t i,
                     double negligible) {
  if (a.values[i] != "0" && b.values[i] != "0") return false;
  return std::abs(a.nearest[i]) <= negligible && std::abs(b.nearest[i]) <= negligible;
}

std::optional<std::string> first_in(const std::map<std::string, DecimalTensor>& a,
                                    const std::map<std::string, DecimalTensor>& b) {
  for (const auto& [name, tensor] : b) {
    if (a.count(name) == 0) return fmt::format("{}: only one of the two has it", name);
  }
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return fmt::format("{}: only one of the two has it", name);
    if (tensor.shape != other->second.shape) {
      return fmt::format("{}: shapes {} and {}", name, shape_text(tensor.shape),
                         shape_text(other->second.shape));
    }
    const double negligible = std::ldexp(largest_magnitude(tensor), kZeroBits);
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      if (both_negligible(tensor, other->second, i, negligible)) continue;
      if (!decimals_agree(tensor.values[i], other->second.values[i])) {
        return fmt::format("{}{}: {} and {}", name,
                           index_text(tensor.shape, static_cast<std::int64_t>(i)), tensor.values[i],
                           other->second.values[i]);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

bool decimals_agree(const std::string& a, const std::string& b) {
  const Decimal x = parse(a), y = parse(b);
  if (x.exact_zero || y.exact_zero) {
    // |other| <= its own unit.
    const Decimal& other = x.exact_zero ? y : x;
    return abs(other.mantissa) <= (other.exact_zero ? 0 : 1);
  }
  const long exponent = std::min(x.exponent, y.exponent);
  const long shift_x = x.exponent - exponent, shift_y = y.exponent - exponent;
  // Far apart: the coarser one must be zero within its unit. It also keeps the powers small.
  constexpr long kFar = 1000000;
  if (shift_x > kFar) return abs(x.mantissa) <= 1;
  if (shift_y > kFar) return abs(y.mantissa) <= 1;
  const Integer unit_x = power_of_ten(shift_x), unit_y = power_of_ten(shift_y);
  return abs(x.mantissa * unit_x - y.mantissa * unit_y) <= unit_x + unit_y;
}

std::optional<std::string> first_disagreement(const Evaluation& a, const Evaluation& b) {
  if (auto found = first_in(a.outputs, b.outputs)) return found;
  return first_in(a.gradients, b.gradients);
}

}  // namespace assay
