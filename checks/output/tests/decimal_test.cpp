#include "checks/output/decimal.hpp"

#include <catch2/catch.hpp>

namespace {

using assay::decimals_agree;

TEST_CASE("decimal: within one unit of the last digit each", "[decimal]") {
  CHECK(decimals_agree("1.25", "1.25"));
  CHECK(decimals_agree("1.25", "1.27"));
  CHECK_FALSE(decimals_agree("1.25", "1.28"));
  CHECK(decimals_agree("1.24999999", "1.25"));
  CHECK_FALSE(decimals_agree("1.2399", "1.25001"));
  CHECK(decimals_agree("-3.0e-2", "-0.031"));
  CHECK_FALSE(decimals_agree("-3.0e-2", "0.030"));
  CHECK(decimals_agree("9.99e9", "1.000E+10"));
}

TEST_CASE("decimal: exponents far apart cost nothing and disagree", "[decimal]") {
  CHECK_FALSE(decimals_agree("1.5e-900000000", "1.5e900000000"));
  CHECK_FALSE(decimals_agree("15e900000000", "1.5e-900000000"));
  CHECK(decimals_agree("0.0", "1.5e-900000000"));
}

TEST_CASE("decimal: the text 0 is exact", "[decimal]") {
  CHECK(decimals_agree("0", "0"));
  CHECK(decimals_agree("0", "-0"));
  CHECK(decimals_agree("0", "1e-60"));
  CHECK_FALSE(decimals_agree("0", "1.5e-60"));
}

TEST_CASE("decimal: leading zeros are decimal, not octal", "[decimal]") {
  CHECK(decimals_agree("0010", "10"));
  CHECK(decimals_agree("0.0010", "1.0e-3"));
}

TEST_CASE("decimal: what is no decimal is refused", "[decimal]") {
  for (const char* text : {"", "-", "nan", "inf", "1.2.3", "1e", "1e5x", "0x10", "1,5", " 1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(decimals_agree(text, "1"), assay::InputError);
  }
}

TEST_CASE("decimal: the first disagreement is named", "[decimal]") {
  assay::Evaluation a;
  a.outputs["o"] = {{2, 2}, {"1.0", "2.0", "3.0", "4.0"}, {1, 2, 3, 4}};
  a.gradients["d_q"] = {{1}, {"5.0"}, {5}};
  assay::Evaluation b = a;
  CHECK_FALSE(assay::first_disagreement(a, b));
  b.outputs["o"].values[2] = "3.3";
  REQUIRE(assay::first_disagreement(a, b));
  CHECK(*assay::first_disagreement(a, b) == "o[1,0]: 3.0 and 3.3");
  b = a;
  b.outputs["o"].values[0] = "1.5e-90";
  b.outputs["o"].nearest[0] = 1.5e-90;
  a.outputs["o"].values[0] = "0";
  a.outputs["o"].nearest[0] = 0;
  CHECK_FALSE(assay::first_disagreement(a, b));  // negligible beside the 4.0 of the same tensor
  b.outputs["o"].values[0] = "1.5e-20";
  b.outputs["o"].nearest[0] = 1.5e-20;
  CHECK(assay::first_disagreement(a, b));
  b = a;
  b.gradients.clear();
  CHECK(assay::first_disagreement(a, b));
  CHECK(assay::first_disagreement(b, a));
  b = a;
  b.gradients["d_q"].shape = {1, 1};
  CHECK(assay::first_disagreement(a, b));
}

}  // namespace
