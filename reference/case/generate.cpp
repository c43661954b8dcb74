#include "reference/case/generate.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "reference/case/draw.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/options.hpp"
#include "reference/case/shape_text.hpp"
#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"

namespace assay {
namespace {

class Generator {
 public:
  Generator(const SchemaProvider& provider, const GenerateRequest& request)
      : provider_(provider), request_(request), plan_(parse_value_plan(request.gates)) {
    if (is_integer(request.dtype)) {
      throw InputError("dtype " + dtype_name(request.dtype) + ": must be F64, F32, F16 or BF16");
    }
    case_.op = request.op;
    case_.seed = std::to_string(request.seed);
  }

  Case make() {
    set_options();
    schema_ = provider_(&case_);
    full_ = provider_(nullptr);
    check_names();
    lengths_ = parse_shape(request_.shape, schema_, full_);
    add_inputs();
    for (const InputSpec& input : full_.inputs) try_optional(input);
    // An operation may have more states, or larger ones, once the other tensors are there.
    schema_ = provider_(&case_);
    states_ = true;
    add_inputs();
    if (!lengths_.cu_seqlens.empty()) add_offsets();
    check_ranges_used();
    const ValidCase valid = validate(case_, provider_(&case_));
    if (request_.cotangents) add_cotangents(valid);
    return std::move(case_);
  }

 private:
  /// Twice, because one option may decide which others there are.
  void set_options() {
    for (int round = 0; round < 2; ++round) {
      const Schema schema = provider_(&case_);
      std::vector<std::string> known;
      for (const OptionSpec& spec : schema.options) known.push_back(spec.name);
      std::set<std::string> seen;
      for (const std::string& text : request_.options) {
        const std::size_t equals = text.find('=');
        if (equals == std::string::npos) {
          throw InputError("option " + quote_name(text) + ": must be name=value");
        }
        const std::string name = text.substr(0, equals);
        if (!seen.insert(name).second) {
          throw InputError("option " + quote_name(name) + " is given twice");
        }
        const OptionSpec* spec = schema.find_option(name);
        if (spec != nullptr) {
          case_.options[name] = option_from_text(*spec, text.substr(equals + 1));
        } else if (round == 1) {
          throw InputError("option " + quote_name(name) + ": is no option of " + schema.op +
                           did_you_mean(name, known));
        }
      }
      check_options(case_, schema);
    }
  }

  std::vector<std::string> input_names() const {
    std::vector<std::string> names;
    for (const Schema* schema : {&schema_, &full_}) {
      for (const InputSpec& input : schema->inputs) {
        names.push_back(input.name);
        if (!input.log_name.empty()) names.push_back(input.log_name);
      }
    }
    return names;
  }

  void check_names() const {
    const std::vector<std::string> known = input_names();
    const auto check = [&](const std::string& what, const std::string& name) {
      if (std::find(known.begin(), known.end(), name) != known.end()) return;
      throw InputError(what + " " + quote_name(name) + ": is no input of " + request_.op +
                       did_you_mean(name, known));
    };
    for (const auto& [name, range] : plan_.ranges) check("gates", name);
    for (const std::string& name : request_.without) {
      check("without", name);
      for (const Schema* schema : {&schema_, &full_}) {
        const InputSpec* input = schema->find_input(name);
        if (input == nullptr || input->optional) continue;
        throw InputError("without " + quote_name(name) + ": " + request_.op + " requires it");
      }
    }
  }

  /// Every range belongs to a tensor that was made (mom has the names of several updates).
  void check_ranges_used() const {
    for (const auto& [name, range] : plan_.ranges) {
      if (case_.tensors.count(name) != 0) continue;
      throw InputError("gates " + quote_name(name) + ": this case of " + request_.op +
                       " has no such tensor");
    }
  }

  bool has_range(const std::string& name) const { return plan_.ranges.count(name) != 0; }

  bool excluded(const InputSpec& input) const {
    return std::any_of(
        request_.without.begin(), request_.without.end(),
        [&](const std::string& name) { return name == input.name || name == input.log_name; });
  }

  bool wanted(const InputSpec& input) const {
    if (!input.optional) return true;
    if (excluded(input)) return false;
    return request_.optional_inputs || has_range(input.name) || has_range(input.log_name);
  }

