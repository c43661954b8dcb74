// Evaluation to a stated number of certain decimal digits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

enum class EngineKind { ball, mpfr, rational, dd };
std::string engine_name(EngineKind engine);
EngineKind parse_engine(const std::string& text);

struct EvalRequest {
  int digits = 50;  // 1 to 100000
  Form form = Form::recurrent;
  EngineKind engine = EngineKind::ball;
  bool gradients = false;
  int threads = 1;
  std::function<void(double share, const std::string& what)> progress = {};
};

/// Decimal values of one tensor, row-major.
struct DecimalTensor {
  Shape shape;
  std::vector<std::string> values;  // each within one unit of its last digit
  std::vector<double> nearest;      // the nearest doubles, for files
};

struct Evaluation {
  std::string op;
  int digits = 0;
  EngineKind engine = EngineKind::ball;
  Form form = Form::recurrent;
  long bits = 0;  // working precision that sufficed
  std::map<std::string, DecimalTensor> outputs;
  std::map<std::string, DecimalTensor> gradients;  // keyed "d_<input>"
  std::vector<std::string> notes;                  // one line each: domain, ties, zeros by bound
};

/// Balls: precision doubles until every digit asked for is certain. mpfr: until two precisions, one
/// twice the other, agree. rational: exact, or InputError saying which function is not rational.
/// dd: double-double with its error bound; as many digits as are certain, InputError if none asked
/// can be had.
Evaluation evaluate_certified(const ValidCase& c, const EvalRequest& request);

}  // namespace assay
