// Small cases for the tests of the reference.
#pragma once

#include <string>
#include <vector>

#include "reference/case/generate.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/oracle/local_problem.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay::testing {

inline ValidCase make_case(const GenerateRequest& request) {
  const Operation& operation = find_operation(request.op);
  Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const Schema schema = operation.schema(&data);
  return validate(std::move(data), schema);
}

/// Validates a case again after the test has changed it.
inline ValidCase revalidate(const Case& data) {
  return validate(data, find_operation(data.op).schema(&data));
}

/// A case in which every value is a multiple of 1/8, and scale is 1/2: exact in rationals and cheap
/// at any length. `request` gives operation, shape and what is present.
inline ValidCase dyadic_case(GenerateRequest request) {
  request.options.push_back("scale=0.5");
  ValidCase c = make_case(request);
  Case data = c.data;
  for (auto& [name, tensor] : data.tensors) {
    for (double& value : tensor.values) value = static_cast<int>(value * 8) / 8.0;
  }
  return revalidate(data);
}

template <class Real>
Result<Real> run(const ValidCase& c, RunOptions options) {
  return evaluate<Real>(lift<Real>(c), options);
}

/// First difference of two results, empty when all tensors are equal element for element.
template <class Real>
std::string difference(const std::map<std::string, Tensor<Real>>& a,
                       const std::map<std::string, Tensor<Real>>& b) {
  if (a.size() != b.size()) return "different sets of tensors";
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end()) return name + " is missing";
    if (found->second.shape != tensor.shape) return name + " has another shape";
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      if (!(tensor.data[i] == found->second.data[i])) return name + index_text(tensor.shape, i);
    }
  }
  return "";
}

}  // namespace assay::testing
