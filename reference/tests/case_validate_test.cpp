// `validate`: what fits its schema passes, everything else is refused with the reason.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "reference/tests/case_fixtures.hpp"

using namespace assay;
using namespace assay::fixtures;

namespace {

struct Refusal {
  const char* what;
  std::function<void(Case&)> change;
  std::string message;
};

void check_table(const Case& valid, const Schema& schema, const std::vector<Refusal>& table) {
  REQUIRE(refusal([&] { validate(valid, schema); }) == "");
  for (const Refusal& r : table) {
    INFO(r.what);
    Case c = valid;
    r.change(c);
    const std::string message = refusal([&] { validate(c, schema); });
    CHECK(one_clear_line(message));
    CHECK(message == valid.source + ": " + r.message);
  }
}

CaseTensor with_value(CaseTensor t, std::size_t at, double value) {
  t.values[at] = value;
  return t;
}

}  // namespace

TEST_CASE("case/validate: sizes, head groups and options of a valid case", "[case]") {
  Case c = gated_case();
  c.options["scale"] = std::int64_t{2};
  c.metadata["whatever"] = "is fine";
  const ValidCase v = validate(c, gated());
  CHECK(v.sizes.by_letter ==
        std::map<char, std::int64_t>{{'B', 2}, {'T', 3}, {'H', 4}, {'K', 5}, {'V', 6}});
  CHECK(v.notes.empty());
  CHECK_FALSE(v.packed());
  CHECK(v.sequences() == 2);
  CHECK(v.output_shape(*v.schema.find_output("s_final")) == Shape{2, 4, 5, 6});
  CHECK(v.input_shape(*v.schema.find_input("q")) == Shape{2, 3, 4, 5});
  CHECK(given_name(v.data, *v.schema.find_input("alpha")) == "log_alpha");
  CHECK(given_name(v.data, *v.schema.find_input("mu")) == "");
  CHECK(option_real(v, "scale") == 2.0);
  CHECK_FALSE(option_bool(v, "l2norm"));
  CHECK(option_int(v, "chunk") == 64);
  CHECK(option_string(v, "update") == "gdn");
  CHECK_THROWS_AS(option_int(v, "scale"), std::invalid_argument);
  CHECK_THROWS_AS(option_int(v, "scael"), std::invalid_argument);
  CHECK_THROWS_AS(v.sizes['Z'], std::out_of_range);
  c.options.erase("scale");
  CHECK(option_real(validate(c, gated()), "scale") == std::nullopt);
}

TEST_CASE("case/validate: no steps, no cotangents, one head are legal", "[case]") {
  Case c = gated_case();
  c.tensors.erase("d_o");
  c.tensors["q"] = c.tensors["k"] = floats({2, 0, 1, 5}, 0);
  c.tensors["v"] = floats({2, 0, 1, 6}, 0);
  c.tensors["log_alpha"] = c.tensors["beta"] = floats({2, 0, 1}, 0);
  const ValidCase v = validate(c, gated());
  CHECK(v.sizes['T'] == 0);
  CHECK(v.sizes['H'] == 1);
}

TEST_CASE("case/validate: packed cases have one state per segment", "[case]") {
  const ValidCase v = validate(packed_case(), gated());
  CHECK(v.cu_seqlens == std::vector<std::int64_t>{0, 2, 2, 3});
  CHECK(v.sequences() == 3);
  CHECK(v.sizes['B'] == 1);
  CHECK(v.output_shape(*v.schema.find_output("o")) == Shape{1, 3, 4, 6});
  CHECK(v.output_shape(*v.schema.find_output("s_final")) == Shape{3, 4, 5, 6});
  CHECK(v.input_shape(*v.schema.find_input("s0")) == Shape{3, 4, 5, 6});
}

