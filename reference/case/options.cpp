#include "reference/case/options.hpp"

#include <cmath>
#include <limits>

#include "reference/case/json.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

using nlohmann::json;

OptionValue option_from_json(const json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_number_integer()) {
    const bool beyond = value.is_number_unsigned() &&
                        value.get<std::uint64_t>() >
                            static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (beyond) throw InputError(where + " = " + value.dump() + ": beyond 64-bit integers");
    return value.get<std::int64_t>();
  }
  throw InputError(where + ": is " + std::string(value.type_name()) +
                   ", must be a boolean, a number or a string");
}

}  // namespace

Options parse_options(std::string_view text, const std::string& where) {
  Options options;
  const json parsed = parse_json_object(text, where);
  for (const auto& [name, value] : parsed.items()) {
    options[name] = option_from_json(value, where + ": option " + quote_name(name));
  }
  return options;
}

std::string options_text(const Options& options) {
  json out = json::object();
  for (const auto& [name, value] : options) {
    const double* real = std::get_if<double>(&value);
    if (real != nullptr && !std::isfinite(*real)) {
      throw InputError("option " + quote_name(name) + " = " + number_text(*real) +
                       ": must be finite");
    }
    const std::string* word = std::get_if<std::string>(&value);
    if (!is_utf8(name) || (word != nullptr && !is_utf8(*word))) {
      throw InputError("option " + quote_name(name) + ": not UTF-8");
    }
    std::visit([&out, &name = name](const auto& v) { out[name] = v; }, value);
  }
  return out.dump();
}

OptionValue option_from_text(const OptionSpec& spec, const std::string& text) {
  switch (spec.type) {
    case OptionType::boolean:
      if (text == "true" || text == "1") return true;
      if (text == "false" || text == "0") return false;
      break;
    case OptionType::integer:
      if (const auto value = parse_integer(text)) return *value;
      break;
    case OptionType::real:
      if (const auto value = parse_real(text)) return *value;
      break;
    case OptionType::string:
      return text;
  }
  std::string rule = "must be " + option_type_text(spec.type);
  if (spec.type == OptionType::integer && parse_real(text)) {
    rule += ", written in digits: no exponent, no decimal point";
  }
  throw InputError("option " + quote_name(spec.name) + " = " + quote_name(text) + ": " + rule);
}

std::string option_value_text(const OptionValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const std::int64_t* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&value)) return number_text(*d);
  return quote_name(std::get<std::string>(value));
}

std::string option_type_text(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return "a boolean";
    case OptionType::integer:
      return "an integer";
    case OptionType::real:
      return "a real number";
    case OptionType::string:
      return "a string";
  }
  throw std::invalid_argument("option_type_text: no such type");
}

}  // namespace assay
