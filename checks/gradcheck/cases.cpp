// The small random cases of `assay gradcheck OP`: from the schema alone, every operation gets what
// it has of gates, optional inputs, head groups, packing, forms and options.
#include <algorithm>
#include <set>

#include "checks/gradcheck/gradcheck.hpp"
#include "reference/case/generate.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

using Lengths = std::map<char, std::int64_t>;

enum class Optional { all, none, even, odd };          // even, odd: every second one
enum class Values { defaults, flags, discrete, all };  // booleans on; integers, too; all of them
enum class Heads { full, groups, other_groups };

struct Recipe {
  Lengths lengths;
  std::string cu_seqlens;  // empty: not packed
  const char* gates;
  bool log_gates;
  Optional optional;
  Values values;
  std::int64_t chunk;
  Heads heads;
  std::string extra_option = {};
};

std::string number(double value) {
  const std::string text = number_text(value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

/// A value off the default and inside the range.
std::string other_value(const OptionSpec& option) {
  switch (option.type) {
    case OptionType::boolean:
      return "true";
    case OptionType::integer:
      return std::to_string(static_cast<std::int64_t>(std::max(option.lo, -1e6)));
    case OptionType::real: {
      const double* given =
          option.default_value ? std::get_if<double>(&*option.default_value) : nullptr;
      const double value = given == nullptr ? 0.75 : *given == 0 ? 0.125 : *given * 1.5;
      return number(std::clamp(value, option.lo, option.hi));
    }
    case OptionType::string:
      break;
  }
  return "";  // of strings, every choice gets a case
}

bool is_chunk(const OptionSpec& option) { return option.name == "chunk"; }

bool is_changed(const OptionSpec& option, Values values) {
  switch (option.type) {
    case OptionType::boolean:
      return values != Values::defaults;
    case OptionType::integer:
      return values == Values::discrete || values == Values::all;
    case OptionType::real:
      return values == Values::all;
    case OptionType::string:
      break;
  }
  return false;
}

std::vector<std::string> option_texts(const Schema& schema, const Recipe& recipe) {
  std::vector<std::string> texts;
  for (const OptionSpec& option : schema.options) {
    if (is_chunk(option)) {
      texts.push_back("chunk=" + std::to_string(recipe.chunk));
    } else if (is_changed(option, recipe.values)) {
      texts.push_back(option.name + "=" + other_value(option));
    }
  }
  if (!recipe.extra_option.empty()) texts.push_back(recipe.extra_option);
  return texts;
}

std::string shape_text(const Schema& schema, const Recipe& recipe) {
  std::set<char> axes;
  for (const InputSpec& input : schema.inputs) axes.insert(input.axes.begin(), input.axes.end());
  for (const DerivedAxis& derived : schema.derived) {
    axes.insert(derived.from);
    axes.erase(derived.axis);
  }
  const bool packed = schema.packable && !recipe.cu_seqlens.empty();
  std::vector<std::string> items;
  std::int64_t H = 1;
  for (const char axis : axes) {
    if (schema.fixed_axes.count(axis) != 0 || (packed && (axis == 'B' || axis == 'T'))) continue;
    const auto found = recipe.lengths.find(axis == schema.head_axis ? 'H' : axis);
    const std::int64_t length = found == recipe.lengths.end() ? 2 : found->second;
    if (axis == schema.head_axis) H = length;
    items.push_back(std::string(1, axis) + "=" + std::to_string(length));
  }
  if (recipe.heads != Heads::full) {
    // The second such input keeps all heads, so that H is what it is without states, too.
    const std::int64_t groups[] = {H / 2, H, 1};
    std::size_t i = recipe.heads == Heads::groups ? 0 : 1;
    for (const InputSpec& input : schema.inputs) {
      const bool shared = input.axes.find(schema.head_axis) != std::string::npos &&
                          input.role != Role::state && !input.optional;
      if (!shared) continue;
      items.push_back(std::string(1, schema.head_axis) + "." + input.name + "=" +
                      std::to_string(groups[i++ % 3]));
    }
    if (i == 1 && recipe.heads == Heads::groups) items.pop_back();  // alone: it fixes H
  }
  if (packed) items.push_back("cu=" + recipe.cu_seqlens);
  return join(items, ",");
}

std::vector<std::string> left_out(const Schema& schema, Optional which) {
  std::vector<std::string> names;
  std::size_t i = 0;
  for (const InputSpec& input : schema.inputs) {
    if (!input.optional) continue;
    const bool even = i++ % 2 == 0;
    if ((which == Optional::even && even) || (which == Optional::odd && !even)) {
      names.push_back(input.name);
    }
  }
  return names;
}

std::vector<Recipe> recipes(const Schema& schema) {
  const Lengths plain = {{'B', 2}, {'T', 4}, {'H', 2}, {'K', 3}, {'V', 2}, {'M', 3}, {'W', 3}};
  const Lengths grouped = {{'B', 1}, {'T', 5}, {'H', 4}, {'K', 2}, {'V', 3}, {'M', 3}, {'W', 4}};
  const Lengths single = {{'B', 1}, {'T', 5}, {'H', 1}, {'K', 4}, {'V', 3}, {'M', 4}, {'D', 3}};
  const Lengths unit = {{'B', 1}, {'T', 1}, {'H', 1}, {'K', 1}, {'V', 1}, {'M', 1},
                        {'W', 1}, {'D', 1}, {'E', 1}, {'P', 1}, {'J', 1}};
  std::vector<Recipe> list = {
      {plain, "", "model", false, Optional::all, Values::defaults, 3, Heads::full},
      {grouped, "", "edge", true, Optional::none, Values::defaults, 2, Heads::groups},
      {plain, "0,0,3,3,7", "edge", false, Optional::all, Values::defaults, 2, Heads::full},
      {grouped, "0,2,2,6,6", "wide", true, Optional::odd, Values::defaults, 4, Heads::other_groups},
      {single, "", "wide", false, Optional::even, Values::all, 1, Heads::full},
      {unit, "", "dead", false, Optional::all, Values::discrete, 64, Heads::full}};
  const bool any_flag =
      std::any_of(schema.options.begin(), schema.options.end(),
                  [](const OptionSpec& option) { return option.type == OptionType::boolean; });
  if (any_flag) {
    list.push_back({single, "", "model", true, Optional::all, Values::flags, 2, Heads::full});
  }
  const Lengths small = {{'B', 1}, {'T', 3}, {'H', 1}, {'M', 3}};
  bool log_gates = false;
  for (const OptionSpec& option : schema.options) {
    for (const std::string& choice : option.choices) {
      log_gates = !log_gates;
      list.push_back({small, "", log_gates ? "wide" : "edge", log_gates,
                      log_gates ? Optional::all : Optional::none,
                      log_gates ? Values::flags : Values::defaults, 2, Heads::full,
                      option.name + "=" + choice});
    }
  }
  return list;
}

}  // namespace

std::vector<ValidCase> gradcheck_cases(const Operation& operation, std::uint64_t seed) {
  const SchemaProvider provider = [&](const Case* data) { return operation.schema(data); };
  const Schema schema = provider(nullptr);
  std::vector<ValidCase> cases;
  for (const Recipe& recipe : recipes(schema)) {
    GenerateRequest request;
    request.op = schema.op;
    request.shape = shape_text(schema, recipe);
    request.gates = {recipe.gates};
    request.log_gates = recipe.log_gates;
    request.options = option_texts(schema, recipe);
    request.optional_inputs = recipe.optional != Optional::none;
    request.without = left_out(schema, recipe.optional);
    request.seed = seed * 1000 + cases.size();
    Case data = generate(provider, request);
    const Schema own = provider(&data);
    cases.push_back(validate(std::move(data), own));
  }
  return cases;
}

}  // namespace assay
