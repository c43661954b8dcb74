#include "checks/verdict/check_cases.hpp"

#include <cmath>
#include <set>

#include "checks/verdict/lattice.hpp"
#include "reference/case/generate.hpp"

namespace assay {
namespace {

struct Recipe {
  const char* why;
  std::map<char, std::int64_t> lengths;  // others keep the defaults below
  const char* cu_seqlens = "";
  std::vector<std::string> gates = {"model"};
  bool log_gates = false;
  bool optional_inputs = true;
  bool groups = false;
  const char* cotangents = "all";  // "all", "final", "none but o"
  std::vector<std::string> options = {};
  bool slow_writes = false;  // with momentum, which keys of any direction can set swinging
};

// Filled in by the schema's options. Two cases: who cannot normalise may still take the rest.
constexpr const char* kOtherOptions = "options that are not the usual ones";
constexpr const char* kNormalised = "queries and keys that are to be normalised";

const std::map<char, std::int64_t> kDefaults = {{'B', 1},  {'T', 70}, {'H', 2},  {'N', 2},
                                                {'K', 16}, {'V', 24}, {'D', 12}, {'E', 10},
                                                {'M', 4},  {'J', 2},  {'W', 4},  {'P', 3}};

Recipe slow(Recipe r) {
  r.slow_writes = true;
  return r;
}

std::vector<Recipe> recipes(std::int64_t C) {
  return {
      {"ordinary", {{'T', 2 * C + 2}, {'K', 32}, {'V', 24}}},
      {"one past the chunk, shared heads",
       {{'T', C + 1}, {'H', 4}, {'N', 4}},
       "",
       {"wide"},
       true,
       true,
       true},
      {"packed, with empty and one-token sequences", {}, "0,0,1,1,34,66,70", {"model"}, true},
      {"one token", {{'T', 1}, {'K', 9}, {'V', 5}}, "", {"wide"}},
      {"K beyond 64", {{'T', 20}, {'H', 3}, {'N', 3}, {'K', 100}, {'V', 12}}},
      {"V beyond 64", {{'T', 20}, {'B', 3}, {'K', 12}, {'V', 80}, {'D', 80}}, "", {"wide"}, true},
      {"K = V = 64", {{'T', C + 6}, {'B', 1}, {'H', 1}, {'N', 1}, {'K', 64}, {'V', 64}}},
      {"K = V = 128", {{'T', 9}, {'H', 1}, {'N', 1}, {'K', 128}, {'V', 128}}, "", {"model"}, true},
      {"K = 144, V = 16", {{'T', 9}, {'H', 1}, {'N', 1}, {'K', 144}, {'V', 16}}, "", {"wide"}},
      {"V = 256", {{'T', 5}, {'H', 1}, {'N', 1}, {'K', 4}, {'V', 256}}},
      slow({"many steps", {{'T', 4 * C + 4}, {'H', 1}, {'N', 1}, {'K', 4}, {'V', 4}, {'D', 4}}}),
      {"two whole chunks", {{'T', 2 * C}, {'H', 1}, {'N', 1}, {'K', 8}, {'V', 6}}, "", {"wide"}},
      {"many sequences, heads that share",
       {{'T', 7}, {'B', 5}, {'H', 6}, {'N', 6}, {'K', 8}, {'V', 8}},
       "",
       {"model"},
       false,
       true,
       true},
      {"packed, longer than chunks",
       {{'H', 1}, {'N', 1}, {'K', 8}, {'V', 8}},
       "0,129,130,131,133,136,136,140,211",
       {"wide"},
       true},
      {"no tokens", {{'T', 0}, {'K', 4}, {'V', 4}}},
      {"chunk less one, states absent",
       {{'T', C - 1}, {'K', 24}, {'V', 8}},
       "",
       {"wide"},
       true,
       false},
      {"gates of exactly 0 and 1", {{'T', C + 2}}, "", {"edge"}},
      {"gates down to exp(-100), and -inf", {{'T', C + 5}}, "", {"edge"}, true},
      slow({"long memory", {{'T', 2 * C + 1}, {'B', 2}}, "", {"long"}}),
      {"only the final state has a cotangent",
       {{'T', C}, {'K', 12}, {'V', 20}},
       "",
       {"model"},
       false,
       true,
       false,
       "final"},
      {"only the read-out has a cotangent",
       {{'T', C + 7}},
       "",
       {"model"},
       true,
       true,
       false,
       "output"},
      {"K = V with states", {{'T', 40}, {'K', 16}, {'V', 16}}, "", {"wide"}},
      {"K = 1, V = 1", {{'T', 33}, {'K', 1}, {'V', 1}}, "", {"wide"}},
      {kOtherOptions, {{'T', C + 3}, {'K', 12}, {'V', 10}}},
      {kNormalised, {{'T', C + 3}, {'K', 12}, {'V', 10}}},
  };
}

bool of_the_norm(const OptionSpec& option) {
  return option.name.find("l2norm") != std::string::npos;
}

/// Normalised rows or the other options: numbers half as large again as usual; where they only keep
/// a quotient finite, large enough to be seen.
std::vector<std::string> other_options(const Schema& schema, bool normalised) {
  // What is below a thousandth by default is added to squares whose mean is about 1: a hundredth
  // changes results by half a percent, more than one rounding to bf16 (0.4 %). With half of it a
  // kernel that does not read it is found in bf16 by all elements together only, with twice as much
  // sooner; no default lies between 1e-6 and 1, so that any limit between them does.
  constexpr double kSmall = 1e-3, kSeen = 0.01;
  std::vector<std::string> options;
  for (const OptionSpec& option : schema.options) {
    if (of_the_norm(option) != normalised) continue;
    if (option.name == "qk_l2norm") options.push_back("qk_l2norm=true");
    if (option.name == "scale") options.push_back("scale=0.4");
    if (option.type != OptionType::real || !option.default_value) continue;
    const double usual = std::get<double>(*option.default_value);
    const double other = std::fabs(usual) < kSmall ? kSeen : 1.5 * usual;
    if (other < option.lo || other > option.hi) continue;
    options.push_back(option.name + "=" + std::to_string(other));
  }
  return options;
}

bool uses(const Schema& schema, char letter) {
  for (const InputSpec& in : schema.inputs) {
    if (in.axes.find(letter) != std::string::npos) return true;
  }
  return false;
}

std::string shape_text_of(const Schema& schema, const Recipe& r) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  const bool packed = *r.cu_seqlens != 0 && schema.packable;
  if (packed) add(std::string("cu=") + r.cu_seqlens);
  for (const auto& [letter, fallback] : kDefaults) {
    if (!uses(schema, letter) || schema.fixed_axes.count(letter)) continue;
    if (packed && (letter == 'B' || letter == 'T')) continue;
    const auto given = r.lengths.find(letter);
    const std::int64_t length = given == r.lengths.end() ? fallback : given->second;
    add(std::string(1, letter) + "=" + std::to_string(length));
  }
  if (!r.groups) return text;
  std::int64_t shared = 1;
  for (const InputSpec& in : schema.inputs) {
    if (in.role == Role::state || in.axes.find(schema.head_axis) == std::string::npos) continue;
    if (in.name == "v" || in.name == "x" || in.name == "v_mem") continue;  // keeps all heads
    add(std::string(1, schema.head_axis) + "." + in.name + "=" + std::to_string(shared));
    shared = shared == 1 ? 2 : 1;
  }
  return text;
}

void drop_cotangents(Case& data, const Schema& schema, const std::string& keep) {
  if (keep == "all") return;
  for (const OutputSpec& out : schema.outputs) {
    if (out.final_state != (keep == "final")) data.tensors.erase("d_" + out.name);
  }
}

bool has_final_state(const Schema& schema) {
  for (const OutputSpec& out : schema.outputs) {
    if (out.final_state) return true;
  }
  return false;
}

ValidCase build(const Operation& operation, const Recipe& r, const PrecisionModel& model,
                std::uint64_t seed) {
  GenerateRequest request;
  request.op = operation.name();
  request.shape = shape_text_of(operation.schema(nullptr), r);
  request.gates = r.gates;
  // With writes up to 1 the states of mdn leave fp16 within 260 steps, and nothing is judged.
  if (r.slow_writes && operation.schema(nullptr).find_input("mu")) {
    request.gates.push_back("beta=0.01:0.1");
  }
  request.log_gates = r.log_gates;
  request.dtype = storage_dtype(model.input);
  request.seed = seed;
  request.optional_inputs = r.optional_inputs;
  request.options = r.options;
  Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const Schema schema = operation.schema(&data);
  drop_cotangents(data, schema, r.cotangents);
  return validate(std::move(data), schema);
}

}  // namespace

std::vector<CheckCase> check_cases(const Operation& operation, const PrecisionModel& model,
                                   std::uint64_t seed) {
  const Schema schema = operation.schema(nullptr);
  std::vector<CheckCase> cases;
  std::uint64_t number = 0;
  std::vector<Recipe> all = recipes(model.chunk);
  for (Recipe& r : all) {
    ++number;
    if (r.why == kOtherOptions || r.why == kNormalised) {
      r.options = other_options(schema, r.why == kNormalised);
      if (r.options.empty()) continue;
    }
    if (*r.cu_seqlens != 0 && !schema.packable) continue;
    if (std::string(r.cotangents) != "all" && !has_final_state(schema)) continue;
    cases.push_back({build(operation, r, model, seed * 1000 + number), r.why, false});
    if (number != 1) continue;
    if (auto lattice = lattice_case(operation, model, seed)) cases.push_back(std::move(*lattice));
  }
  int place = 0;
  for (CheckCase& c : cases) c.number = ++place;
  return cases;
}

}  // namespace assay
