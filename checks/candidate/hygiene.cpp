#include "checks/candidate/hygiene.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/case/text.hpp"

namespace assay {
namespace {

using Tensors = std::map<std::string, Tensor<double>>;

struct Difference {
  std::string tensor, text;
};

/// The first element for which `differs` holds.
template <class Differs>
std::optional<Difference> compare(const Tensors& a, const Tensors& b, const std::string& prefix,
                                  Differs differs) {
  for (const auto& [name, x] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.shape != x.shape) continue;
    const Tensor<double>& y = found->second;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      if (!differs(x.data[i], y.data[i])) continue;
      return Difference{prefix + name, "at " + index_text(x.shape, i) + ": " +
                                           number_text(x.data[i]) + " and " +
                                           number_text(y.data[i])};
    }
  }
  return std::nullopt;
}

template <class Differs>
std::optional<Difference> compare(const RunResult& a, const RunResult& b, Differs differs) {
  if (auto found = compare(a.outputs, b.outputs, "", differs)) return found;
  return compare(a.gradients, b.gradients, "d_", differs);
}

bool other_bits(double x, double y) {
  return std::bit_cast<std::uint64_t>(x) != std::bit_cast<std::uint64_t>(y);
}

bool lost_finiteness(double x, double y) { return std::isfinite(x) && !std::isfinite(y); }

class Examination {
 public:
  Examination(Candidate& candidate, bool gradients)
      : candidate_(candidate), gradients_(gradients) {}

  /// Nothing when the candidate did not come back; that is in the report then.
  std::optional<RunResult> run(const ValidCase& c, const CallLayout& layout) {
    RunResult result = candidate_.run_laid_out(c, gradients_, layout);
    ++report.runs;
    for (const HygieneFinding& finding : result.hygiene) add(finding);
    if (result.status == RunStatus::ran) return result;
    if (layout.strided && result.status == RunStatus::unsupported) {
      report.notes.push_back("strided inputs were not tried: " + result.detail);
    } else {
      report.broken = std::move(result);
    }
    return std::nullopt;
  }

  void add(HygieneFinding finding) {
    for (const HygieneFinding& known : report.findings) {
      if (known.kind == finding.kind && known.tensor == finding.tensor) return;
    }
    report.findings.push_back(std::move(finding));
  }

  bool require_equal(const std::string& kind, const std::string& what, const RunResult& a,
                     const RunResult& b) {
    const auto found = compare(a, b, other_bits);
    if (found) add({kind, found->tensor, what + ", " + found->text});
    return !found;
  }

  HygieneReport report;

 private:
  Candidate& candidate_;
  bool gradients_;
};

}  // namespace

ValidCase with_other_data(const ValidCase& c) {
  ValidCase out = c;
  for (auto& [name, tensor] : out.data.tensors) {
    if (tensor.values.size() > 1) {
      std::rotate(tensor.values.begin(), tensor.values.begin() + 1, tensor.values.end());
    }
  }
  return out;
}

std::string first_difference(const RunResult& a, const RunResult& b) {
  const auto found = compare(a, b, other_bits);
  return found ? found->tensor + " " + found->text : "";
}

HygieneReport examine_hygiene(Candidate& candidate, const ValidCase& c, bool gradients,
                              bool atomics) {
  Examination e(candidate, gradients);
  const CallLayout fresh{false, true}, same{};
  const ValidCase other = with_other_data(c);
  const auto first = e.run(c, fresh);
  const auto repeat = first ? e.run(c, same) : std::nullopt;
  const auto between = repeat ? e.run(other, same) : std::nullopt;
  const auto again = between ? e.run(c, same) : std::nullopt;
  const auto moved = again ? e.run(other, fresh) : std::nullopt;
  if (!moved) return std::move(e.report);

  if (atomics) {
    e.report.notes.push_back("bits were not compared between runs: the model declares atomics");
  } else if (e.require_equal("nondeterministic", "two runs of the same case", *first, *repeat)) {
    // What already changes by itself would say nothing about memory.
    e.require_equal("stale", "before and after a call with other data", *first, *again);
    e.require_equal("stale", "in memory of the call before and in fresh memory", *between, *moved);
  }
  e.report.strided = e.run(c, CallLayout{true, true});
  if (e.report.strided) {
    if (const auto found = compare(*first, *e.report.strided, lost_finiteness)) {
      e.add({"strides ignored", found->tensor,
             "contiguous inputs and the same with gaps, " + found->text});
    }
  }
  return std::move(e.report);
}

}  // namespace assay
