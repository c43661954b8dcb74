#include "fuzz/generators/random_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "fuzz/generators/own.hpp"
#include "reference/case/generate.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

template <class T>
T pick(Stream& random, const std::vector<T>& from) {
  return from[random.below(static_cast<std::int64_t>(from.size()))];
}

bool chance(Stream& random, int percent) { return random.below(100) < percent; }

class Drawer {
 public:
  Drawer(const Operation& operation, const PrecisionModel& model, Stream& random,
         const CaseLimits& limits)
      : schema_(operation.schema(nullptr)), model_(model), limits_(limits), random_(random) {
    recipe_.op = operation.name();
    recipe_.dtype = storage_dtype(model.input);
    recipe_.chunk = model.chunk;
    // Few enough to be written down, many enough not to repeat.
    recipe_.seed = static_cast<std::uint64_t>(random_.below(std::int64_t{1} << 40));
  }

  RandomRecipe draw() {
    shape();
    gates();
    vectors();
    optional_inputs();
    cotangents();
    options();
    if (const OwnGenerator* own = own_generator(recipe_.op)) own->draw(random_, recipe_, classes_);
    return {std::move(recipe_), std::move(classes_)};
  }

 private:
  bool uses(char letter) const {
    return std::any_of(schema_.inputs.begin(), schema_.inputs.end(), [&](const InputSpec& in) {
      return in.axes.find(letter) != std::string::npos;
    });
  }

