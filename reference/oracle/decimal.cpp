#include "reference/oracle/decimal.hpp"

namespace assay {

std::string decimal_text(mpfr_srcptr x, int digits) {
  if (mpfr_zero_p(x)) return "0";
  if (mpfr_nan_p(x)) return "nan";
  if (mpfr_inf_p(x)) return mpfr_sgn(x) < 0 ? "-inf" : "inf";
  mpfr_exp_t exponent = 0;
  char* raw = mpfr_get_str(nullptr, &exponent, 10, static_cast<std::size_t>(digits), x, MPFR_RNDN);
  std::string mantissa(raw);
  mpfr_free_str(raw);
  std::string sign;
  if (mantissa[0] == '-') {
    sign = "-";
    mantissa.erase(0, 1);
  }
  // value = 0.mantissa * 10^exponent
  const long scientific = static_cast<long>(exponent) - 1;
  constexpr long kSmallest = -5, kLargest = 20;
  if (scientific >= kSmallest && scientific < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent), '0') + mantissa;
  }
  if (scientific >= 0 && scientific <= kLargest &&
      scientific + 1 < static_cast<long>(mantissa.size())) {
    mantissa.insert(static_cast<std::size_t>(exponent), ".");
    return sign + mantissa;
  }
  std::string text = sign + mantissa.substr(0, 1);
  if (mantissa.size() > 1) text += "." + mantissa.substr(1);
  if (scientific == 0) return text;
  return text + "e" + std::to_string(scientific);
}

}  // namespace assay
