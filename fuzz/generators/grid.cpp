#include "fuzz/generators/grid.hpp"

#include <algorithm>
#include <cmath>

#include "fuzz/generators/own.hpp"
#include "fuzz/generators/random_case.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

class Grid {
 public:
  Grid(const Operation& operation, const PrecisionModel& model, std::uint64_t seed)
      : schema_(operation.schema(nullptr)), C_(model.chunk), seed_(seed) {
    ordinary_.op = operation.name();
    ordinary_.dtype = storage_dtype(model.input);
    ordinary_.chunk = model.chunk;
  }

  std::vector<GridCase> make() {
    lengths();
    heads();
    packed();
    states_and_cotangents();
    gates();
    vectors();
    own();
    widths();  // the large ones last
    return std::move(cases_);
  }

 private:
  using Lengths = std::map<char, std::int64_t>;

  bool uses(char letter) const {
    return std::any_of(schema_.inputs.begin(), schema_.inputs.end(), [&](const InputSpec& in) {
      return in.axes.find(letter) != std::string::npos;
    });
  }

  /// Small, and no two axes alike.
  std::string shape(const Lengths& wanted, const std::string& more = "", bool batch = true) const {
    static const Lengths usual = {{'B', 2}, {'T', 37}, {'H', 2}, {'N', 2}, {'K', 5}, {'V', 7},
                                  {'D', 6}, {'E', 5},  {'M', 4}, {'J', 2}, {'P', 3}};
    std::vector<std::string> parts;
    for (const auto& [letter, length] : usual) {
      if (!uses(letter) || schema_.fixed_axes.count(letter)) continue;
      if (!batch && (letter == 'B' || letter == 'T')) continue;
      const auto given = wanted.find(letter);
      const std::int64_t n = given == wanted.end() ? length : given->second;
      parts.push_back(std::string(1, letter) + "=" + std::to_string(n));
    }
    if (!more.empty()) parts.push_back(more);
    return join(parts, ",");
  }

  CaseRecipe& add(const std::string& what, const Lengths& lengths = {},
                  const std::string& more = "", bool batch = true) {
    GridCase c{ordinary_, {{"grid", what}}};
    c.recipe.shape = shape(lengths, more, batch);
    c.recipe.seed = seed_ * 10007 + cases_.size();
    cases_.push_back(std::move(c));
    return cases_.back().recipe;
  }

  void lengths() {
    if (!uses('T')) {
      add("ordinary");
      return;
    }
    const std::vector<std::pair<std::string, std::int64_t>> all = {
        {"C+1", C_ + 1},      {"C-1", C_ - 1}, {"C", C_}, {"2C+1", 2 * C_ + 1},
        {"2C-1", 2 * C_ - 1}, {"0", 0},        {"1", 1},  {"2", 2}};
    for (const auto& [name, T] : all) {
      add("length " + name, {{'T', T}});
      if (T > 2)
        add("length " + name + ", log gates", {{'T', T}, {'K', 8}, {'V', 4}}).log_gates = true;
    }
  }

  void heads() {
    const char h = schema_.head_axis;
    if (!uses(h)) return;
    for (const std::int64_t ratio : {2, 4}) {
      for (const bool values : {false, true}) {
        std::vector<std::string> shared;
        bool first = true;
        for (const InputSpec& in : schema_.inputs) {
          const bool headed = in.axes.find(h) != std::string::npos;
          if (in.role == Role::state || !headed) continue;
          const bool wide = in.axes.back() == 'V' || in.axes.back() == 'D';
          // One tensor keeps all heads; gates differ from head to head.
          if (wide == values && !first) {
            shared.push_back(std::string(1, h) + "." + in.name + "=" + std::to_string(4 / ratio));
          } else if (!values && !wide && in.axes.back() == 'K') {
            shared.push_back(std::string(1, h) + "." + in.name + "=" + std::to_string(4 / ratio));
          }
          first = false;
        }
        if (shared.empty()) continue;
        add("head ratio " + std::to_string(ratio) + (values ? " of values" : " of keys and gates"),
            {{h, 4}, {'T', 9}}, join(shared, ","));
      }
    }
  }

  void packed() {
    if (!schema_.packable || !uses('T')) return;
    const auto cu = [&](const std::string& what, const std::vector<std::int64_t>& offsets) {
      std::vector<std::string> parts;
      for (std::int64_t o : offsets) parts.push_back(std::to_string(o));
      add("packed: " + what, {}, "cu=" + join(parts, ","), false);
    };
    cu("empty ones", {0, 0, 5, 5, 9, 9});
    cu("one token each", {0, 1, 2, 3});
    cu("aligned to the chunk", {0, C_, 2 * C_});
    cu("short tail", {0, C_ + 1, C_ + 3, 2 * C_ + 5});
    cu("all empty", {0, 0, 0});
    cu("one sequence", {0, 11});
  }