TEST_CASE("case/validate: names, dtypes and presence", "[case]") {
  const auto one = floats({1}, 1);
  check_table(
      gated_case(), gated(),
      {{"unknown", [&](Case& c) { c.tensors["alpah"] = one; },
        "tensor 'alpah': is no input or cotangent of gated; did you mean 'alpha'?"},
       {"hostile name", [&](Case& c) { c.tensors["\n\x1b[31mqqqqqqqqqqqqqqqq"] = one; },
        "tensor '\\n\\x1b[31mqqqqqqqqqqqqqqqq': is no input or cotangent of gated"},
       {"gradient", [&](Case& c) { c.tensors["d_q"] = one; },
        "tensor 'd_q': gradients are no inputs; cotangents are of outputs of gated"},
       {"output", [&](Case& c) { c.tensors["o"] = one; }, "tensor 'o': is an output of gated"},
       {"missing", [&](Case& c) { c.tensors.erase("v"); },
        "tensor 'v' is missing, gated requires it"},
       {"neither", [&](Case& c) { c.tensors.erase("log_alpha"); },
        "exactly one of alpha, log_alpha must be given, neither is"},
       {"both", [&](Case& c) { c.tensors["alpha"] = c.tensors["log_alpha"]; },
        "exactly one of alpha, log_alpha must be given, both are"},
       {"both of an optional gate",
        [&](Case& c) {
          c.tensors["mu"] = c.tensors["log_mu"] = floats({2, 3, 4}, 0);
        },
        "exactly one of mu, log_mu must be given, both are"},
       {"integers for floats", [&](Case& c) { c.tensors["q"].dtype = DType::I64; },
        "tensor 'q' [2,3,2,5]: dtype I64, must be one of F64 F32 F16 BF16"},
       {"offsets of floats", [&](Case& c) { c.tensors["cu_seqlens"] = floats({2}, 0); },
        "tensor 'cu_seqlens' [2]: dtype F32, must be I64 or I32"},
       {"fewer elements than its shape", [&](Case& c) { c.tensors["q"].values.pop_back(); },
        "tensor 'q' [2,3,2,5]: holds 59 elements, not what its shape says"}});
}

TEST_CASE("case/validate: shapes", "[case]") {
  check_table(
      gated_case(), gated(),
      {{"rank",
        [](Case& c) {
          c.tensors["k"] = floats({2, 3, 5}, 0);
        },
        "tensor 'k' [2,3,5]: has 3 axes, must have 4: [B,T,H,K]"},
       {"K",
        [](Case& c) {
          c.tensors["k"] = floats({2, 3, 2, 7}, 0);
        },
        "tensor 'k' [2,3,2,7]: axis K has length 7, but tensor 'q' [2,3,2,5] fixes K = 5"},
       {"T",
        [](Case& c) {
          c.tensors["beta"] = floats({2, 4, 4}, 0);
        },
        "tensor 'beta' [2,4,4]: axis T has length 4, but tensor 'q' [2,3,2,5] fixes T = 3"},
       {"no channels",
        [](Case& c) {
          c.tensors["q"] = floats({2, 3, 2, 0}, 0);
        },
        "tensor 'q' [2,3,2,0]: axis K has length 0, must be at least 1"},
       {"no batch",
        [](Case& c) {
          c.tensors["q"] = floats({0, 3, 2, 5}, 0);
        },
        "tensor 'q' [0,3,2,5]: axis B has length 0, must be at least 1"},
       {"heads",
        [](Case& c) {
          c.tensors["k"] = floats({2, 3, 3, 5}, 0);
        },
        "tensor 'k' [2,3,3,5]: axis H has length 3, must divide H = 4 fixed by tensor 'v' "
        "[2,3,4,6]"},
       {"heads of a parameter", [](Case& c) { c.tensors["skip"] = floats({3}, 0); },
        "tensor 'skip' [3]: axis H has length 3, must divide H = 4 fixed by tensor 'v' [2,3,4,6]"},
       {"heads of a state",
        [](Case& c) {
          c.tensors["s0"] = floats({2, 2, 5, 6}, 0);
        },
        "tensor 's0' [2,2,5,6]: axis H has length 2, a state must have H = 4 fixed by tensor 'v' "
        "[2,3,4,6]"},
       {"cotangent",
        [](Case& c) {
          c.tensors["d_o"] = floats({2, 3, 2, 6}, 0);
        },
        "tensor 'd_o' [2,3,2,6]: must have the shape of output 'o', [B,T,H,V] = [2,3,4,6]"},
       {"cotangent of a final state", [](Case& c) { c.tensors["d_s_final"] = floats({2}, 0); },
        "tensor 'd_s_final' [2]: must have the shape of output 's_final', [B,H,K,V] = [2,4,5,6]"}});
}

