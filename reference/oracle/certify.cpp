#include "reference/oracle/certify.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "reference/oracle/decimal.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

// Beyond this many bits a case is given up as undecided rather than run for days.
constexpr long kMostBits = 1L << 20;

long bits_for(int digits) { return static_cast<long>(std::ceil(digits * 3.3219280948873626)) + 2; }

// An element whose enclosure still contains 0 when its radius is below 2^-this times the largest
// magnitude of its tensor is printed as 0, with a note that states the bound. It leaves room for
// values that are honestly small, such as what two gates of e^-100 leave (2^-289).
long zero_bits(int digits) { return 4 * bits_for(digits) + 256; }

mpfr_srcptr raw(const Mpfr& x) { return x.backend().data(); }

struct Text {
  std::string decimal;
  double nearest;
};

Text text_of(const Mpfr& x, int digits) {
  return {decimal_text(raw(x), digits), mpfr_get_d(raw(x), MPFR_RNDN)};
}

// Arb's exponents are unbounded, MPFR's are not: 0 for what is below 2^-(2^62).
Mpfr midpoint(const Ball& x, const std::string& where) {
  Mpfr m;
  arf_get_mpfr(m.backend().data(), arb_midref(x.raw()), MPFR_RNDN);
  if (!mpfr_number_p(raw(m))) {
    throw std::runtime_error("undecided: the magnitude of " + where +
                             " is beyond 2^(2^62), which cannot be printed");
  }
  return m;
}

Mpfr nearest(const Rational& x) {
  Mpfr m;
  mpfr_set_q(m.backend().data(), x.value().backend().data(), MPFR_RNDN);
  return m;
}

/// What a pass over all tensors found.
struct Outcome {
  bool zeros_by_bound = true;  // may what is far below its tensor be printed as 0?
  bool certain = true;
  long missing_bits = 0;   // of the worst element
  bool undecided = false;  // some element is not even known to differ from 0
  bool finite = true;
  std::string where;  // first element that is not certain
  std::vector<std::string> notes;
};

template <class Real>
using Tensors = std::map<std::string, Tensor<Real>>;

// log2 of an upper bound of |x|; a large negative number for 0.
double magnitude_log2(const Ball& x) {
  mag_t m;
  mag_init(m);
  arb_get_mag(m, x.raw());
  const double bits = mag_is_zero(m) ? -1e300 : mag_get_d_log2_approx(m);
  mag_clear(m);
  return bits;
}

double radius_log2(const Ball& x) {
  return mag_is_zero(arb_radref(x.raw())) ? -1e300 : mag_get_d_log2_approx(arb_radref(x.raw()));
}

// log2 of the largest element that is known to differ from 0.
double largest_log2(const Tensor<Ball>& tensor) {
  double largest = -1e300;
  for (const Ball& x : tensor.data) {
    if (fn::is_finite(x) && !x.contains_zero()) largest = std::max(largest, magnitude_log2(x));
  }
  return largest;
}