  std::int64_t length() {
    const std::int64_t C = model_.chunk, most = limits_.tokens;
    if (chance(random_, 40)) {
      classes_["length"] = "around the chunk";
      std::vector<std::int64_t> edges;
      for (std::int64_t t : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, C - 1, C, C + 1,
                             2 * C - 1, 2 * C + 1}) {
        if (t <= most) edges.push_back(t);
      }
      return pick(random_, edges);
    }
    classes_["length"] = "any";
    // Every order of magnitude as often as the next one: short cases are quick, and most bugs fit.
    return chance(random_, 70) ? 1 + random_.below(1 + most / 8) : 1 + random_.below(most);
  }

  void add(const std::string& part) { recipe_.shape += (recipe_.shape.empty() ? "" : ",") + part; }

  void packed() {
    std::string text = "cu=0";
    std::int64_t at = 0;
    const std::int64_t sequences = 1 + random_.below(5);
    const std::int64_t all = chance(random_, 50) ? 1 + limits_.tokens / 4 : limits_.tokens;
    for (std::int64_t s = 0; s < sequences; ++s) {
      const std::int64_t room = all - at;
      at += chance(random_, 25)   ? 0
            : chance(random_, 25) ? std::min<std::int64_t>(1, room)
                                  : random_.below(room + 1);
      text += "," + std::to_string(at);
    }
    add(text);
  }

  void shape() {
    const bool pack = schema_.packable && uses('T') && chance(random_, 25);
    classes_["layout"] = pack ? "packed" : "batch";
    const std::int64_t T = !pack && uses('T') ? length() : 0;
    // Two sequences show what three do; long ones come alone, most of the time.
    const std::int64_t B = chance(random_, T > 32 ? 75 : 45) ? 1 : 2 + random_.below(2);
    if (!pack && uses('B')) add("B=" + std::to_string(B));
    if (!pack && uses('T')) add("T=" + std::to_string(T));
    std::set<char> done = {'B', 'T'};
    for (const DerivedAxis& axis : schema_.derived) done.insert(axis.axis);
    for (const auto& [letter, fixed] : schema_.fixed_axes) done.insert(letter);
    std::int64_t heads = 1;
    for (const InputSpec& in : schema_.inputs) {
      for (const char letter : in.axes) {
        if (!done.insert(letter).second) continue;
        std::int64_t n = 1;
        if (letter == schema_.head_axis) {
          n = heads = pick<std::int64_t>(random_, {1, 1, 1, 2, 2, limits_.heads});
        } else if (letter == 'K' || letter == 'V' || letter == 'D' || letter == 'E') {
          n = chance(random_, 20)   ? 1
              : chance(random_, 15) ? limits_.width
                                    : 1 + random_.below(limits_.width);
        } else if (letter == 'M') {
          n = 2 + random_.below(4);  // not fewer than top_k
        } else {
          n = 1 + random_.below(4);
        }
        add(std::string(1, letter) + "=" + std::to_string(n));
      }
    }
    share_heads(heads);
    if (pack) packed();  // last: offsets follow one another up to the end of the word
  }

  void share_heads(std::int64_t heads) {
    classes_["heads"] = "own";
    if (heads == 1 || !chance(random_, 40)) return;
    bool first = true;
    for (const InputSpec& in : schema_.inputs) {
      if (in.role == Role::state || in.axes.find(schema_.head_axis) == std::string::npos) continue;
      // The first tensor keeps all heads, or the case would have fewer.
      if (first || !chance(random_, 50)) {
        first = false;
        continue;
      }
      const std::int64_t groups = heads == 4 ? pick<std::int64_t>(random_, {1, 2}) : 1;
      add(std::string(1, schema_.head_axis) + "." + in.name + "=" + std::to_string(groups));
      classes_["heads"] = "shared";
    }
  }

  void gates() {
    std::vector<std::string> names;
    for (const GatePreset& preset : gate_presets()) names.push_back(preset.name);
    names.push_back("ladder");
    recipe_.gates = {pick(random_, names)};
    classes_["gates"] = recipe_.gates[0];
    if (std::any_of(schema_.inputs.begin(), schema_.inputs.end(),
                    [](const InputSpec& in) { return !in.log_name.empty(); })) {
      recipe_.log_gates = chance(random_, 50);
      classes_["gate form"] = recipe_.log_gates ? "logarithms" : "linear";
    }
    if (!chance(random_, 15)) return;
    // Writing gates at one end of their domain, in all steps.
    for (const InputSpec& in : schema_.inputs) {
      const bool writes = in.role == Role::token && in.log_name.empty() && in.domain.lo == 0 &&
                          std::isfinite(in.domain.hi) && in.domain.hi > 1;
      if (!writes || (in.optional && recipe_.optional_inputs == false)) continue;
      const std::int64_t level = random_.below(3);
      recipe_.gates.push_back(in.name + "=" + std::to_string(level));
      classes_["constant " + in.name] = std::to_string(level);
    }
  }

  void vectors() {
    recipe_.keys = chance(random_, 45) ? "random" : pick(random_, key_kinds());
    recipe_.values = chance(random_, 85) ? "random" : pick(random_, value_kinds());
    classes_["keys"] = recipe_.keys;
    classes_["values"] = recipe_.values;
    if (uses('M')) {
      recipe_.routing = chance(random_, 40) ? "random" : pick(random_, routing_kinds());
      classes_["routing"] = recipe_.routing;
    }
    if (std::any_of(schema_.inputs.begin(), schema_.inputs.end(),
                    [&](const InputSpec& in) { return is_activation(in, schema_); })) {
      recipe_.activations = chance(random_, 60) ? "random" : pick(random_, activation_kinds());
      classes_["activations"] = recipe_.activations;
    }
  }

  void optional_inputs() {
    classes_["optional inputs"] = "all";
    // What a range names must be there.
    if (recipe_.gates.size() == 1 && chance(random_, 25)) {
      recipe_.optional_inputs = false;
      classes_["optional inputs"] = "none";
    }
    const bool states = std::any_of(schema_.inputs.begin(), schema_.inputs.end(),
                                    [](const InputSpec& in) { return in.role == Role::state; });
    if (!states) return;
    if (chance(random_, 30)) recipe_.states = chance(random_, 50) ? "zero" : "absent";
    classes_["states"] = recipe_.optional_inputs ? recipe_.states : "absent";
  }

  void cotangents() {
    std::vector<std::string> names;
    for (const OutputSpec& out : schema_.outputs) {
      if (!out.integer) names.push_back(out.name);
    }
    classes_["cotangents"] = "random";
    if (names.empty() || chance(random_, 55)) return;
    const std::string kept = pick(random_, names);
    classes_["cotangents"] = "some";
    for (const std::string& name : names) {
      if (name != kept && chance(random_, 70)) recipe_.cotangents[name] = "absent";
    }
    if (!chance(random_, 40)) return;
    recipe_.cotangents[kept] = "one-hot";
    classes_["cotangents"] = "one-hot";
  }

  void options() {
    const bool own = own_generator(recipe_.op) != nullptr;  // draws its numbers itself
    for (const OptionSpec& option : schema_.options) {
      if (own && option.type == OptionType::integer) continue;
      const std::vector<std::string> values = option_values(option);
      if (values.empty() || !chance(random_, 20)) continue;
      const std::string value = pick(random_, values);
      // Another choice may have other gates.
      if (option.type == OptionType::string) recipe_.gates.resize(1);
      // The direction of a zero vector is not defined, nor is its mean square without an addend.
      const bool undefined = option.name == "eps" && value == "0";
      if (option.name == "qk_l2norm" || undefined) {
        recipe_.keys = recipe_.values = "random";
      }
      // Where gates at e^-90 leave values that underflow, no format has their direction either.
      if (undefined) recipe_.activations = "random";
      recipe_.options.push_back(option.name + "=" + value);
      classes_["option " + option.name] = value;
    }
    for (const std::string& option : needed_options(recipe_.options)) {
      recipe_.options.push_back(option);
      recipe_.keys = recipe_.values = "random";
      classes_["option " + option.substr(0, option.find('='))] = "true";
    }
    classes_["keys"] = recipe_.keys;
    classes_["values"] = recipe_.values;
    if (classes_.count("activations")) classes_["activations"] = recipe_.activations;
  }

  const Schema schema_;
  const PrecisionModel& model_;
  const CaseLimits limits_;
  Stream& random_;
  CaseRecipe recipe_;
  CaseClasses classes_;
};

}  // namespace

