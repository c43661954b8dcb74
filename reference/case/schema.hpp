// The schema of an operation: names, shapes, domains. Everything outside `recurrences/` (files,
// command line, gradient checks, generators, reports) reads this and never names an operation.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/case/tensor.hpp"

namespace assay {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Role of an input tensor.
enum class Role {
  token,  // has a time axis T: one value per step
  param,  // no batch and no time axis: per head or global, its gradient sums over batch and time
  state,  // initial state: leading axis B (S when packed), then H where there is one
};

/// Closed interval of legal values; outside it a value is evaluated but reported (an error with
/// --strict). NaN and infinities are always refused, except -inf for a logarithmic gate.
struct Domain {
  double lo = -kInf;
  double hi = kInf;
};

struct InputSpec {
  std::string name;
  /// Axes as one letter each, e.g. "BTHK". H is the head axis: it may hold Hx < H heads where Hx
  /// divides H (a head group), except in states.
  std::string axes;
  Role role = Role::token;
  std::string doc;
  Domain domain = {};
  bool optional = false;
  double default_value = 0.0;
  /// Name under which the logarithm may be given instead ("log_alpha"), empty if there is none.
  /// Exactly one of the two is present in a case; the gradient is with respect to that one.
  std::string log_name = {};
  bool differentiable = true;
  bool integer = false;  // I64 or I32 in files, no gradient
};

struct OutputSpec {
  std::string name;
  std::string axes;
  std::string doc;
  bool final_state = false;
  bool integer = false;  // I64, no cotangent
};

enum class OptionType { boolean, integer, real, string };

struct OptionSpec {
  std::string name;
  OptionType type;
  /// Absent: the operation defines a default that depends on the shapes (scale) or "off".
  std::optional<OptionValue> default_value;
  std::string doc;
  double lo = -kInf, hi = kInf;           // numeric range, closed
  std::vector<std::string> choices = {};  // for strings
};

/// Which forms an operation can be evaluated in.
enum class Form { recurrent, chunk, chunk_log };
std::string form_name(Form form);
Form parse_form(const std::string& text);

/// An axis whose length follows from another's: length(axis) = length(from) + offset.
struct DerivedAxis {
  char axis;
  char from;
  std::int64_t offset;
};

struct Schema {
  std::string op;
  std::string title;   // one line for `assay list ops`
  std::string source;  // key and equation, e.g. "[MDN v1, Eqs. 3-5]"
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<OptionSpec> options;
  std::vector<Form> forms = {Form::recurrent};
  std::vector<DerivedAxis> derived = {};
  /// Axes whose length the operation itself fixes (the 3 gates of a GRU).
  std::map<char, std::int64_t> fixed_axes = {};
  /// Letter of the head axis ('H', or 'N' as the M2RNN paper has it).
  char head_axis = 'H';
  /// Do heads run independently of each other (all recurrences) or together (m2rnn_block)?
  bool heads_are_independent = true;
  bool packable = true;  // accepts cu_seqlens

  // Null when there is none of that name.
  const InputSpec* find_input(const std::string& name_or_log_name) const;
  const OutputSpec* find_output(const std::string& name) const;
  const OptionSpec* find_option(const std::string& name) const;
};

/// Sizes of the axes by letter; 'H' is the number of state heads.
struct Sizes {
  std::map<char, std::int64_t> by_letter;
  /// Throws std::out_of_range for a letter that no tensor fixed.
  std::int64_t operator[](char axis) const;
  bool has(char axis) const { return by_letter.count(axis) != 0; }
  /// Shape of an axes string.
  Shape shape_of(const std::string& axes) const;
};

/// A gate outside its domain: evaluated, but said.
struct DomainNote {
  std::string tensor;
  std::int64_t count = 0;
  std::string first_index;
  double first_value = 0.0;
  Domain domain;
};

/// A case that was checked against its schema.
struct ValidCase {
  Case data;
  Schema schema;  // for these options
  Sizes sizes;
  std::vector<std::int64_t> cu_seqlens;  // empty when not packed
  std::vector<DomainNote> notes;
  bool packed() const { return !cu_seqlens.empty(); }
  /// Number of sequences: S when packed, B otherwise.
  std::int64_t sequences() const;
  /// Full shapes; states have S in place of B when packed.
  Shape input_shape(const InputSpec& spec) const;
  Shape output_shape(const OutputSpec& spec) const;
};

/// "tensor 'log_mu': 256 values outside [-inf, 0], the first at [0,0,1]: 0.05"
std::string domain_note_text(const DomainNote& note);

/// Name under which `data` holds the input: its name, its log_name, or "" when it is absent.
std::string given_name(const Case& data, const InputSpec& input);

/// The domain of the tensor called `name`, which is the input's name or its log_name.
Domain domain_of(const InputSpec& input, const std::string& name);

/// Typed option access with the schema's default applied; an option that is absent and has no
/// default is off: false, 0, nothing, "". Throws std::invalid_argument for an option that the
/// schema does not have or has with another type.
bool option_bool(const ValidCase& c, const std::string& name);
std::int64_t option_int(const ValidCase& c, const std::string& name);
std::optional<double> option_real(const ValidCase& c, const std::string& name);
std::string option_string(const ValidCase& c, const std::string& name);

/// Checks names, dtypes, shapes, head groups, cu_seqlens, exactly-one-of-log rule, values and
/// options of `data` against `schema`. Throws InputError with one line; fills `notes` for values
/// outside their domain.
ValidCase validate(Case data, const Schema& schema);

}  // namespace assay