// `scale` is the log2 of the largest element of the whole result; it stands in for that of a tensor
// all of whose elements cancel.
void certify_tensor(const std::string& name, const Tensor<Ball>& tensor, int digits, double scale,
                    DecimalTensor& out, Outcome& outcome) {
  out.shape = tensor.shape;
  double largest = largest_log2(tensor);
  if (largest < -1e299) largest = scale;
  std::int64_t zeros = 0, first_zero = -1, tiny = 0, first_tiny = -1;
  double bound = -1e300;
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const Ball& x = tensor.data[i];
    const bool finite = fn::is_finite(x);
    if (finite && fn::is_zero(x)) {
      out.values.push_back("0");
      out.nearest.push_back(0);
      continue;
    }
    const long missing = finite ? bits_for(digits) - x.accuracy_bits() : 0;
    if (finite && missing <= 0 && !x.contains_zero()) {
      const Mpfr m = midpoint(x, name + index_text(tensor.shape, i));
      if (mpfr_zero_p(raw(m)) && tiny++ == 0) first_tiny = i;
      const Text text = mpfr_zero_p(raw(m)) ? Text{"0", 0} : text_of(m, digits);
      out.values.push_back(text.decimal);
      out.nearest.push_back(text.nearest);
      continue;
    }
    if (outcome.zeros_by_bound && finite && x.contains_zero() &&
        radius_log2(x) < largest - zero_bits(digits)) {
      if (zeros++ == 0) first_zero = i;
      bound = std::max(bound, magnitude_log2(x));
      out.values.push_back("0");
      out.nearest.push_back(0);
      continue;
    }
    if (outcome.certain) outcome.where = name + index_text(tensor.shape, i);
    outcome.certain = false;
    outcome.missing_bits = std::max(outcome.missing_bits, missing);
    if (!finite || x.contains_zero()) outcome.undecided = true;
    outcome.finite = outcome.finite && finite;
  }
  if (tiny > 0) {
    outcome.notes.push_back(name + ": " + std::to_string(tiny) +
                            " value(s) printed as 0 are not 0 but below 2^-(2^62) in magnitude, "
                            "first at " +
                            index_text(tensor.shape, first_tiny));
  }
  if (zeros > 0) {
    outcome.notes.push_back(name + ": " + std::to_string(zeros) +
                            " value(s) printed as 0 are below 2^" +
                            std::to_string(static_cast<long>(std::ceil(bound))) +
                            " in magnitude, first at " + index_text(tensor.shape, first_zero));
  }
}

// Judges one evaluation; fills `evaluation` only when everything is certain.
Outcome certify(const Result<Ball>& result, int digits, Evaluation& evaluation,
                bool zeros_by_bound = true) {
  Outcome outcome;
  outcome.zeros_by_bound = zeros_by_bound;
  std::map<std::string, DecimalTensor> outputs, gradients;
  double scale = -1e300;
  for (const auto* tensors : {&result.outputs, &result.gradients}) {
    for (const auto& [name, t] : *tensors) scale = std::max(scale, largest_log2(t));
  }
  for (const auto& [name, t] : result.outputs) {
    certify_tensor(name, t, digits, scale, outputs[name], outcome);
  }
  for (const auto& [name, t] : result.gradients) {
    certify_tensor("d_" + name, t, digits, scale, gradients["d_" + name], outcome);
  }
  if (outcome.certain) {
    evaluation.outputs = std::move(outputs);
    evaluation.gradients = std::move(gradients);
    evaluation.notes.insert(evaluation.notes.end(), outcome.notes.begin(), outcome.notes.end());
  }
  return outcome;
}

RunOptions run_options(const EvalRequest& request, long bits) {
  RunOptions run{request.form, request.gradients, request.threads, {}};
  if (request.progress) {
    run.progress = [progress = request.progress, bits](double share) {
      progress(share, std::to_string(bits) + " bits");
    };
  }
  return run;
}

// METHOD of the start: the digits asked for plus what rounding loses on the way, which grows about
// linearly in the number of steps.
long first_bits(const ValidCase& c, int digits) {
  const double steps = c.sizes.has('T') ? static_cast<double>(c.sizes['T']) : 1.0;
  return bits_for(digits) + 64 + static_cast<long>(0.35 * std::min(steps, 1e6));
}

[[noreturn]] void give_up(const std::string& where, int digits, long bits) {
  throw std::runtime_error("undecided: " + where + " is not certain to " + std::to_string(digits) +
                           " digits at " + std::to_string(bits) + " bits");
}

void evaluate_ball(const ValidCase& c, const EvalRequest& request, Evaluation& evaluation) {
  constexpr int kTriesForFinite = 4;  // a wide ball may overflow once; a true infinity always does
  long bits = first_bits(c, request.digits);
  for (int tries = 1;; ++tries) {
    Outcome outcome;
    {
      const PrecisionScope precision(bits);
      const auto result = evaluate<Ball>(lift<Ball>(c), run_options(request, bits));
      outcome = certify(result, request.digits, evaluation);
    }
    evaluation.bits = bits;
    if (outcome.certain) return;
    if (!outcome.finite && tries >= kTriesForFinite) {
      throw std::runtime_error("undecided: " + outcome.where +
                               " is not finite (overflow, or a division by 0) at " +
                               std::to_string(bits) + " bits");
    }
    if (bits >= kMostBits) give_up(outcome.where, request.digits, bits);
    // When it is known how much is missing, that much is added; otherwise the precision doubles.
    const long more = outcome.undecided ? bits : std::min(bits, outcome.missing_bits + 32);
    bits += more;
  }
}