std::vector<std::string> needed_options(const std::vector<std::string>& options) {
  const auto is_set = [&](const std::string& name) {
    return std::any_of(options.begin(), options.end(),
                       [&](const std::string& o) { return o.starts_with(name + "="); });
  };
  if (is_set("l2norm_eps") && !is_set("qk_l2norm")) return {"qk_l2norm=true"};
  return {};
}

std::vector<std::string> option_values(const OptionSpec& option) {
  if (option.name == "chunk") return {};  // of the form, which the candidate declares
  if (option.name == "scale") return {"1", "0.5", "-0.25"};
  switch (option.type) {
    case OptionType::boolean:
      return {"true"};
    case OptionType::string:
      return option.choices;
    case OptionType::integer:
      return option.default_value ? std::vector<std::string>{"1", "2"} : std::vector<std::string>{};
    case OptionType::real:
      break;
  }
  if (!option.default_value) return {};
  std::vector<std::string> values;
  const double usual = std::get<double>(*option.default_value);
  const auto add = [&](double x) {
    if (x >= option.lo && x <= option.hi && x != usual) values.push_back(fmt::format("{}", x));
  };
  // What is added to keep a quotient finite is small, everything else of the order of its default.
  if (usual == 0) {
    for (const double x : {1e-6, 0.01, 1.0}) add(x);
  } else {
    for (const double factor : {0.25, 4.0}) add(usual * factor);
    if (option.lo == 0 || option.hi == 0) add(0);  // an end that belongs to the range
  }
  return values;
}

RandomRecipe random_recipe(const Operation& operation, const PrecisionModel& model, Stream& random,
                           const CaseLimits& limits) {
  return Drawer(operation, model, random, limits).draw();
}

RandomRecipe random_recipe(const Operation& operation, const PrecisionModel& model,
                           std::uint64_t seed, std::uint64_t index, const CaseLimits& limits) {
  Stream random(seed * 0x9E3779B97F4A7C15u + index, operation.name());
  return random_recipe(operation, model, random, limits);
}

RandomCase random_case(const Operation& operation, const PrecisionModel& model, std::uint64_t seed,
                       std::uint64_t index, const CaseLimits& limits) {
  RandomRecipe drawn = random_recipe(operation, model, seed, index, limits);
  CheckCase given{build_case(drawn.recipe), recipe_line(drawn.recipe), false};
  return {std::move(given), std::move(drawn.classes)};
}

void ClassMix::add(const CaseClasses& classes) {
  for (const auto& [kind, value] : classes) ++counts_[kind][value];
}

}  // namespace assay
