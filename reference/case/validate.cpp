#include "reference/case/validate.hpp"

#include <algorithm>
#include <cmath>

#include "reference/case/options.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

/// Name of the output whose cotangent is called `name`, null when there is none.
const OutputSpec* cotangent_output(const Schema& schema, const std::string& name) {
  return name.rfind("d_", 0) == 0 ? schema.find_output(name.substr(2)) : nullptr;
}

std::vector<std::string> known_names(const Schema& schema) {
  std::vector<std::string> names;
  for (const InputSpec& input : schema.inputs) {
    names.push_back(input.name);
    if (!input.log_name.empty()) names.push_back(input.log_name);
  }
  for (const OutputSpec& output : schema.outputs) {
    if (!output.integer) names.push_back("d_" + output.name);
  }
  if (schema.packable) names.push_back(kCuSeqlens);
  return names;
}

[[noreturn]] void refuse_name(const Case& data, const Schema& schema, const std::string& name) {
  const std::string of_op = " of " + schema.op;
  std::string what = "tensor " + quote_name(name) + ": ";
  if (name == kCuSeqlens) refuse(data, what + schema.op + " takes no packed sequences");
  if (name.rfind("d_", 0) == 0 && schema.find_input(name.substr(2)) != nullptr) {
    refuse(data, what + "gradients are no inputs; cotangents are of outputs" + of_op);
  }
  if (schema.find_output(name) != nullptr) refuse(data, what + "is an output" + of_op);
  refuse(data, what + "is no input or cotangent" + of_op + did_you_mean(name, known_names(schema)));
}

void check_dtype(const Case& data, const std::string& name, const CaseTensor& tensor,
                 bool integer) {
  if (is_integer(tensor.dtype) != integer) {
    refuse_tensor(data, name,
                  "dtype " + dtype_name(tensor.dtype) + ", must be " +
                      (integer ? "I64 or I32" : "one of F64 F32 F16 BF16"));
  }
  const auto count = checked_element_count(tensor.shape);
  const std::size_t held = integer ? tensor.integers.size() : tensor.values.size();
  if (!count || static_cast<std::uint64_t>(*count) != held) {
    refuse_tensor(data, name,
                  "holds " + std::to_string(held) + " elements, not what its shape says");
  }
}

/// Of finite numbers: "in [0, 1]", "at least 0", "finite".
std::string range_text(double lo, double hi) {
  if (std::isfinite(lo) && std::isfinite(hi)) {
    return "in [" + number_text(lo) + ", " + number_text(hi) + "]";
  }
  if (std::isfinite(lo)) return "finite and at least " + number_text(lo);
  if (std::isfinite(hi)) return "finite and at most " + number_text(hi);
  return "finite";
}

void check_option(const Case& data, const OptionSpec& spec, OptionValue& value) {
  const std::string what = "option " + quote_name(spec.name) + " = " + option_value_text(value);
  if (spec.type == OptionType::real) {
    // `scale: 1` is written by hand and meant as 1.0.
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      value = static_cast<double>(*integer);
    }
  }
  static_assert(static_cast<int>(OptionType::boolean) == 0 &&
                static_cast<int>(OptionType::string) == 3);
  // The alternatives of OptionValue stand in the order of OptionType.
  if (value.index() != static_cast<std::size_t>(spec.type)) {
    refuse(data, what + ": must be " + option_type_text(spec.type));
  }
  if (spec.type == OptionType::integer || spec.type == OptionType::real) {
    const double number = spec.type == OptionType::real
                              ? std::get<double>(value)
                              : static_cast<double>(std::get<std::int64_t>(value));
    const bool in_range = std::isfinite(number) && number >= spec.lo && number <= spec.hi;
    if (!in_range) {
      refuse(data, what + ": must be " + range_text(spec.lo, spec.hi));
    }
  }
  if (const auto* word = std::get_if<std::string>(&value)) {
    const bool free = spec.choices.empty();
    if (!free && std::find(spec.choices.begin(), spec.choices.end(), *word) == spec.choices.end()) {
      refuse(data, what + ": must be one of " + join(spec.choices, ", ") +
                       did_you_mean(*word, spec.choices));
    }
  }
}

