// Evaluation of an operation in one engine.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "reference/case/schema.hpp"
#include "reference/case/tensor.hpp"

namespace assay {

class Operation;  // registry.hpp

/// A case lifted into scalar Real: the inputs and cotangents by name. Gates given as logarithms
/// stay logarithms.
template <class Real>
struct Problem {
  const ValidCase* valid = nullptr;
  std::map<std::string, Tensor<Real>> inputs;      // by the name present in the case
  std::map<std::string, Tensor<Real>> cotangents;  // by output name, absent = zero
};

template <class Real>
struct Result {
  std::map<std::string, Tensor<Real>> outputs;
  std::map<std::string, Tensor<Real>> gradients;  // by input name (without the d_)
};

struct RunOptions {
  Form form = Form::recurrent;
  bool gradients = false;
  int threads = 1;
  /// Called now and then with the share of the work that is done, from any thread.
  std::function<void(double)> progress = {};
};

/// Exact lift of every stored number; must run under the precision that is wanted.
template <class Real>
Problem<Real> lift(const ValidCase& c);

/// Outputs, and gradients when asked. The same bits for every number of threads.
template <class Real>
Result<Real> evaluate(const Problem<Real>& problem, const RunOptions& options);

/// The same for an operation that need not be registered (tests plant wrong adjoints).
template <class Real>
Result<Real> evaluate(const Operation& operation, const Problem<Real>& problem,
                      const RunOptions& options);

}  // namespace assay
