// Random cases: what a request says is what the case has, the same bytes every time.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "reference/case/generate.hpp"
#include "reference/case/random.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/tests/case_fixtures.hpp"

using namespace assay;
using namespace assay::fixtures;

namespace {

const SchemaProvider kGated = [](const Case*) { return gated(); };
const SchemaProvider kRouted = [](const Case*) { return routed(); };

/// Inputs that depend on the case, as those of mom do: `v_shared` and `k_shared` are listed as
/// optional without a case, and required as soon as one of them is there; the state then has a row
/// more.
Schema grouped(const Case* data) {
  const bool shared = data == nullptr || data->tensors.count("k_shared") != 0 ||
                      data->tensors.count("v_shared") != 0;
  Schema s;
  s.op = "grouped";
  s.inputs = {{"k", "BTMK", Role::token, "key", {}}};
  if (shared) {
    for (const char* name : {"k_shared", "v_shared"}) {
      s.inputs.push_back({name, "BTK", Role::token, "shared", {}, data == nullptr});
    }
  }
  s.inputs.push_back({"s0", "BRK", Role::state, "states", {}, true});
  s.outputs = {{"o", "BTK", "output"}};
  s.derived = {{'R', 'M', shared ? 1 : 0}};
  return s;
}

GenerateRequest request(const std::string& op, const std::string& shape = "") {
  GenerateRequest r;
  r.op = op;
  r.shape = shape;
  return r;
}

std::vector<double> gate(const std::string& preset, bool log, const std::string& name) {
  GenerateRequest r = request("gated", "T=2000,H=1,K=1,V=1");
  r.gates = {preset};
  r.log_gates = log;
  r.dtype = DType::F64;
  return generate(kGated, r).tensors.at(name).values;
}

double share(const std::vector<double>& values, double value) {
  return static_cast<double>(std::count(values.begin(), values.end(), value)) /
         static_cast<double>(values.size());
}

struct Bad {
  std::function<void(GenerateRequest&)> change;
  const char* says;
};

std::vector<Bad> bad_requests() {
  const auto shape = [](const char* text) { return [=](GenerateRequest& r) { r.shape = text; }; };
  const auto gates = [](std::vector<std::string> texts) {
    return [=](GenerateRequest& r) { r.gates = texts; };
  };
  const auto option = [](const char* text) {
    return [=](GenerateRequest& r) { r.options = {text}; };
  };
  return {
      {shape("Z=3"), "gated has no such axis, it has B, H, K, T, V"},
      {shape("T"), "must be axis=length"},
      {shape("T=-1"), "integer from 0"},
      {shape("T=1e3"), "integer from 0"},
      {shape("T=99999999999"), "integer from 0"},
      {shape("K=0"), "at least 1"},
      {shape("T=1,T=2"), "twice"},
      {shape("T=1,,K=2"), "must be axis=length"},
      {shape("=3"), "must be axis=length"},
      {shape("H=4,H.q=3"), "'H.q=3': must divide H = 4"},
      {shape("H.zz=1"), "input with a head axis"},
      {shape("H.q=0"), "at least 1 head"},
      {shape("S=3"), "follows from cu"},
      {shape("cu=0"), "at least two"},
      {shape("cu=1,3"), "the first must be 0"},
      {shape("cu=0,3,2"), "must not decrease"},
      {shape("T=4,cu=0,3"), "the last must be T = 4"},
      {shape("B=2,cu=0,3"), "B = 1"},
      {shape("B=2147483648,K=2147483648"), "2^31"},
      {gates({"lnog"}), "did you mean 'long'?"},
      {gates({"alhpa=0:1"}), "did you mean 'alpha'?"},
      {gates({"alpha=0:x"}), "must be numbers"},
      {gates({"alpha=1:0"}), "lo must not be above hi"},
      {gates({"alpha=0:1:2"}), "name=lo:hi"},
      {gates({"alpha="}), "name=lo:hi"},
      {gates({"alpha=nan"}), "must be numbers"},
      {gates({"log_alpha=-inf:0"}), "must be finite"},
      {gates({"alpha=0:1", "alpha=0:2"}), "twice"},
      {gates({"alpha=0:1", "log_alpha=-1:0"}), "exactly one of alpha, log_alpha"},
      {gates({"v=1e300"}), "must be finite"},  // overflows F32
      {option("chunk"), "name=value"},
      {option("chunk=x"), "must be an integer"},
      {option("chunk=0"), "in [1, 65536]"},
      {option("chnk=4"), "did you mean 'chunk'?"},
      {[](GenerateRequest& r) {
         r.options = {"chunk=4", "chunk=5"};
       },
       "twice"},
      {[](GenerateRequest& r) { r.dtype = DType::I64; }, "must be F64, F32, F16 or BF16"},
      {[](GenerateRequest& r) { r.without = {"v"}; }, "requires it"},
      {[](GenerateRequest& r) { r.without = {"zzzzzz"}; }, "is no input"},
  };
}

}  // namespace

