// The calling thread's working precision, for Mpfr and Ball.
#pragma once

namespace assay {

// Bits without a scope: what Boost allocates for 50 decimal digits, so that both engines agree.
inline constexpr long kDefaultPrecision = 168;

namespace detail {
// Initial-exec: one instruction to read, no call. Precision is read in every Ball operation.
extern constinit thread_local long tls_precision __attribute__((tls_model("initial-exec")));
}  // namespace detail

// Bits of the calling thread's innermost PrecisionScope.
inline long working_precision() { return detail::tls_precision; }

// Sets the working precision of the calling thread until the end of the block.
//
// Balls are rounded to exactly `bits` bits. Boost counts decimal digits, so an Mpfr made inside the
// scope has the smallest precision Boost offers that is >= bits (at most 5 bits more; also at least
// 53, so that every double is exact). An Mpfr keeps the precision it was made with until it is
// assigned to; kernels widen a narrower accumulator to the working precision before they add.
// Throws std::invalid_argument unless 53 <= bits <= 2^24.
class PrecisionScope {
 public:
  explicit PrecisionScope(long bits);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  long saved_bits_;
  unsigned saved_digits_;
};

}  // namespace assay