  void states_and_cotangents() {
    const bool states = std::any_of(schema_.inputs.begin(), schema_.inputs.end(),
                                    [](const InputSpec& in) { return in.role == Role::state; });
    if (states) {
      add("states zero", {{'T', 5}}).states = "zero";
      add("states absent", {{'T', C_ + 3}}).states = "absent";
      add("K = V with states", {{'T', 6}, {'K', 6}, {'V', 6}});
    }
    add("no optional inputs", {{'T', 9}}).optional_inputs = false;
    for (const OutputSpec& out : schema_.outputs) {
      if (out.integer) continue;
      add("cotangent of " + out.name + " one-hot", {{'T', C_ + 1}}).cotangents[out.name] =
          "one-hot";
      if (schema_.outputs.size() < 2) continue;
      add("cotangent of " + out.name + " absent", {{'T', 12}}).cotangents[out.name] = "absent";
      CaseRecipe& only = add("cotangent of " + out.name + " only", {{'T', C_ + 2}});
      for (const OutputSpec& other : schema_.outputs) {
        if (other.name != out.name && !other.integer) only.cotangents[other.name] = "absent";
      }
    }
  }

  void gates() {
    for (const char* preset : {"edge", "dead", "long", "wide", "ladder"}) {
      for (const bool log : {false, true}) {
        CaseRecipe& r = add(std::string("gates ") + preset + (log ? ", log" : ""),
                            {{'T', preset == std::string("long") ? 2 * C_ + 1 : C_ + 4}});
        r.gates = {preset};
        r.log_gates = log;
      }
    }
    for (const InputSpec& in : schema_.inputs) {
      if (in.role != Role::token || !(in.domain.lo >= 0) || !std::isfinite(in.domain.hi)) continue;
      for (double level = in.domain.lo; level <= in.domain.hi; level += 1) {
        const std::string value = std::to_string(static_cast<int>(level));
        add(in.name + " = " + value, {{'T', 9}}).gates = {"model", in.name + "=" + value};
      }
    }
  }

  void vectors() {
    for (const std::string& kind : key_kinds()) {
      const bool keys =
          schema_.find_input("k") != nullptr || schema_.find_input("k_mem") != nullptr;
      if (kind == "random" || !keys) continue;
      add("keys " + kind, {{'T', C_ + 1}}).keys = kind;
    }
    for (const std::string& kind : value_kinds()) {
      if (kind != "random") add("values " + kind, {{'T', 11}}).values = kind;
    }
    for (const std::string& kind : routing_kinds()) {
      if (kind != "random" && uses('M')) add("routing " + kind, {{'T', C_ + 1}}).routing = kind;
    }
    const bool activations =
        std::any_of(schema_.inputs.begin(), schema_.inputs.end(),
                    [&](const InputSpec& in) { return is_activation(in, schema_); });
    for (const std::string& kind : activation_kinds()) {
      if (kind != "random" && activations)
        add("activations " + kind, {{'T', 11}}).activations = kind;
    }
    const bool own = own_generator(ordinary_.op) != nullptr;  // knows names and numbers itself
    for (const OptionSpec& option : schema_.options) {
      if (own && (option.type == OptionType::string || option.type == OptionType::integer))
        continue;
      for (const std::string& value : option_values(option)) {
        const std::string setting = option.name + "=" + value;
        std::vector<std::string>& options = add("option " + setting, {{'T', 9}}).options;
        options = needed_options({setting});
        options.push_back(setting);
      }
    }
  }

  void own() {
    const OwnGenerator* own = own_generator(ordinary_.op);
    if (!own) return;
    CaseRecipe base = ordinary_;
    base.shape = shape({{'T', 13}});
    for (CaseRecipe& r : own->grid(base)) {
      r.seed = seed_ * 10007 + cases_.size();
      const std::string what = "own: " + join(r.options, " ") + join(r.without, " ");
      cases_.push_back({std::move(r), {{"grid", what}}});
    }
  }

  void widths() {
    // Every width stands once on either side.
    static const std::vector<std::pair<std::int64_t, std::int64_t>> pairs = {
        {1, 9},   {9, 1},   {16, 60}, {60, 16}, {63, 9},   {9, 63},   {64, 65}, {65, 64},
        {96, 16}, {16, 96}, {100, 1}, {1, 100}, {128, 16}, {16, 128}, {256, 9}, {9, 256}};
    const bool two = uses('K') && uses('V');
    for (const auto& [K, V] : pairs) {
      const std::string name =
          two ? std::to_string(K) + " x " + std::to_string(V) : std::to_string(V);
      const std::int64_t T = std::max(K, V) > 100 ? 3 : 5;
      add("widths " + name, {{'B', 1}, {'T', T}, {'H', 1}, {'N', 1}, {'K', K}, {'V', V}, {'D', V}});
    }
  }

  const Schema schema_;
  const std::int64_t C_;
  const std::uint64_t seed_;
  CaseRecipe ordinary_;
  std::vector<GridCase> cases_;
};

}  // namespace

std::vector<GridCase> boundary_grid(const Operation& operation, const PrecisionModel& model,
                                    std::uint64_t seed) {
  return Grid(operation, model, seed).make();
}

}  // namespace assay
