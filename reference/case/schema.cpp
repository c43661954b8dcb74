#include "reference/case/schema.hpp"

#include <cmath>

#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"

namespace assay {
namespace {

struct FormEntry {
  Form form;
  const char* name;
};
constexpr FormEntry kForms[] = {
    {Form::recurrent, "recurrent"}, {Form::chunk, "chunk"}, {Form::chunk_log, "chunk_log"}};

/// The value of an option, its default, or null when it is off.
template <class Value>
const Value* option_value(const ValidCase& c, const std::string& name, OptionType type) {
  const OptionSpec* spec = c.schema.find_option(name);
  if (spec == nullptr || spec->type != type) {
    throw std::invalid_argument("option access: " + c.schema.op + " has no option " +
                                quote_name(name) + " of this type");
  }
  const auto given = c.data.options.find(name);
  const OptionValue* value = nullptr;
  if (given != c.data.options.end()) {
    value = &given->second;
  } else if (spec->default_value) {
    value = &*spec->default_value;
  }
  if (value == nullptr) return nullptr;
  const Value* typed = std::get_if<Value>(value);
  if (typed == nullptr) {
    throw std::invalid_argument("option access: " + quote_name(name) + " of " + c.schema.op +
                                " holds another type than its schema says");
  }
  return typed;
}

}  // namespace

std::string stored_axes(const std::string& axes, bool packed_state) {
  return packed_state && !axes.empty() && axes[0] == 'B' ? "S" + axes.substr(1) : axes;
}

std::string form_name(Form form) {
  for (const FormEntry& e : kForms) {
    if (e.form == form) return e.name;
  }
  throw std::invalid_argument("form_name: no such form");
}

Form parse_form(const std::string& text) {
  std::vector<std::string> known;
  for (const FormEntry& e : kForms) {
    if (text == e.name) return e.form;
    known.push_back(e.name);
  }
  throw InputError("form " + quote_name(text) + " is none of " + join(known, ", "));
}

const InputSpec* Schema::find_input(const std::string& name_or_log_name) const {
  for (const InputSpec& input : inputs) {
    const bool by_log = !input.log_name.empty() && input.log_name == name_or_log_name;
    if (input.name == name_or_log_name || by_log) return &input;
  }
  return nullptr;
}

const OutputSpec* Schema::find_output(const std::string& name) const {
  for (const OutputSpec& output : outputs) {
    if (output.name == name) return &output;
  }
  return nullptr;
}

const OptionSpec* Schema::find_option(const std::string& name) const {
  for (const OptionSpec& option : options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::int64_t Sizes::operator[](char axis) const {
  const auto found = by_letter.find(axis);
  if (found == by_letter.end()) {
    throw std::out_of_range(std::string("Sizes: no tensor fixes the axis ") + axis);
  }
  return found->second;
}

Shape Sizes::shape_of(const std::string& axes) const {
  Shape shape;
  for (char axis : axes) shape.push_back((*this)[axis]);
  return shape;
}

std::int64_t ValidCase::sequences() const {
  if (packed()) return static_cast<std::int64_t>(cu_seqlens.size()) - 1;
  return sizes.has('B') ? sizes['B'] : 1;
}

Shape ValidCase::input_shape(const InputSpec& spec) const {
  return sizes.shape_of(stored_axes(spec.axes, packed() && spec.role == Role::state));
}

Shape ValidCase::output_shape(const OutputSpec& spec) const {
  return sizes.shape_of(stored_axes(spec.axes, packed() && spec.final_state));
}

std::string given_name(const Case& data, const InputSpec& input) {
  if (data.tensors.count(input.name) != 0) return input.name;
  if (!input.log_name.empty() && data.tensors.count(input.log_name) != 0) return input.log_name;
  return "";
}

Domain domain_of(const InputSpec& input, const std::string& name) {
  if (name == input.name || name != input.log_name) return input.domain;
  const auto log = [](double x) { return x > 0 ? std::log(x) : -kInf; };
  return {log(input.domain.lo), log(input.domain.hi)};
}

std::string domain_note_text(const DomainNote& note) {
  return "tensor " + quote_name(note.tensor) + ": " + std::to_string(note.count) +
         (note.count == 1 ? " value" : " values") + " outside [" + number_text(note.domain.lo) +
         ", " + number_text(note.domain.hi) + "], the first at " + note.first_index + ": " +
         number_text(note.first_value);
}

bool option_bool(const ValidCase& c, const std::string& name) {
  const bool* value = option_value<bool>(c, name, OptionType::boolean);
  return value != nullptr && *value;
}

std::int64_t option_int(const ValidCase& c, const std::string& name) {
  const std::int64_t* value = option_value<std::int64_t>(c, name, OptionType::integer);
  return value == nullptr ? 0 : *value;
}

std::optional<double> option_real(const ValidCase& c, const std::string& name) {
  const double* value = option_value<double>(c, name, OptionType::real);
  return value == nullptr ? std::nullopt : std::optional<double>(*value);
}

std::string option_string(const ValidCase& c, const std::string& name) {
  const std::string* value = option_value<std::string>(c, name, OptionType::string);
  return value == nullptr ? "" : *value;
}

}  // namespace assay
