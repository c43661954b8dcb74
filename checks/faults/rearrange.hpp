// Changes of layout: heads copied or summed, steps reordered, one sequence cut out of a batch and
// its results put back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checks/faults/facts.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {

using IndexMap = std::function<std::int64_t(std::int64_t)>;

/// Elements before, along and after an axis of a shape.
struct AxisView {
  std::int64_t outer = 1, length = 1, inner = 1;
  AxisView(const Shape& shape, int axis) {
    for (int a = 0; a < static_cast<int>(shape.size()); ++a) {
      (a < axis ? outer : a == axis ? length : inner) *= shape[a];
    }
  }
};

/// Gives `input` one entry per state head: head h holds what head source(h) held. Does nothing for
/// an input that is absent or has no head axis.
void expand_heads(ValidCase& c, const std::string& input, const IndexMap& source);

/// The adjoint of expand_heads: sums the heads h with target(h) = g into head g, drops those with
/// target(h) < 0. `axis`: of the heads in t; `shared`: number of heads of the result.
template <class Real>
Tensor<Real> contract_heads(const Tensor<Real>& t, int axis, std::int64_t shared,
                            const IndexMap& target) {
  const AxisView view(t.shape, axis);
  Shape shape = t.shape;
  shape[axis] = shared;
  Tensor<Real> sum(shape);
  for (std::int64_t o = 0; o < view.outer; ++o) {
    for (std::int64_t h = 0; h < view.length; ++h) {
      const std::int64_t g = target(h);
      for (std::int64_t i = 0; g >= 0 && i < view.inner; ++i) {
        sum.data[(o * shared + g) * view.inner + i] +=
            t.data[(o * view.length + h) * view.inner + i];
      }
    }
  }
  return sum;
}

/// Rows of `width` values: row r of the result is row source[r] of `values`.
template <class Value>
std::vector<Value> gather_rows(const std::vector<Value>& values, std::int64_t width,
                               const std::vector<std::int64_t>& source) {
  std::vector<Value> result;
  result.reserve(source.size() * width);
  for (std::int64_t row : source) {
    result.insert(result.end(), values.begin() + row * width, values.begin() + (row + 1) * width);
  }
  return result;
}

/// Values of one step of a token tensor [B,T,…].
inline std::int64_t step_width(const Shape& shape) {
  std::int64_t width = 1;
  for (std::size_t a = 2; a < shape.size(); ++a) width *= shape[a];
  return width;
}

/// Has the tensor (input, its logarithm, output) a time axis?
bool has_time(const ValidCase& c, const std::string& tensor);

/// The steps of all token tensors in another order: flat step b T + t comes from source[b T + t],
/// a permutation.
template <class Real>
void reorder_time(Problem<Real>& problem, const std::vector<std::int64_t>& source) {
  for (auto* tensors : {&problem.inputs, &problem.cotangents}) {
    for (auto& [name, t] : *tensors) {
      if (has_time(*problem.valid, name)) t.data = gather_rows(t.data, step_width(t.shape), source);
    }
  }
}
template <class Real>
void reorder_time(const ValidCase& c, Result<Real>& result,
                  const std::vector<std::int64_t>& source) {
  for (auto* tensors : {&result.outputs, &result.gradients}) {
    for (auto& [name, t] : *tensors) {
      if (has_time(c, name)) t.data = gather_rows(t.data, step_width(t.shape), source);
    }
  }
}

/// Sequence s alone, as a case with B = 1 that is not packed.
ValidCase one_sequence(const ValidCase& c, std::int64_t s);

/// Where sequence s lies in a tensor with this time axis or state: first element, count. Params:
/// everything.
struct Span {
  std::int64_t first = 0, count = 0;
};
enum class Kind { token, state, whole };
Span span_of(const ValidCase& c, std::int64_t s, const Shape& shape, Kind kind);
/// Of an input (or its logarithm) or output.
Kind kind_of(const ValidCase& c, const std::string& tensor);

/// Adds the results of sequence s to those of the whole case, whose tensors start at zero. Tensors
/// that the whole does not have are dropped.
template <class Real>
void put_sequence(const ValidCase& c, std::int64_t s, const Result<Real>& part,
                  Result<Real>& whole) {
  const auto put = [&](const std::map<std::string, Tensor<Real>>& from,
                       std::map<std::string, Tensor<Real>>& to) {
    for (auto& [name, target] : to) {
      const Tensor<Real>& source = from.at(name);
      const Span span = span_of(c, s, target.shape, kind_of(c, name));
      for (std::int64_t i = 0; i < span.count; ++i) target.data[span.first + i] += source.data[i];
    }
  };
  put(part.outputs, whole.outputs);
  put(part.gradients, whole.gradients);
}

/// Zeros in the shapes of what `evaluate` returns.
template <class Real>
Result<Real> zero_result(const Problem<Real>& problem, bool gradients) {
  const ValidCase& c = *problem.valid;
  Result<Real> result;
  for (const OutputSpec& out : c.schema.outputs) {
    result.outputs.emplace(out.name, Tensor<Real>(c.output_shape(out)));
  }
  for (const auto& [name, tensor] : problem.inputs) {
    if (gradients && c.schema.find_input(name)->differentiable) {
      result.gradients.emplace(name, Tensor<Real>(tensor.shape));
    }
  }
  return result;
}

/// Name of the final-state output that continues an initial state: "s_final" of "s0", or "".
std::string final_of(const ValidCase& c, const std::string& state);

}  // namespace assay
