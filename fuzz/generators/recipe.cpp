#include "fuzz/generators/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "reference/case/text.hpp"

namespace assay {
namespace {

constexpr std::size_t kLongestLine = 4096;

const std::vector<std::string> kStates = {"random", "zero", "absent"};
const std::vector<std::string> kCotangents = {"random", "absent", "one-hot"};

[[noreturn]] void refuse_line(std::string_view line, const std::string& rule) {
  throw InputError("case line " + quote_name(line) + ": " + rule);
}

std::string one_of(std::string_view line, const std::string& key, const std::string& value,
                   const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) != known.end()) return value;
  refuse_line(line, key + " " + quote_name(value) + ": known are " + join(known, ", "));
}

std::string dtype_word(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return "fp64";
    case DType::F16:
      return "fp16";
    case DType::BF16:
      return "bf16";
    default:
      return "fp32";
  }
}

std::optional<DType> dtype_of(const std::string& word) {
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
    if (word == dtype_word(dtype)) return dtype;
  }
  return std::nullopt;
}

bool is_shape(const std::string& word) {
  return word.size() >= 3 && std::isupper(static_cast<unsigned char>(word[0])) &&
         (word[1] == '=' || word[1] == '.') && word.rfind("C=", 0) != 0;
}

class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  CaseRecipe read() {
    if (line_.size() > kLongestLine) refuse_line(line_.substr(0, 60), "longer than 4096 bytes");
    for (const char c : line_) {
      if (c < 0x20 || c > 0x7e) refuse_line(line_, "must be printable ASCII");
    }
    std::vector<std::string> words;
    for (const std::string& word : split(line_, ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    if (words.empty()) refuse_line(line_, "must begin with the name of an operation");
    r_.op = words[0];
    for (std::size_t i = 1; i < words.size(); ++i) take(words[i]);
    return std::move(r_);
  }

 private:
  void once(const std::string& key) {
    if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
      refuse_line(line_, quote_name(key) + " is given twice");
    }
    seen_.push_back(key);
  }

  std::int64_t number(const std::string& text, std::int64_t least) const {
    const auto value = parse_integer(text);
    if (!value || *value < least) {
      refuse_line(line_, quote_name(text) + " must be an integer from " + std::to_string(least));
    }
    return *value;
  }

  std::vector<std::string> list(const std::string& text) const {
    std::vector<std::string> parts = split(text, ',');
    for (const std::string& part : parts) {
      if (part.empty()) refuse_line(line_, "an empty part in " + quote_name(text));
    }
    if (parts.empty()) refuse_line(line_, "a value is missing");
    return parts;
  }

  void take(const std::string& word) {
    if (is_shape(word) || word.rfind("cu=", 0) == 0) {
      once("shape");
      r_.shape = word;
      return;
    }
    if (const auto dtype = dtype_of(word)) {
      once("dtype");
      r_.dtype = *dtype;
      return;
    }
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos) {
      once(key);
      if (key == "log") {
        r_.log_gates = true;
      } else if (key == "bare") {
        r_.optional_inputs = false;
      } else {
        refuse_line(line_, "unknown word " + quote_name(word));
      }
      return;
    }
    const std::string value = word.substr(equals + 1);
    if (key != "opt") once(key);
    take_pair(key, value);
  }

  void take_pair(const std::string& key, const std::string& value) {
    if (key == "C") {
      r_.chunk = number(value, 1);
    } else if (key == "gates") {
      r_.gates = list(value);
    } else if (key == "keys") {
      r_.keys = one_of(line_, key, value, key_kinds());
    } else if (key == "values") {
      r_.values = one_of(line_, key, value, value_kinds());
    } else if (key == "routing") {
      r_.routing = one_of(line_, key, value, routing_kinds());
    } else if (key == "activations") {
      r_.activations = one_of(line_, key, value, activation_kinds());
    } else if (key == "states") {
      r_.states = one_of(line_, key, value, kStates);
    } else if (key == "cot") {
      for (const std::string& part : list(value)) {
        const std::size_t colon = part.find(':');
        const std::string name = part.substr(0, colon);
        if (colon == std::string::npos || name.empty()) {
          refuse_line(line_, quote_name(part) + " must be output:kind");
        }
        const std::string kind = one_of(line_, key, part.substr(colon + 1), kCotangents);
        if (r_.cotangents.count(name)) refuse_line(line_, quote_name(name) + " is given twice");
        if (kind != "random") r_.cotangents[name] = kind;
      }
    } else if (key == "opt") {
      if (value.find('=') == std::string::npos) refuse_line(line_, "opt must be name=value");
      r_.options.push_back(value);
    } else if (key == "without") {
      r_.without = list(value);
    } else if (key == "seed") {
      r_.seed = static_cast<std::uint64_t>(number(value, 0));
    } else {
      refuse_line(line_, "unknown word " + quote_name(key));
    }
  }

  std::string_view line_;
  CaseRecipe r_;
  std::vector<std::string> seen_;
};

}  // namespace

std::string recipe_line(const CaseRecipe& r) {
  std::string line = r.op;
  const auto add = [&](const std::string& word) { line += " " + word; };
  if (!r.shape.empty()) add(r.shape);
  add(dtype_word(r.dtype));
  add(fmt::format("C={}", r.chunk));
  if (r.gates != std::vector<std::string>{"model"}) add("gates=" + join(r.gates, ","));
  if (r.log_gates) add("log");
  if (!r.optional_inputs) add("bare");
  for (const auto& [key, value] : {std::pair{"keys", r.keys},
                                   {"values", r.values},
                                   {"routing", r.routing},
                                   {"activations", r.activations},
                                   {"states", r.states}}) {
    if (value != "random") add(std::string(key) + "=" + value);
  }
  std::vector<std::string> cotangents;
  for (const auto& [name, kind] : r.cotangents) cotangents.push_back(name + ":" + kind);
  if (!cotangents.empty()) add("cot=" + join(cotangents, ","));
  for (const std::string& option : r.options) add("opt=" + option);
  if (!r.without.empty()) add("without=" + join(r.without, ","));
  add(fmt::format("seed={}", r.seed));
  return line;
}

CaseRecipe parse_recipe(std::string_view line) { return LineReader(line).read(); }

}  // namespace assay