// No error bound exists here: two precisions, one twice the other, must agree to the digits asked
// for and two more.
void evaluate_mpfr(const ValidCase& c, const EvalRequest& request, Evaluation& evaluation) {
  using Results = Result<Mpfr>;
  const auto run = [&](long bits) {
    const PrecisionScope precision(bits);
    return evaluate<Mpfr>(lift<Mpfr>(c), run_options(request, bits));
  };
  long bits = first_bits(c, request.digits);
  Results coarse = run(bits);
  for (;; bits *= 2) {
    const Results fine = run(2 * bits);
    const PrecisionScope precision(2 * bits);
    const long agree = bits_for(request.digits + 2);
    std::string where;
    Mpfr scale = 0;
    for (const auto* tensors : {&fine.outputs, &fine.gradients}) {
      for (const auto& [name, t] : *tensors) {
        for (const Mpfr& x : t.data) scale = std::max<Mpfr>(scale, abs(x));
      }
    }
    std::int64_t zeros = 0;
    const auto compare = [&](const std::string& name, const Tensor<Mpfr>& a, const Tensor<Mpfr>& b,
                             DecimalTensor& out) {
      out = DecimalTensor{b.shape, {}, {}};
      Mpfr largest = 0;
      for (const Mpfr& x : b.data) largest = std::max<Mpfr>(largest, abs(x));
      // A tensor that is nothing but rounding noise is measured against the whole result.
      if (largest <= ldexp(scale, static_cast<int>(-zero_bits(request.digits)))) largest = scale;
      const Mpfr negligible = ldexp(largest, static_cast<int>(-zero_bits(request.digits)));
      for (std::int64_t i = 0; i < b.size(); ++i) {
        const Mpfr &x = a.data[i], &y = b.data[i];
        const bool zero = abs(y) <= negligible;
        const bool same = abs(x - y) <= ldexp(abs(y), static_cast<int>(-agree));
        if (!zero && !same && where.empty()) where = name + index_text(b.shape, i);
        const Text text = zero && !same ? Text{"0", 0.0} : text_of(y, request.digits);
        if (zero && !same) ++zeros;
        out.values.push_back(text.decimal);
        out.nearest.push_back(text.nearest);
      }
    };
    for (const auto& [name, t] : fine.outputs) {
      compare(name, coarse.outputs.at(name), t, evaluation.outputs[name]);
    }
    for (const auto& [name, t] : fine.gradients) {
      compare("d_" + name, coarse.gradients.at(name), t, evaluation.gradients["d_" + name]);
    }
    evaluation.bits = 2 * bits;
    if (where.empty() && zeros > 0) {
      evaluation.notes.push_back(
          std::to_string(zeros) +
          " value(s) on which the two precisions do not agree are printed as 0: "
          "they are below 2^-" +
          std::to_string(zero_bits(request.digits)) + " of the largest value of their tensor");
    }
    if (where.empty()) return;
    if (2 * bits >= kMostBits) give_up(where, request.digits, 2 * bits);
    coarse = fine;
  }
}

void evaluate_rational(const ValidCase& c, const EvalRequest& request, Evaluation& evaluation) {
  Result<Rational> result;
  try {
    result = evaluate<Rational>(lift<Rational>(c), run_options(request, 0));
  } catch (const std::domain_error& error) {
    throw InputError(std::string("engine rational: ") + error.what() +
                     "; use the ball engine for this case");
  }
  const PrecisionScope precision(bits_for(request.digits) + 64);
  const auto print = [&](const Tensor<Rational>& t, DecimalTensor& out) {
    out.shape = t.shape;
    for (const Rational& x : t.data) {
      const Text text = text_of(nearest(x), request.digits);
      out.values.push_back(text.decimal);
      out.nearest.push_back(text.nearest);
    }
  };
  for (const auto& [name, t] : result.outputs) print(t, evaluation.outputs[name]);
  for (const auto& [name, t] : result.gradients) print(t, evaluation.gradients["d_" + name]);
}