TEST_CASE("case/random: the stream is SplitMix64", "[case]") {
  // Vigna's splitmix64.c with the state 1234567.
  Stream random(1234567u);
  for (const std::uint64_t expected :
       {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u}) {
    CHECK(random.bits() == expected);
  }
}

TEST_CASE("case/random: moments of the bell curve, range of the uniforms", "[case]") {
  Stream random(1, "moments");
  double sum = 0, squares = 0, low = 1, high = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    const double u = random.uniform();
    low = std::min(low, u);
    high = std::max(high, u);
  }
  // Five standard errors of the mean and of the variance (2/n for a nearly normal variable).
  CHECK(std::fabs(sum / kCount) < 5 / std::sqrt(kCount));
  CHECK(std::fabs(squares / kCount - 1) < 5 * std::sqrt(2.0 / kCount));
  CHECK(low >= 0);
  CHECK(low < 1e-3);
  CHECK(high < 1);
  CHECK(high > 1 - 1e-3);
}

TEST_CASE("case/generate: defaults give a small valid case with everything in it", "[case]") {
  const Case c = generate(kGated, request("gated"));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : c.tensors) names.push_back(name);
  CHECK(names == std::vector<std::string>{"alpha", "beta", "d_o", "d_s_final", "k", "mu", "q", "s0",
                                          "skip", "v"});
  CHECK(c.tensors.at("q").shape == Shape{1, 16, 2, 8});
  CHECK(c.seed == "0");
  CHECK(validate(c, gated()).notes.empty());
}

TEST_CASE("case/generate: shapes, head groups, packing, options, dtypes", "[case]") {
  GenerateRequest r = request("gated", "T=7,H=4,H.q=1,Hk=2,K=3,V=5,cu=0,0,3,7");
  r.dtype = DType::BF16;
  r.options = {"chunk=16", "scale=0.5", "update=delta"};
  r.seed = 42;
  const Case c = generate(kGated, r);
  CHECK(c.tensors.at("q").shape == Shape{1, 7, 1, 3});
  CHECK(c.tensors.at("k").shape == Shape{1, 7, 2, 3});
  CHECK(c.tensors.at("v").shape == Shape{1, 7, 4, 5});
  CHECK(c.tensors.at("s0").shape == Shape{3, 4, 3, 5});
  CHECK(c.tensors.at("d_s_final").shape == Shape{3, 4, 3, 5});
  CHECK(c.tensors.at("cu_seqlens").integers == std::vector<std::int64_t>{0, 0, 3, 7});
  CHECK(c.tensors.at("q").dtype == DType::BF16);
  CHECK(std::get<std::int64_t>(c.options.at("chunk")) == 16);
  CHECK(std::get<double>(c.options.at("scale")) == 0.5);
  CHECK(c.seed == "42");
  CHECK_NOTHROW(safetensors_bytes(file_from_case(c)));  // every value is a BF16

  const Case routed_one = generate(kRouted, request("routed", "H=4,W=1,T=0"));
  CHECK(routed_one.tensors.at("w").shape == Shape{4, 3, 8});
  CHECK(routed_one.tensors.at("x0").shape == Shape{1, 0, 8});
  CHECK(routed_one.tensors.count("d_order") == 0);
  CHECK(routed_one.tensors.at("d_loss").shape == Shape{});
}

