// Decimal text of high-precision values.
#pragma once

#include <mpfr.h>

#include <string>

namespace assay {

/// `digits` significant digits of x, rounded to nearest: "0", "-1.25…", or "1.25…e-9" when the
/// exponent is below -5 or above 20.
std::string decimal_text(mpfr_srcptr x, int digits);

}  // namespace assay