  std::string name_to_give(const InputSpec& input) const {
    if (input.log_name.empty()) return input.name;
    const bool linear = has_range(input.name), log = has_range(input.log_name);
    if (linear && log) {
      throw InputError("gates: exactly one of " + input.name + ", " + input.log_name +
                       " may be given");
    }
    return log || (request_.log_gates && !linear) ? input.log_name : input.name;
  }

  void add_inputs() {
    for (const InputSpec& input : schema_.inputs) {
      const bool now = (input.role == Role::state) == states_;
      if (now && wanted(input) && given_name(case_, input).empty()) add_input(input);
    }
  }

  void add_input(const InputSpec& input) {
    const std::string name = name_to_give(input);
    CaseTensor tensor;
    tensor.shape = lengths_.shape_of(schema_, input);
    tensor.dtype = input.integer ? DType::I64 : request_.dtype;
    const std::int64_t count = reserve(name, tensor.shape);
    const std::int64_t last = tensor.shape.empty() ? 1 : tensor.shape.back();
    Stream random(request_.seed, name);
    for (std::int64_t i = 0; i < count; ++i) {
      if (input.integer) {
        tensor.integers.push_back(draw_integer(random, input));
        continue;
      }
      const double value = draw_value(random, schema_, input, name, last, plan_);
      tensor.values.push_back(round_to_dtype(value, tensor.dtype));
    }
    case_.tensors[name] = std::move(tensor);
  }

  static std::int64_t draw_integer(Stream& random, const InputSpec& input) {
    const bool bounded = std::abs(input.domain.lo) < 0x1p53 && std::abs(input.domain.hi) < 0x1p53;
    if (!bounded) return static_cast<std::int64_t>(input.default_value);
    const auto lo = static_cast<std::int64_t>(input.domain.lo);
    return lo + random.below(static_cast<std::int64_t>(input.domain.hi) - lo + 1);
  }

  /// An optional input that the schema shows only when it, or one of its group, is there.
  void try_optional(const InputSpec& input) {
    if (!input.optional || input.role == Role::state || !wanted(input)) return;
    if (schema_.find_input(input.name) != nullptr) return;
    Case tentative = case_;
    tentative.tensors[name_to_give(input)] = CaseTensor{request_.dtype, {0}, {}, {}};
    const Schema grown = provider_(&tentative);
    if (grown.find_input(input.name) == nullptr) return;
    for (const InputSpec& other : grown.inputs) {
      if (!other.optional && excluded(other)) return;
    }
    schema_ = grown;
    add_inputs();
  }

  void add_offsets() {
    CaseTensor& tensor = case_.tensors[kCuSeqlens];
    tensor.dtype = DType::I64;
    tensor.integers = lengths_.cu_seqlens;
    tensor.shape = {static_cast<std::int64_t>(tensor.integers.size())};
  }

  void add_cotangents(const ValidCase& valid) {
    for (const OutputSpec& output : valid.schema.outputs) {
      if (output.integer) continue;
      const std::string name = "d_" + output.name;
      CaseTensor tensor;
      tensor.dtype = request_.dtype;
      tensor.shape = valid.output_shape(output);
      const std::int64_t count = reserve(name, tensor.shape);
      Stream random(request_.seed, name);
      for (std::int64_t i = 0; i < count; ++i) {
        tensor.values.push_back(round_to_dtype(random.normal(), tensor.dtype));
      }
      case_.tensors[name] = std::move(tensor);
    }
  }

  /// Number of elements, after a look at whether they fit into memory: as doubles, and once more as
  /// bytes when the file is written.
  std::int64_t reserve(const std::string& name, const Shape& shape) {
    const auto count = checked_element_count(shape);
    if (!count || *count > kMaxElements) {
      throw InputError("tensor " + quote_name(name) + " " + shape_text(shape) +
                       ": more than 2^31 elements");
    }
    bytes_ += 24 * static_cast<std::uint64_t>(*count);
    if (bytes_ > machine_memory()) {
      throw InputError("tensor " + quote_name(name) + " " + shape_text(shape) +
                       ": the case does not fit into memory");
    }
    return *count;
  }

  const SchemaProvider& provider_;
  const GenerateRequest& request_;
  const ValuePlan plan_;
  Case case_;
  Schema schema_;  // for the case as it is
  Schema full_;    // with everything the operation can have
  ShapeRequest lengths_;
  bool states_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Case generate(const SchemaProvider& schema, const GenerateRequest& request) {
  return Generator(schema, request).make();
}

}  // namespace assay