TEST_CASE("case/generate: the same seed gives the same bytes, another seed others", "[case]") {
  const auto bytes = [](std::uint64_t seed) {
    GenerateRequest r = request("gated");
    r.seed = seed;
    r.gates = {"edge"};
    return safetensors_bytes(file_from_case(generate(kGated, r)));
  };
  CHECK(bytes(7) == bytes(7));
  CHECK(bytes(7) != bytes(8));
  // Leaving a tensor out does not change the others.
  GenerateRequest r = request("gated");
  const Case with = generate(kGated, r);
  r.without = {"mu"};
  const Case without = generate(kGated, r);
  CHECK(without.tensors.count("mu") == 0);
  CHECK(with.tensors.at("v").values == without.tensors.at("v").values);
}

TEST_CASE("case/generate: optional inputs, logarithms and cotangents are as asked", "[case]") {
  GenerateRequest r = request("gated");
  r.optional_inputs = false;
  r.cotangents = false;
  r.log_gates = true;
  r.gates = {"mu=0.25", "beta=1:1.5"};
  const Case c = generate(kGated, r);
  CHECK(c.tensors.count("s0") == 0);
  CHECK(c.tensors.count("d_o") == 0);
  CHECK(c.tensors.count("log_alpha") == 1);
  CHECK(share(c.tensors.at("mu").values, 0.25) == 1);  // a range asks for its tensor
  for (double x : c.tensors.at("beta").values) CHECK((x >= 1 && x <= 1.5));

  r.gates = {"log_mu=-inf", "alpha=0.9:1.1"};
  const Case d = generate(kGated, r);
  CHECK(share(d.tensors.at("log_mu").values, -kInf) == 1);
  CHECK(d.tensors.count("alpha") == 1);
}

TEST_CASE("case/generate: presets draw the gates they promise", "[case]") {
  for (const bool log : {false, true}) {
    const std::string name = log ? "log_alpha" : "alpha";
    CAPTURE(name);
    const auto bounds = [&](const std::string& preset) {
      const std::vector<double> v = gate(preset, log, name);
      return std::pair(*std::min_element(v.begin(), v.end()),
                       *std::max_element(v.begin(), v.end()));
    };
    CHECK(bounds("model").first > (log ? -1.01 : 0.49));
    CHECK(bounds("model").second < (log ? 0 : 1));
    CHECK(bounds("long").first > (log ? -0.01 : 0.99));
    CHECK(bounds("wide").first < (log ? -10 : 0.01));
    const std::vector<double> edge = gate("edge", log, name);
    CHECK(share(edge, log ? -kInf : 0) > 0.1);
    CHECK(share(edge, log ? 0 : 1) > 0.1);
    CHECK(share(gate("dead", log, name), log ? -kInf : 0) > 0.65);
  }
  CHECK(share(gate("dead", true, "beta"), 0) == 0);  // the writes of dead memories live
  CHECK(share(gate("edge", true, "beta"), 2) > 0.1);
}

TEST_CASE("case/generate: keys have about unit length", "[case]") {
  const Case c = generate(kGated, request("gated", "K=64,T=64"));
  double squares = 0;
  for (double x : c.tensors.at("k").values) squares += x * x;
  const double rows = 64 * 2;
  CHECK(squares / rows == Approx(1).margin(0.1));
}

TEST_CASE("case/generate: inputs that appear with others are made too", "[case]") {
  GenerateRequest r = request("grouped", "M=3");
  const Case c = generate(grouped, r);
  CHECK(c.tensors.count("k_shared") == 1);
  CHECK(c.tensors.count("v_shared") == 1);
  CHECK(c.tensors.at("s0").shape == Shape{1, 4, 8});
  r.without = {"k_shared"};
  const Case d = generate(grouped, r);
  CHECK(d.tensors.count("v_shared") == 0);
  CHECK(d.tensors.at("s0").shape == Shape{1, 3, 8});
}

TEST_CASE("case/generate: bad requests are refused", "[case]") {
  for (const Bad& bad : bad_requests()) {
    GenerateRequest r = request("gated");
    bad.change(r);
    const std::string message = refusal([&] { generate(kGated, r); });
    CAPTURE(bad.says, message);
    CHECK(one_clear_line(message));
    CHECK(message.find(bad.says) != std::string::npos);
  }
  CHECK(refusal([] { generate(kRouted, request("routed", "w=3")); }).find("w follows from W") !=
        std::string::npos);
  CHECK(refusal([] { generate(kRouted, request("routed", "G=4")); }).find("not free") !=
        std::string::npos);
  CHECK(refusal([] { generate(kRouted, request("routed", "cu=0,3")); }).find("no packed") !=
        std::string::npos);
}
