#include "checks/cli/report_box.hpp"

#include <filesystem>

#include "proofs/engine/gate_box.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"
#include "reports/trace/box.hpp"

namespace assay::cli {
namespace {

constexpr long kPeriods = 64;

/// The decimal number that was meant: 0.7 is 7/10, not the double next to it.
Rational decimal(double value) {
  std::string text = number_text(value);
  long exponent = 0;
  if (const std::size_t e = text.find_first_of("eE"); e != std::string::npos) {
    exponent = std::stol(text.substr(e + 1));
    text.resize(e);
  }
  if (const std::size_t point = text.find('.'); point != std::string::npos) {
    exponent -= static_cast<long>(text.size() - point - 1);
    text.erase(point, 1);
  }
  Rational::Number number(text), ten(10);
  for (; exponent > 0; --exponent) number *= ten;
  for (; exponent < 0; ++exponent) number /= ten;
  return Rational(number);
}

std::string text_of(const Rational& q) { return q.value().str(); }

proofs::GateBox exact_box(const BoxQuestion& question) {
  const reports::GateBox given = reports::parse_box(question.box);
  if (given.op != "mdn") throw InputError("gate box of " + given.op + ": only mdn's are decided");
  const reports::Range& kappa = given.gates.at("kappa");
  if (kappa.lo != 1 || kappa.hi != 1) throw InputError("gate box: keys must have length 1");
  proofs::GateBox box;
  using Coupling = reports::GateBox::Coupling;
  box.coupling = given.coupling == Coupling::coupled     ? proofs::GateBox::Coupling::angle
                 : given.coupling == Coupling::decoupled ? proofs::GateBox::Coupling::kappa
                                                         : proofs::GateBox::Coupling::free;
  box.keys = question.keys == "fixed"   ? proofs::GateBox::Keys::fixed
             : question.keys == "basis" ? proofs::GateBox::Keys::basis
                                        : proofs::GateBox::Keys::any;
  box.s = decimal(given.s);
  const auto range = [&](const char* name, Rational& lo, Rational& hi) {
    lo = decimal(given.gates.at(name).lo);
    hi = decimal(given.gates.at(name).hi);
  };
  range("alpha", box.alpha_min, box.alpha_max);
  range("beta", box.beta_min, box.beta_max);
  // The schema lets beta go up to 2; the box of the model ends at 1 unless beta was given.
  if (question.box.find("beta=") == std::string::npos) box.beta_max = 1;
  range("mu", box.mu_min, box.mu_max);
  range("eta", box.eta_min, box.eta_max);
  return box;
}

}  // namespace

reports::BoxFinding decide_box(const BoxQuestion& question) {
  proofs::GateBoxRequest request;
  request.box = exact_box(question);
  request.budget_seconds = question.budget;
  proofs::GateBoxVerdict verdict;
  try {
    verdict = proofs::decide(request);
  } catch (const std::invalid_argument& error) {
    throw InputError(error.what());
  }
  reports::BoxFinding out;
  using From = proofs::GateBoxVerdict::Answer;
  using To = reports::BoxFinding::Answer;
  out.box = question.box;
  out.keys = question.keys;
  out.answer = verdict.answer == From::contractive ? To::contractive
               : verdict.answer == From::unstable  ? To::unstable
                                                   : To::undecided;
  out.reason = verdict.reason;
  out.radius_lower = verdict.radius_lower;
  out.radius_upper = verdict.radius_upper;
  if (!verdict.certificate.is_null()) out.certificate = verdict.certificate.dump(1) + "\n";
  for (const proofs::Step& s : verdict.cycle) {
    out.cycle.push_back(
        {text_of(s.alpha), text_of(s.beta), text_of(s.mu), text_of(s.eta), s.along});
  }
  if (question.suggest) {
    out.suggestions_asked = true;
    if (const auto mu = proofs::suggest_mu(request.box, question.budget, nullptr)) {
      out.suggested_mu = text_of(*mu);
    }
    if (request.box.coupling == proofs::GateBox::Coupling::angle) {
      if (const auto s = proofs::suggest_s(request.box, question.budget, nullptr)) {
        out.suggested_s = text_of(*s);
      }
    }
  }
  if (question.folder.empty()) return out;
  const std::filesystem::path folder(question.folder);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!out.certificate.empty()) {
    write_file_atomic((folder / "certificate.json").string(), out.certificate);
  }
  if (!verdict.cycle.empty()) {
    out.cycle_file = (folder / "cycle.safetensors").string();
    write_case(out.cycle_file, proofs::cycle_case(verdict.cycle, kPeriods));
  }
  return out;
}

}  // namespace assay::cli