TEST_CASE("case/validate: a small file cannot ask for an enormous state", "[case]") {
  Case c = gated_case();
  c.tensors.erase("d_o");
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  c.tensors["q"] = c.tensors["k"] = floats({1, 0, 1, kHuge}, 0);
  c.tensors["v"] = floats({1, 0, 1, kHuge}, 0);
  c.tensors["log_alpha"] = c.tensors["beta"] = floats({1, 0, 1}, 0);
  const std::string message = refusal([&] { validate(c, gated()); });
  CHECK(message.find("more than 2^31 elements") != std::string::npos);
}

TEST_CASE("case/validate: packed sequences", "[case]") {
  const auto offsets = [](std::vector<std::int64_t> cu) {
    return [cu](Case& c) { c.tensors["cu_seqlens"] = integers(cu); };
  };
  check_table(
      packed_case(), gated(),
      {{"first", offsets({1, 2, 2, 3}),
        "tensor 'cu_seqlens' [4]: index [0], value 1: the first must be 0"},
       {"last", offsets({0, 2, 2, 4}),
        "tensor 'cu_seqlens' [4]: index [3], value 4: the last must be T = 3 fixed by tensor 'q' "
        "[1,3,2,5]"},
       {"order", offsets({0, 2, 1, 3}),
        "tensor 'cu_seqlens' [4]: index [2], value 1: less than 2 before it; must not decrease"},
       {"huge", offsets({0, INT64_MAX, INT64_MIN, 3}),
        "tensor 'cu_seqlens' [4]: index [2], value -9223372036854775808: less than "
        "9223372036854775807 before it; must not decrease"},
       {"no segment", offsets({0}),
        "tensor 'cu_seqlens' [1]: must have the shape [S+1] with S >= 1"},
       {"rank",
        [](Case& c) {
          c.tensors["cu_seqlens"].shape = {2, 2};
        },
        "tensor 'cu_seqlens' [2,2]: must have the shape [S+1] with S >= 1"},
       {"states", offsets({0, 3}),
        "tensor 's0' [3,4,5,6]: axis S has length 3, but tensor 'cu_seqlens' [2] fixes S = 1"}});
  Case batch = gated_case();
  batch.tensors["cu_seqlens"] = integers({0, 3});
  CHECK(refusal([&] { validate(batch, gated()); }) ==
        "g.safetensors: tensor 'cu_seqlens': packed sequences need B = 1, but tensor 'q' "
        "[2,3,2,5] fixes B = 2");
}

TEST_CASE("case/validate: derived, fixed and integer axes", "[case]") {
  const ValidCase v = validate(routed_case(), routed());
  CHECK(v.sizes['w'] == 3);
  CHECK(v.output_shape(*v.schema.find_output("loss")) == Shape{});
  Case short_taps = routed_case();
  short_taps.tensors["taps"] = floats({3, 1}, 1);
  short_taps.tensors["x0"] = floats({1, 0, 3}, 1);
  CHECK(validate(short_taps, routed()).sizes['w'] == 0);

  check_table(
      routed_case(), routed(),
      {{"fixed",
        [](Case& c) {
          c.tensors["w"] = floats({1, 4, 3}, 0);
        },
        "tensor 'w' [1,4,3]: axis G has length 4, but routed fixes G = 3"},
       {"derived",
        [](Case& c) {
          c.tensors["x0"] = floats({1, 4, 3}, 0);
        },
        "tensor 'x0' [1,4,3]: axis w has length 4, but tensor 'taps' [3,4] fixes W = 4 and so "
        "w = 3"},
       {"floats for integers",
        [](Case& c) {
          c.tensors["choice"] = floats({1, 2}, 0);
        },
        "tensor 'choice' [1,2]: dtype F32, must be I64 or I32"},
       {"cotangent of integers",
        [](Case& c) {
          c.tensors["d_order"] = floats({1, 2}, 0);
        },
        "tensor 'd_order' [1,2]: output 'order' is of integers and has no cotangent"},
       {"packed",
        [](Case& c) {
          c.tensors["cu_seqlens"] = integers({0, 2});
        },
        "tensor 'cu_seqlens': routed takes no packed sequences"},
       {"cotangent of a scalar", [](Case& c) { c.tensors["d_loss"] = floats({1}, 0); },
        "tensor 'd_loss' [1]: must have the shape of output 'loss', [] = []"}});
}