std::vector<std::int64_t> packed_offsets(const Case& data, const Schema& schema) {
  const auto found = data.tensors.find(kCuSeqlens);
  if (found == data.tensors.end() || schema.find_input(kCuSeqlens) != nullptr) return {};
  const CaseTensor& tensor = found->second;
  if (tensor.shape.size() != 1 || tensor.shape[0] < 2) {
    refuse_tensor(data, kCuSeqlens, "must have the shape [S+1] with S >= 1");
  }
  const std::vector<std::int64_t>& cu = tensor.integers;
  const auto refuse_at = [&](std::size_t i, const std::string& rule) {
    refuse_tensor(
        data, kCuSeqlens,
        "index [" + std::to_string(i) + "], value " + std::to_string(cu[i]) + ": " + rule);
  };
  if (cu[0] != 0) refuse_at(0, "the first must be 0");
  for (std::size_t i = 1; i < cu.size(); ++i) {
    if (cu[i] < cu[i - 1]) {
      refuse_at(i, "less than " + std::to_string(cu[i - 1]) + " before it; must not decrease");
    }
  }
  return cu;
}

}  // namespace

void refuse(const Case& data, const std::string& what) {
  throw InputError(printable(data.source.empty() ? data.op : data.source) + ": " + what);
}

void refuse_tensor(const Case& data, const std::string& name, const std::string& what) {
  const auto found = data.tensors.find(name);
  const std::string shape =
      found == data.tensors.end() ? "" : " " + shape_text(found->second.shape);
  refuse(data, "tensor " + quote_name(name) + shape + ": " + what);
}

void check_names(const Case& data, const Schema& schema) {
  for (const auto& [name, tensor] : data.tensors) {
    const InputSpec* input = schema.find_input(name);
    const OutputSpec* output = cotangent_output(schema, name);
    const bool offsets = schema.packable && name == kCuSeqlens;
    if (input == nullptr && output == nullptr && !offsets) refuse_name(data, schema, name);
    if (input == nullptr && output != nullptr && output->integer) {
      refuse_tensor(data, name,
                    "output " + quote_name(output->name) + " is of integers and has no cotangent");
    }
    check_dtype(data, name, tensor, input != nullptr ? input->integer : offsets);
  }
  for (const InputSpec& input : schema.inputs) {
    const bool linear = data.tensors.count(input.name) != 0;
    const bool has_log = !input.log_name.empty();
    const bool log = has_log && data.tensors.count(input.log_name) != 0;
    const std::string either = input.name + ", " + input.log_name;
    if (linear && log) refuse(data, "exactly one of " + either + " must be given, both are");
    if (linear || log || input.optional) continue;
    if (has_log) refuse(data, "exactly one of " + either + " must be given, neither is");
    refuse(data, "tensor " + quote_name(input.name) + " is missing, " + schema.op + " requires it");
  }
}

void check_options(Case& data, const Schema& schema) {
  std::vector<std::string> known;
  for (const OptionSpec& spec : schema.options) known.push_back(spec.name);
  for (auto& [name, value] : data.options) {
    const OptionSpec* spec = schema.find_option(name);
    if (spec == nullptr) {
      refuse(data, "option " + quote_name(name) + ": is no option of " + schema.op +
                       did_you_mean(name, known));
    }
    check_option(data, *spec, value);
  }
}

ValidCase validate(Case data, const Schema& schema) {
  if (data.op.empty()) data.op = schema.op;
  if (data.op != schema.op) {
    throw std::invalid_argument("validate: case of " + quote_name(data.op) +
                                " against the schema of " + schema.op);
  }
  check_options(data, schema);
  check_names(data, schema);
  ValidCase valid;
  valid.cu_seqlens = packed_offsets(data, schema);
  valid.sizes = solve_axes(data, schema, valid.cu_seqlens);
  valid.notes = check_values(data, schema);
  valid.schema = schema;
  valid.data = std::move(data);
  return valid;
}

}  // namespace assay
