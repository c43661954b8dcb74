// The answer about a gate box as a report. Who decides is not known here: the room `proofs` does,
// and the command line hands its answer over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/render/report.hpp"

namespace assay::reports {

/// One step of an unstable cycle, numbers as exact text.
struct CycleStep {
  std::string alpha, beta, mu, eta;
  bool along = true;  // key e1, else e2
};

struct BoxFinding {
  enum class Answer { contractive, unstable, undecided };
  std::string box, keys;
  Answer answer = Answer::undecided;
  std::string reason;
  double radius_lower = 0, radius_upper = 0;  // of the joint spectral radius
  std::string certificate;                    // JSON text; empty: none
  std::vector<CycleStep> cycle;
  std::string cycle_file;  // where the cycle was written as a trace
  std::optional<std::string> suggested_mu, suggested_s;
  bool suggestions_asked = false;
};

render::Report box_stability_report(const BoxFinding& finding);

}  // namespace assay::reports
