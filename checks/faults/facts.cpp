#include "checks/faults/facts.hpp"

#include <algorithm>
#include <cmath>

#include "reference/oracle/registry.hpp"

namespace assay::facts {

bool is_op(const ValidCase& c, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), c.data.op) != names.end();
}

bool is_matrix_memory(const ValidCase& c) {
  return c.data.op == "mom" || find_operation(c.data.op).is_fast_weight();
}

bool has_value(const ValidCase& c, const std::string& tensor) {
  const auto found = c.data.tensors.find(tensor);
  if (found == c.data.tensors.end()) return false;
  const std::vector<double>& v = found->second.values;
  return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; });
}

bool any_cotangent(const ValidCase& c) {
  return std::any_of(c.schema.outputs.begin(), c.schema.outputs.end(),
                     [&](const OutputSpec& out) { return has_value(c, "d_" + out.name); });
}

bool is_given(const ValidCase& c, const std::string& input) {
  const InputSpec* spec = c.schema.find_input(input);
  return spec != nullptr && !given_name(c.data, *spec).empty();
}

std::vector<double> values(const ValidCase& c, const std::string& input) {
  const InputSpec* spec = c.schema.find_input(input);
  if (spec == nullptr) return {};
  const std::string name = given_name(c.data, *spec);
  if (name.empty()) return {spec->default_value};
  std::vector<double> v = c.data.tensors.at(name).values;
  if (name != spec->name) {
    for (double& x : v) x = std::exp(x);
  }
  return v;
}

bool any(const ValidCase& c, const std::string& input, const Predicate& predicate) {
  const std::vector<double> v = values(c, input);
  return std::any_of(v.begin(), v.end(), predicate);
}

bool all(const ValidCase& c, const std::string& input, const Predicate& predicate) {
  const std::vector<double> v = values(c, input);
  return std::all_of(v.begin(), v.end(), predicate);
}

bool differs_from(const ValidCase& c, const std::string& input, double x) {
  return any(c, input, [x](double value) { return value != x; });
}

bool all_positive(const ValidCase& c, std::initializer_list<const char*> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [&](const char* input) {
    return all(c, input, [](double x) { return x > 0; });
  });
}

std::vector<Sequence> sequences(const ValidCase& c) {
  std::vector<Sequence> list;
  for (std::int64_t s = 0; s < c.sequences(); ++s) {
    if (c.packed()) {
      list.push_back({0, c.cu_seqlens[s], c.cu_seqlens[s + 1] - c.cu_seqlens[s]});
    } else {
      list.push_back({s, 0, c.sizes.has('T') ? c.sizes['T'] : 0});
    }
  }
  return list;
}

std::int64_t longest(const ValidCase& c) {
  std::int64_t steps = 0;
  for (const Sequence& s : sequences(c)) steps = std::max(steps, s.steps);
  return steps;
}

std::int64_t chunk(const ValidCase& c) {
  constexpr std::int64_t kUsual = 64;
  return c.schema.find_option("chunk") ? option_int(c, "chunk") : kUsual;
}

bool has_state(const ValidCase& c) {
  return std::any_of(c.schema.inputs.begin(), c.schema.inputs.end(),
                     [](const InputSpec& in) { return in.role == Role::state; });
}

bool remembers(const ValidCase& c) {
  if (longest(c) == 0) return false;
  return longest(c) >= 2 ||
         std::any_of(c.schema.inputs.begin(), c.schema.inputs.end(), [&](const InputSpec& in) {
           return in.role == Role::state && has_value(c, in.name);
         });
}

int head_axis(const ValidCase& c, const InputSpec& input) {
  const std::size_t at = input.axes.find(c.schema.head_axis);
  return at == std::string::npos || input.role == Role::state ? -1 : static_cast<int>(at);
}

std::int64_t heads(const ValidCase& c) {
  return c.sizes.has(c.schema.head_axis) ? c.sizes[c.schema.head_axis] : 1;
}

std::int64_t heads(const ValidCase& c, const std::string& input) {
  const InputSpec* spec = c.schema.find_input(input);
  const std::string name = spec ? given_name(c.data, *spec) : "";
  const int axis = spec ? head_axis(c, *spec) : -1;
  return name.empty() || axis < 0 ? heads(c) : c.data.tensors.at(name).shape[axis];
}

std::string base_name(const std::string& input) {
  for (const std::string suffix : {"_mem", "_shared"}) {
    if (input.size() > suffix.size() && input.ends_with(suffix)) {
      return input.substr(0, input.size() - suffix.size());
    }
  }
  return input;
}

bool is_decay(const InputSpec& input) {
  const std::string base = base_name(input.name);
  return base == "alpha" || base == "gamma" || base == "f" || base == "mu";
}

}  // namespace assay::facts
