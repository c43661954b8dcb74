// From a recipe to tensors: the generator of `assay gen`, and then what only a fuzzer wants.
#include <algorithm>
#include <cmath>

#include "fuzz/generators/recipe.hpp"
#include "reference/case/generate.hpp"
#include "reference/case/random.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

bool is_key(const std::string& name) {
  return name == "k" || name == "k_mem" || name == "k_shared";
}

bool is_token_vector(const InputSpec& in) {
  const char last = in.axes.empty() ? ' ' : in.axes.back();
  return in.role == Role::token && !in.integer && !std::isfinite(in.domain.lo) &&
         !std::isfinite(in.domain.hi) && (last == 'K' || last == 'V' || last == 'D');
}

/// A share between 0 and 1 that keeps the state.
bool is_decay(const InputSpec& in) {
  return !in.log_name.empty() || (in.domain.lo == 0 && in.domain.hi == 1);
}

class Finisher {
 public:
  Finisher(const CaseRecipe& recipe, const Schema& schema, Case& data)
      : recipe_(recipe), schema_(schema), data_(data) {}

  void finish() {
    for (auto& [name, tensor] : data_.tensors) {
      const InputSpec* in = schema_.find_input(name);
      if (!in || in->integer || tensor.values.empty()) continue;
      Stream random(recipe_.seed, "fuzz " + name);
      if (is_token_vector(*in)) values(tensor, random);
      if (is_key(name)) keys(tensor, random);
      if (in->role == Role::token && in->axes.back() == 'M') routing(tensor, random);
      if (is_activation(*in, schema_)) activations(tensor, random);
      if (in->role == Role::state) state(tensor);
      if (ladder() && is_decay(*in)) steps(*in, name, tensor, random);
      for (double& x : tensor.values) x = round_to_dtype(x, tensor.dtype);
    }
    cotangents();
    if (recipe_.states == "absent") {
      for (const InputSpec& in : schema_.inputs) {
        if (in.role == Role::state && in.optional) data_.tensors.erase(in.name);
      }
    }
  }

 private:
  bool ladder() const {
    return std::find(recipe_.gates.begin(), recipe_.gates.end(), "ladder") != recipe_.gates.end();
  }

  void values(CaseTensor& t, Stream& random) const {
    const double tiny = t.dtype == DType::F16    ? 0x1p-24
                        : t.dtype == DType::BF16 ? 0x1p-133
                        : t.dtype == DType::F64  ? 0x1p-1074
                                                 : 0x1p-149;
    for (double& x : t.values) {
      if (recipe_.values == "unit") x = random.below(3) == 0 ? 1 : 0;
      if (recipe_.values == "minus-zero" && random.below(2) == 0) x = -0.0;
      if (recipe_.values == "subnormal") {
        const std::int64_t kind = random.below(4);
        if (kind == 0) x = -0.0;
        if (kind == 1) x = tiny * static_cast<double>(random.below(8)) * (x < 0 ? -1 : 1);
      }
    }
  }

  void keys(CaseTensor& t, Stream& random) const {
    const std::string& kind = recipe_.keys;
    if (kind == "random") return;
    const std::int64_t width = t.shape.back();
    const auto rows = static_cast<std::int64_t>(t.values.size()) / width;
    const std::vector<double> first(t.values.begin(), t.values.begin() + width);
    for (std::int64_t r = 0; r < rows; ++r) {
      double* row = t.values.data() + r * width;
      if (kind == "zero" || (kind == "zero-rows" && random.below(10) < 3)) {
        std::fill(row, row + width, 0.0);
      } else if (kind == "repeated" || kind == "alternating") {
        const double sign = kind == "alternating" && r % 2 != 0 ? -1 : 1;
        for (std::int64_t i = 0; i < width; ++i) row[i] = first[i] * sign;
      } else if (kind == "orthogonal" || kind == "one-hot") {
        std::fill(row, row + width, 0.0);
        const bool in_turn = kind == "orthogonal";
        row[in_turn ? r % width : random.below(width)] = in_turn || random.below(2) == 0 ? 1 : -1;
      }
    }
  }

