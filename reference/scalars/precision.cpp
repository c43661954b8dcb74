#include "reference/scalars/precision.hpp"

#include <flint/flint.h>

#include <stdexcept>
#include <string>

#include "reference/scalars/mpfr.hpp"

namespace assay {

constinit thread_local long detail::tls_precision = kDefaultPrecision;

namespace {

constexpr long kMinPrecision = 53;
constexpr long kMaxPrecision = 1L << 24;

// Smallest number of decimal digits for which Boost allocates at least `bits` bits.
unsigned digits_for(long bits) {
  auto digits = static_cast<unsigned>(bits * 301 / 1000);
  if (digits > 1) --digits;
  while (boost::multiprecision::detail::digits10_2_2(digits) < static_cast<unsigned long>(bits)) {
    ++digits;
  }
  return digits;
}

// FLINT keeps per-thread caches (constants, small integers) that a finished thread must give back.
struct FlintThreadCaches {
  ~FlintThreadCaches() { flint_cleanup(); }
};

}  // namespace

bool detail::install_default_precision() {
  unsigned digits = digits_for(kDefaultPrecision);
  Mpfr::default_precision(digits);         // of threads yet to start
  Mpfr::thread_default_precision(digits);  // of this one
  return true;
}

PrecisionScope::PrecisionScope(long bits)
    : saved_bits_(detail::tls_precision), saved_digits_(Mpfr::thread_default_precision()) {
  if (!(bits >= kMinPrecision && bits <= kMaxPrecision)) {
    throw std::invalid_argument("assay::PrecisionScope: " + std::to_string(bits) +
                                " bits; the working precision must be between " +
                                std::to_string(kMinPrecision) + " and " +
                                std::to_string(kMaxPrecision) + " bits");
  }
  static thread_local FlintThreadCaches caches;
  (void)caches;
  detail::tls_precision = bits;
  Mpfr::thread_default_precision(digits_for(bits));
}

PrecisionScope::~PrecisionScope() {
  detail::tls_precision = saved_bits_;
  Mpfr::thread_default_precision(saved_digits_);
}

}  // namespace assay
