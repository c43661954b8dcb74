// The log domain of the chunk coefficients: where it overflows and where it has no digits left.
#include "proofs/claims/claim.hpp"

ASSAY_CLAIMS(mdn_log_domain) {
  // α = 15/16, β = 1/16, μ = 1/4 throughout: c_i = β (q + ... + q^i), q = μ/α = 4/15
  const Pairs sums = {
      {"q", "4/15"}, {"c16", "1/16*q*(1 - q^16)/(1 - q)"}, {"c17", "1/16*q*(1 - q^17)/(1 - q)"}};
  list.claim(
          "mdn/log-domain-loses-digits", "[MDN v1, App. D]",
          "inside the model's gate range, 1 - exp(ℓ_{j-1} - ℓ_j) has no correct digit in fp32: at "
          "j = 17 both ℓ round to -15872042 / 2^22, the factor is 0 and γ_jj is 0 instead of β")
      .over("α = 15/16, β = 1 - α, μ = 1/4 (log μ = -1.39 > -2), every ℓ correctly rounded")
      .is_counterexample()
      .enclosure({}, sums, "log(c16)*4194304 + 15872042 > 0 - 1/2")
      .enclosure({}, sums, "1/2 > log(c16)*4194304 + 15872042")
      .enclosure({}, sums, "log(c17)*4194304 + 15872042 > 0 - 1/2")
      .enclosure({}, sums, "1/2 > log(c17)*4194304 + 15872042")
      // the true factor is not 0, and fp32 has spacing 2^-22 there: 2 < |ℓ| < 4
      .enclosure({}, sums, "1 - c16/c17 > 0")
      .enclosure({}, sums, "0 - 2 > log(c16)")
      .enclosure({}, sums, "log(c16) > 0 - 4")
      .enclosure({}, {}, "log(1/4) > 0 - 2")
      .sibling("ℓ_2 and ℓ_3 round to the same number as well")
      .enclosure({}, {{"q", "4/15"}, {"c2", "1/16*(q + q^2)"}, {"c3", "1/16*(q + q^2 + q^3)"}},
                 "1/2 > (log(c3) - log(c2))*4194304");

  list.claim("mdn/log-domain-corner", "[MDN v1, App. D]",
             "exponents of the log form stay below C |log μ|, so fp32 does not overflow for "
             "C |log μ| <= 88.72 and may from 88.73 on; with constant gates 1 - exp(ℓ_{j-1} - ℓ_j) "
             "is below one unit roundoff from j = 1 + 16.64 / log(α/μ) on")
      .over(
          "gates <= 1, β <= 1 - α (then b <= 1, see mdn/gamma-bounded); C = 64 and log μ >= "
          "-1.386 is inside, log μ = -1.387 is outside")
      .enclosure({}, {}, "(2^24 - 1)*2^60*2^44 > exp(88 + 72/100)")
      .enclosure({}, {}, "exp(88 + 73/100) > (2^24 - 1)*2^60*2^44")
      .enclosure({}, {}, "88 + 72/100 > 64*1386/1000")
      .enclosure({}, {}, "64*1387/1000 > 88 + 73/100")
      // q^{j-1} <= 2^-24 when (j - 1) log(1/q) >= 24 log 2 = 16.635...
      .enclosure({}, {}, "1664/100 > 24*log(2)")
      .enclosure({}, {}, "24*log(2) > 166/10")
      // c_j - c_{j-1} = β q P with P = q^{j-1}, and c_{j-1} >= β q: the ratio is at most 1 + P
      .forall({"b", "q", "P", "c"}, {{"P", "P >= 0"}, {"C", "c - b*q >= 0"}}, "P*c - b*q*P >= 0",
              "P*C")
      .sibling("fp32 holds exp(88.73)")
      .enclosure({}, {}, "(2^24 - 1)*2^60*2^44 > exp(88 + 73/100)");
}