TEST_CASE("case/validate: numbers that are none", "[case]") {
  const auto set = [](const char* name, std::size_t at, double value) {
    return [=](Case& c) { c.tensors[name] = with_value(c.tensors[name], at, value); };
  };
  check_table(gated_case(), gated(),
              {{"NaN", set("q", 7, std::nan("")),
                "tensor 'q' [2,3,2,5]: index [0,0,1,2], value nan: must be finite"},
               {"inf", set("v", 0, kInf),
                "tensor 'v' [2,3,4,6]: index [0,0,0,0], value inf: must be finite"},
               {"-inf in a linear gate", set("beta", 1, -kInf),
                "tensor 'beta' [2,3,1]: index [0,1,0], value -inf: must be finite"},
               {"-inf in a cotangent", set("d_o", 0, -kInf),
                "tensor 'd_o' [2,3,4,6]: index [0,0,0,0], value -inf: must be finite"},
               {"inf in a log gate", set("log_alpha", 23, kInf),
                "tensor 'log_alpha' [2,3,4]: index [1,2,3], value inf: must be finite or -inf"},
               {"NaN in a log gate", set("log_alpha", 23, -std::nan("")),
                "tensor 'log_alpha' [2,3,4]: index [1,2,3], value nan: must be finite or -inf"}});
  Case c = gated_case();
  c.tensors["log_alpha"] = floats({2, 3, 4}, -kInf);
  CHECK(validate(c, gated()).notes.empty());
}

TEST_CASE("case/validate: values outside their domain are noted, not refused", "[case]") {
  Case c = gated_case();
  c.tensors["log_alpha"] = with_value(with_value(c.tensors["log_alpha"], 5, 0.25), 9, 1);
  c.tensors["beta"] = with_value(c.tensors["beta"], 2, -0.5);
  c.tensors["mu"] = with_value(floats({2, 3, 4}, 1), 0, -0.0);
  const ValidCase v = validate(c, gated());
  REQUIRE(v.notes.size() == 2);
  CHECK(domain_note_text(v.notes[0]) ==
        "tensor 'beta': 1 value outside [0, 2], the first at [0,2,0]: -0.5");
  CHECK(domain_note_text(v.notes[1]) ==
        "tensor 'log_alpha': 2 values outside [-inf, 0], the first at [0,1,1]: 0.25");

  Case r = routed_case();
  r.tensors["choice"].integers = {0, 4};
  REQUIRE(validate(r, routed()).notes.size() == 1);
  CHECK(validate(r, routed()).notes[0].first_index == "[0,1]");
}

TEST_CASE("case/validate: options", "[case]") {
  const auto set = [](const char* name, OptionValue value) {
    return [=](Case& c) { c.options[name] = value; };
  };
  check_table(
      gated_case(), gated(),
      {{"unknown", set("chunks", std::int64_t{4}),
        "option 'chunks': is no option of gated; did you mean 'chunk'?"},
       {"real for integer", set("chunk", 4.0), "option 'chunk' = 4: must be an integer"},
       {"string for real", set("scale", std::string("1")),
        "option 'scale' = '1': must be a real number"},
       {"boolean for real", set("scale", true), "option 'scale' = true: must be a real number"},
       {"integer for boolean", set("l2norm", std::int64_t{1}),
        "option 'l2norm' = 1: must be a boolean"},
       {"out of range", set("chunk", std::int64_t{0}), "option 'chunk' = 0: must be in [1, 65536]"},
       {"not finite", set("scale", std::nan("")), "option 'scale' = nan: must be finite"},
       {"no choice", set("update", std::string("dleta")),
        "option 'update' = 'dleta': must be one of gdn, delta; did you mean 'delta'?"}});
  Case other = gated_case();
  other.op = "mdn";
  CHECK_THROWS_AS(validate(other, gated()), std::invalid_argument);
}

TEST_CASE("case/schema: forms have names", "[case]") {
  for (Form form : {Form::recurrent, Form::chunk, Form::chunk_log}) {
    CHECK(parse_form(form_name(form)) == form);
  }
  CHECK(refusal([] { parse_form("chunky"); }) ==
        "form 'chunky' is none of recurrent, chunk, chunk_log");
}