// Double-double carries its own error bound; a value and its bound are a ball.
void evaluate_dd(const ValidCase& c, const EvalRequest& request, Evaluation& evaluation) {
  const auto result = evaluate<DoubleDouble>(lift<DoubleDouble>(c), run_options(request, 106));
  const PrecisionScope precision(192);
  const auto as_balls = [](const Tensors<DoubleDouble>& tensors) {
    Tensors<Ball> balls;
    for (const auto& [name, t] : tensors) {
      Tensor<Ball> ball(t.shape);
      for (std::int64_t i = 0; i < t.size(); ++i) {
        const DoubleDouble& x = t.data[i];
        ball.data[i] = fn::from_double<Ball>(x.hi()) + fn::from_double<Ball>(x.lo()) +
                       Ball::from_midpoint_radius(0.0, x.err());
      }
      balls.emplace(name, std::move(ball));
    }
    return balls;
  };
  const Result<Ball> balls{as_balls(result.outputs), as_balls(result.gradients)};
  const Outcome outcome = certify(balls, request.digits, evaluation, false);
  evaluation.bits = 106;
  if (outcome.certain) return;
  const long have = bits_for(request.digits) - outcome.missing_bits;
  throw InputError("engine dd: " + outcome.where + " is certain to about " +
                   std::to_string(std::max(0L, static_cast<long>(have * 0.30103))) + " of " +
                   std::to_string(request.digits) +
                   " digits; ask for fewer digits or use the ball engine");
}

}  // namespace

std::string engine_name(EngineKind engine) {
  switch (engine) {
    case EngineKind::ball:
      return "ball";
    case EngineKind::mpfr:
      return "mpfr";
    case EngineKind::rational:
      return "rational";
    case EngineKind::dd:
      return "dd";
  }
  return "";
}

EngineKind parse_engine(const std::string& text) {
  for (EngineKind e : {EngineKind::ball, EngineKind::mpfr, EngineKind::rational, EngineKind::dd}) {
    if (engine_name(e) == text) return e;
  }
  throw InputError("unknown engine '" + text + "'; known: ball, mpfr, rational, dd");
}

Evaluation evaluate_certified(const ValidCase& c, const EvalRequest& request) {
  if (request.digits < 1 || request.digits > 100000) {
    throw InputError("digits is " + std::to_string(request.digits) + ", must be 1 to 100000");
  }
  const auto& forms = c.schema.forms;
  if (std::find(forms.begin(), forms.end(), request.form) == forms.end()) {
    std::string known;
    for (Form f : forms) known += (known.empty() ? "" : ", ") + form_name(f);
    throw InputError("operation '" + c.data.op + "' has no form '" + form_name(request.form) +
                     "'; it has: " + known);
  }
  Evaluation evaluation;
  evaluation.op = c.data.op;
  evaluation.digits = request.digits;
  evaluation.engine = request.engine;
  evaluation.form = request.form;
  evaluation.notes = find_operation(c.data.op).notes(c);
  const bool has_cotangent =
      std::any_of(c.data.tensors.begin(), c.data.tensors.end(), [&](const auto& named) {
        return named.first.rfind("d_", 0) == 0 && c.schema.find_output(named.first.substr(2));
      });
  if (request.gradients && !has_cotangent) {
    evaluation.notes.push_back("the case has no cotangent (d_<output>): every gradient is 0");
  }
  switch (request.engine) {
    case EngineKind::ball:
      evaluate_ball(c, request, evaluation);
      break;
    case EngineKind::mpfr:
      evaluate_mpfr(c, request, evaluation);
      break;
    case EngineKind::rational:
      evaluate_rational(c, request, evaluation);
      break;
    case EngineKind::dd:
      evaluate_dd(c, request, evaluation);
      break;
  }
  return evaluation;
}

}  // namespace assay