  void routing(CaseTensor& t, Stream& random) const {
    const std::string& kind = recipe_.routing;
    if (kind == "random") return;
    const std::int64_t M = t.shape.back();
    const auto rows = static_cast<std::int64_t>(t.values.size()) / M;
    const std::int64_t chosen = random.below(M);
    for (std::int64_t r = 0; r < rows; ++r) {
      double* row = t.values.data() + r * M;
      if (kind == "one") row[chosen] += 8;
      if (kind == "empty") row[chosen] -= 8;
      if (kind == "gaps") row[random.below(M)] += 18;
      if (kind == "ties") {
        for (std::int64_t m = 0; m < M; ++m) {
          row[m] = row[0] + 0x1p-7 * static_cast<double>((m + r) % M);
        }
      }
    }
  }

  /// Where fp32 and bf16 have 0 or 1 for a sigmoid, ±1 for tanh, x or 0 for softplus.
  void activations(CaseTensor& t, Stream& random) const {
    if (recipe_.activations == "random") return;
    for (double& x : t.values) {
      if (recipe_.activations == "mixed" && random.below(4) != 0) continue;
      const double sign = random.below(2) == 0 ? -1 : 1;
      x = sign * static_cast<double>(20 + random.below(81));
    }
  }

  void state(CaseTensor& t) const {
    if (recipe_.states == "zero") std::fill(t.values.begin(), t.values.end(), 0.0);
  }

  /// Logarithms from 0 down to -100 and -inf, mixed: what overflows or underflows a product of
  /// gates, or cancels between two of them.
  void steps(const InputSpec& in, const std::string& name, CaseTensor& t, Stream& random) const {
    static const std::vector<double> logs = {0, -0x1p-10, -0.5, -5.6, -20, -50, -100, -kInf};
    const bool log = name == in.log_name;
    for (double& x : t.values) {
      const double l = logs[random.below(static_cast<std::int64_t>(logs.size()))];
      // exp(l) need not be correctly rounded: what counts is what is stored, cut to 16 bits so that
      // every library's exp gives the same.
      x = log ? l : round_to_dtype(std::exp(l), DType::BF16);
    }
  }

  void cotangents() {
    for (const auto& [output, kind] : recipe_.cotangents) {
      const auto found = data_.tensors.find("d_" + output);
      if (schema_.find_output(output) == nullptr) {
        throw InputError("cot " + quote_name(output) + ": is no output of " + schema_.op);
      }
      if (found == data_.tensors.end()) continue;
      if (kind == "absent") {
        data_.tensors.erase(found);
      } else if (kind == "one-hot" && !found->second.values.empty()) {
        Stream random(recipe_.seed, "fuzz d_" + output);
        std::vector<double>& v = found->second.values;
        std::fill(v.begin(), v.end(), 0.0);
        v[random.below(static_cast<std::int64_t>(v.size()))] = 1;
      }
    }
  }

  const CaseRecipe& recipe_;
  const Schema& schema_;
  Case& data_;
};

}  // namespace

const std::vector<std::string>& key_kinds() {
  static const std::vector<std::string> kinds = {
      "random", "zero", "zero-rows", "repeated", "alternating", "orthogonal", "one-hot"};
  return kinds;
}

const std::vector<std::string>& value_kinds() {
  static const std::vector<std::string> kinds = {"random", "unit", "subnormal", "minus-zero"};
  return kinds;
}

const std::vector<std::string>& routing_kinds() {
  static const std::vector<std::string> kinds = {"random", "one", "empty", "ties", "gaps"};
  return kinds;
}

const std::vector<std::string>& activation_kinds() {
  static const std::vector<std::string> kinds = {"random", "saturated", "mixed"};
  return kinds;
}

bool is_activation(const InputSpec& in, const Schema& schema) {
  if (in.role != Role::token || in.integer || in.axes.empty()) return false;
  if (std::isfinite(in.domain.lo) || std::isfinite(in.domain.hi)) return false;
  const char last = in.axes.back();
  return last == schema.head_axis || last == 'D' || last == 'E';
}

ValidCase build_case(const CaseRecipe& recipe) {
  const Operation& operation = find_operation(recipe.op);
  GenerateRequest request;
  request.op = recipe.op;
  request.shape = recipe.shape;
  for (const std::string& gate : recipe.gates) {
    if (gate != "ladder") request.gates.push_back(gate);
  }
  request.log_gates = recipe.log_gates;
  request.dtype = recipe.dtype;
  request.seed = recipe.seed;
  request.options = recipe.options;
  request.optional_inputs = recipe.optional_inputs;
  request.without = recipe.without;
  Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const Schema schema = operation.schema(&data);
  Finisher(recipe, schema, data).finish();
  const Schema final_schema = operation.schema(&data);
  return validate(std::move(data), final_schema);
}

}  // namespace assay
