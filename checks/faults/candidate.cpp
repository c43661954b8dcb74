#include "checks/faults/candidate.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

#include "checks/candidate/scheme.hpp"
#include "checks/faults/fault.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

Emulation emulation_of(const PrecisionModel& model) {
  Emulation e;
  e.operand = emulated_format(model.operand);
  e.casts = unit_roundoff(model.operand) > unit_roundoff(model.accumulator);
  e.truncates = model.truncating_accumulator;
  return e;
}

template <class Real>
std::map<std::string, Tensor<double>> stored(const std::map<std::string, Tensor<Real>>& tensors,
                                             const PrecisionModel& model, const Schema& schema) {
  std::map<std::string, Tensor<double>> result;
  for (const auto& [name, from] : tensors) {
    const OutputSpec* out = schema.find_output(name);
    const bool integer = out != nullptr && out->integer;
    const bool state = out != nullptr && out->final_state;
    const NumberFormat format = state ? model.final_state : model.output;
    Tensor<double> to(from.shape);
    for (std::int64_t i = 0; i < from.size(); ++i) {
      const double x = fn::to_double(from.data[i]);
      to.data[i] = integer ? x : round_to(format, x);
    }
    result.emplace(name, std::move(to));
  }
  return result;
}

/// What a computation in this process has in common with any candidate.
class LocalCandidate : public Candidate {
 public:
  const CandidateInfo& info() const override { return info_; }

  RunResult run(const ValidCase& given, bool gradients) override {
    RunResult result;
    const auto start = std::chrono::steady_clock::now();
    try {
      ValidCase c = given;
      const RunOptions options = run_options(c, gradients);
      result.detail = unsupported(c);
      if (!result.detail.empty()) {
        result.status = RunStatus::unsupported;
        return result;
      }
      if (model_.accumulator == NumberFormat::fp64) {
        keep(compute(c, options), c, result);
      } else {
        const FormatScope format(emulated_format(model_.accumulator));
        const EmulationScope emulation(emulation_);
        keep(compute_rounded(c, options), c, result);
      }
    } catch (const std::exception& error) {
      result.status = RunStatus::failed;
      result.detail = printable(error.what());
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    result.seconds = spent.count();
    return result;
  }

 protected:
  LocalCandidate(std::string name, PrecisionModel model, Emulation emulation)
      : model_(std::move(model)), emulation_(emulation) {
    info_.name = std::move(name);
    info_.model = model_;
    info_.model->form_declared = true;
  }
  virtual std::string unsupported(const ValidCase&) const { return ""; }
  virtual Result<double> compute(const ValidCase& c, const RunOptions& options) const = 0;
  virtual Result<Rounded> compute_rounded(const ValidCase& c, const RunOptions& options) const = 0;

 private:
  /// The declared form, where the operation has it, with the declared chunk.
  RunOptions run_options(ValidCase& c, bool gradients) const {
    RunOptions options;
    options.gradients = gradients;
    // Faults at the edge of chunks need their length in the recurrent form too.
    if (c.schema.find_option("chunk")) c.data.options["chunk"] = std::int64_t{model_.chunk};
    const std::vector<Form>& forms = c.schema.forms;
    if (std::find(forms.begin(), forms.end(), model_.form) != forms.end()) {
      options.form = model_.form;
    }
    return options;
  }
  template <class Real>
  void keep(const Result<Real>& from, const ValidCase& c, RunResult& to) const {
    to.outputs = stored(from.outputs, model_, c.schema);
    to.gradients = stored(from.gradients, model_, c.schema);
  }

  CandidateInfo info_;
  PrecisionModel model_;
  Emulation emulation_;
};

class FaultCandidate final : public LocalCandidate {
 public:
  FaultCandidate(const Fault& fault, const PrecisionModel& model)
      : LocalCandidate("fault:" + fault.info().id, model, emulation_of(model)), fault_(fault) {}

 private:
  std::string unsupported(const ValidCase& c) const override {
    return fault_.applies(c) ? "" : "this case cannot show " + fault_.info().id;
  }
  Result<double> compute(const ValidCase& c, const RunOptions& options) const override {
    return fault_.evaluate(c, options);
  }
  Result<Rounded> compute_rounded(const ValidCase& c, const RunOptions& options) const override {
    return fault_.evaluate_rounded(c, options);
  }
  const Fault& fault_;
};

class EmulatedCandidate final : public LocalCandidate {
 public:
  EmulatedCandidate(const std::string& spec, const PrecisionModel& model,
                    const Emulation& emulation)
      : LocalCandidate("emulated:" + spec, model, emulation) {}

 private:
  Result<double> compute(const ValidCase& c, const RunOptions& options) const override {
    return evaluate(lift<double>(c), options);
  }
  Result<Rounded> compute_rounded(const ValidCase& c, const RunOptions& options) const override {
    return evaluate(lift<Rounded>(c), options);
  }
};

SumOrder parse_order(const std::string& text, const std::string& spec) {
  if (text == "forward") return SumOrder::forward;
  if (text == "reversed") return SumOrder::reversed;
  if (text == "pairwise") return SumOrder::pairwise;
  throw InputError("candidate " + quote_name("emulated:" + spec) + ": order " + quote_name(text) +
                   " is none of forward, reversed, pairwise");
}

}  // namespace

std::unique_ptr<Candidate> make_fault_candidate(const std::string& id,
                                                const PrecisionModel& model) {
  return std::make_unique<FaultCandidate>(find_fault(id), model);
}

std::unique_ptr<Candidate> make_emulated_candidate(const std::string& spec) {
  const std::vector<std::string> parts = split(spec, ',');
  PrecisionModel model = load_model(parts.empty() ? spec : parts.front());
  SumOrder order = SumOrder::forward;
  bool fma = false;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part == "fma") {
      fma = true;
    } else if (part == "truncate") {
      model.truncating_accumulator = true;
    } else if (part.starts_with("order=")) {
      order = parse_order(part.substr(6), spec);
    } else if (part.starts_with("chunk=")) {
      const auto chunk = parse_integer(part.substr(6));
      if (!chunk || *chunk < 1 || *chunk > 65536) {
        throw InputError("candidate " + quote_name("emulated:" + spec) +
                         ": chunk must be an integer from 1 to 65536");
      }
      model.form = Form::chunk;
      model.chunk = static_cast<int>(*chunk);
    } else {
      throw InputError("candidate " + quote_name("emulated:" + spec) + ": " + quote_name(part) +
                       " is none of chunk=C, order=NAME, fma, truncate");
    }
  }
  Emulation emulation = emulation_of(model);
  emulation.order = order;
  emulation.fma = fma;
  return std::make_unique<EmulatedCandidate>(spec, model, emulation);
}

std::unique_ptr<Candidate> make_plain_candidate(const PrecisionModel& model) {
  return std::make_unique<EmulatedCandidate>(model.name, model, emulation_of(model));
}

void register_emulated_candidates() {
  register_candidate_scheme("fault", "fault:ID", "a fault of the dictionary (assay list faults)",
                            [](const std::string& rest, const PrecisionModel& model,
                               const RunLimits&) { return make_fault_candidate(rest, model); });
  register_candidate_scheme("emulated", "emulated:MODEL[,chunk=C][,order=NAME][,fma][,truncate]",
                            "the reference in emulated arithmetic, correct by construction",
                            [](const std::string& rest, const PrecisionModel&, const RunLimits&) {
                              return make_emulated_candidate(rest);
                            });
}

}  // namespace assay
