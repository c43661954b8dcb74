// The helpers of `case/`: text, tensors, options.
#include <catch2/catch.hpp>
#include <cmath>

#include "reference/case/options.hpp"
#include "reference/case/text.hpp"
#include "reference/tests/case_fixtures.hpp"

using namespace assay;
using namespace assay::fixtures;

TEST_CASE("case/text: messages hold nothing a terminal would obey", "[case]") {
  CHECK(printable("plain é") == "plain é");
  CHECK(printable("a\nb\tc\r\x1b[2J\x7f") == "a\\nb\\tc\\r\\x1b[2J\\x7f");
  CHECK(printable("\xff\xc0\xaf") == "\\xff\\xc0\\xaf");  // not UTF-8
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // surrogate
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // C1 control
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // right-to-left override
  CHECK(printable("\xe2\x80") == "\\xe2\\x80");           // cut off
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(printable(std::string(500, 'x'), 10) == "xxxxxxxxxx...");
  CHECK(quote_name("k") == "'k'");
  CHECK(is_utf8("é€\xf0\x9f\x98\x80"));
  CHECK_FALSE(is_utf8("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  CHECK_FALSE(is_utf8("\xf0\x80\x80\x80"));  // overlong
}

TEST_CASE("case/text: the nearest name is suggested, a far one is not", "[case]") {
  const std::vector<std::string> known = {"alpha", "log_alpha", "beta", "q"};
  CHECK(nearest_name("alpah", known) == "alpha");
  CHECK(nearest_name("logalpha", known) == "log_alpha");
  CHECK(nearest_name("zzzzzzz", known).empty());
  CHECK(nearest_name("", known).empty());
  CHECK(nearest_name(std::string(1000000, 'a'), known).empty());
  CHECK(did_you_mean("bta", known) == "; did you mean 'beta'?");
}

TEST_CASE("case/text: numbers read back as the same double", "[case]") {
  for (double x : {0.1, -0.0, 1e300, 5e-324, 0.1 + 0.2, 1.0}) {
    CHECK(parse_real(number_text(x)) == x);
    CHECK(std::signbit(*parse_real(number_text(x))) == std::signbit(x));
  }
  CHECK(number_text(-kInf) == "-inf");
  CHECK(parse_real("-inf") == -kInf);
  for (const char* bad : {"", " 1", "1 ", "nan", "1e", "0x10", "1e999", "--1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_real(bad));
  }
  CHECK(parse_integer("-7") == -7);
  for (const char* bad : {"", "1.0", "9223372036854775808", "+1", "1e3"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_integer(bad));
  }
}

TEST_CASE("case/tensor: counts, shapes and indices", "[case]") {
  CHECK(element_count({}) == 1);
  CHECK(element_count({2, 0, 3}) == 0);
  CHECK(element_count({2, 3, 4}) == 24);
  CHECK(shape_text({}) == "[]");
  CHECK(shape_text({2, 3}) == "[2,3]");
  CHECK(index_text({2, 3, 4}, 0) == "[0,0,0]");
  CHECK(index_text({2, 3, 4}, 23) == "[1,2,3]");
  CHECK(index_text({2, 3, 4}, 17) == "[1,1,1]");
  CHECK_FALSE(checked_element_count({std::int64_t{1} << 32, std::int64_t{1} << 31}));
  CHECK_FALSE(checked_element_count({std::int64_t{1} << 62, 2, 0}));
  CHECK_FALSE(checked_element_count({-1}));
  CHECK(checked_element_count({INT64_MAX}) == INT64_MAX);
  CHECK_THROWS_AS(element_count({-1}), std::length_error);
  CHECK_THROWS_AS(index_text({0}, 0), std::invalid_argument);
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I64, DType::I32}) {
    CHECK(parse_dtype(dtype_name(dtype)) == dtype);
  }
  CHECK_FALSE(parse_dtype("f32"));
  CHECK(dtype_size(DType::BF16) == 2);
}

TEST_CASE("case/options: JSON keeps the type of every option", "[case]") {
  const std::string text = R"({"b":true,"i":1,"r":1.0,"e":1e2,"s":"gdn","n":-9223372036854775808})";
  const Options options = parse_options(text, "x");
  CHECK(std::get<bool>(options.at("b")));
  CHECK(std::get<std::int64_t>(options.at("i")) == 1);
  CHECK(std::get<double>(options.at("r")) == 1.0);
  CHECK(std::get<double>(options.at("e")) == 100.0);
  CHECK(std::get<std::string>(options.at("s")) == "gdn");
  CHECK(std::get<std::int64_t>(options.at("n")) == INT64_MIN);
  CHECK(parse_options(options_text(options), "x") == options);
  CHECK(parse_options("{}", "x").empty());
  CHECK(options_text({{"r", 2.0}}) == "{\"r\":2.0}");
  CHECK_THROWS_AS(options_text({{"r", kInf}}), InputError);
  CHECK_THROWS_AS(options_text({{"s", std::string("\xff")}}), InputError);
}

TEST_CASE("case/options: key=value is read as the option's type", "[case]") {
  const Schema s = gated();
  CHECK(std::get<double>(option_from_text(*s.find_option("scale"), "0.125")) == 0.125);
  CHECK(std::get<std::int64_t>(option_from_text(*s.find_option("chunk"), "16")) == 16);
  CHECK(std::get<bool>(option_from_text(*s.find_option("l2norm"), "true")));
  CHECK(std::get<std::string>(option_from_text(*s.find_option("update"), "delta")) == "delta");
  const std::string message = refusal([&] { option_from_text(*s.find_option("chunk"), "1.5"); });
  CHECK(message ==
        "option 'chunk' = '1.5': must be an integer, written in digits: no exponent, no decimal "
        "point");
}
