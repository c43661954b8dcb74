#include "reports/stability/box.hpp"

#include <fmt/format.h>

namespace assay::reports {
namespace {

using namespace render;
using Answer = BoxFinding::Answer;

std::string word(Answer answer) {
  return answer == Answer::contractive ? "CONTRACTIVE"
         : answer == Answer::unstable  ? "UNSTABLE"
                                       : "UNDECIDED";
}

std::string sentence(const BoxFinding& f) {
  switch (f.answer) {
    case Answer::contractive:
      return fmt::format(
          "No product of steps with gates from this box grows without bound, whatever its length "
          "({}; exact certificate).",
          f.reason);
    case Answer::unstable:
      return fmt::format(
          "A cycle of {} steps from this box has a product with spectral radius above 1: repeated, "
          "it grows at least {:.6f} per step ({}; exact certificate).",
          f.cycle.size(), f.radius_lower, f.reason);
    case Answer::undecided:
      break;
  }
  return fmt::format(
      "Neither proved nor refuted: the joint spectral radius lies in [{:.4f}, {:.4f}]. Tried: {}.",
      f.radius_lower, f.radius_upper, f.reason);
}

}  // namespace

Report box_stability_report(const BoxFinding& f) {
  Report report;
  report.name = "stability";
  report.page.title = "Can products of Momentum DeltaNet steps from a gate box grow?";
  report.page.subtitle = f.box + ", keys: " + f.keys;
  report.outcome = f.answer == Answer::contractive ? Outcome::well
                   : f.answer == Answer::unstable  ? Outcome::finding
                                                   : Outcome::undecided;
  report.page.verdict = {f.answer == Answer::contractive ? Tone::good
                         : f.answer == Answer::unstable  ? Tone::bad
                                                         : Tone::warn,
                         word(f.answer), sentence(f)};
  Section found{"What was found", {}};
  Notes notes{{fmt::format("Joint spectral radius: at least {:.6f}, at most {:.6f}.",
                           f.radius_lower, f.radius_upper)}};
  if (f.suggestions_asked) {
    notes.lines.push_back(
        f.suggested_mu ? "Largest certified bound of mu with the rest unchanged: " + *f.suggested_mu
                       : "No bound of mu could be certified with the rest unchanged.");
    if (f.suggested_s)
      notes.lines.push_back("Smallest certified s with the rest unchanged: " + *f.suggested_s);
  }
  found.blocks.push_back(notes);
  Json cycle = Json::array();
  Csv csv{"cycle", {"step", "alpha", "beta", "mu", "eta", "key"}, {}};
  if (!f.cycle.empty()) {
    Table table{
        "One period, exactly; first step first.",
        {{"step", true}, {"alpha", true}, {"beta", true}, {"mu", true}, {"eta", true}, {"key"}},
        {}};
    for (std::size_t i = 0; i < f.cycle.size(); ++i) {
      const CycleStep& s = f.cycle[i];
      const std::string key = s.along ? "e1" : "e2", number = std::to_string(i + 1);
      table.rows.push_back({number, s.alpha, s.beta, s.mu, s.eta, key});
      csv.rows.push_back({number, s.alpha, s.beta, s.mu, s.eta, key});
      cycle.push_back(
          {{"alpha", s.alpha}, {"beta", s.beta}, {"mu", s.mu}, {"eta", s.eta}, {"key", key}});
    }
    found.blocks.push_back(table);
    report.tables.push_back(csv);
    if (!f.cycle_file.empty()) {
      found.blocks.push_back(Paragraph{"The cycle as a trace: " + f.cycle_file});
    }
  }
  if (!f.certificate.empty()) {
    found.blocks.push_back(
        Paragraph{"The certificate; `assay verify-cert FILE` checks it with code "
                  "that shares nothing with the finder."});
    found.blocks.push_back(Download{"certificate.json", "application/json", f.certificate});
  }
  report.page.sections.push_back(found);
  report.json["box"] = f.box;
  report.json["keys"] = f.keys;
  report.json["answer"] = word(f.answer);
  report.json["reason"] = f.reason;
  report.json["radius"] = {f.radius_lower, f.radius_upper};
  report.json["cycle"] = cycle;
  if (f.suggestions_asked) {
    report.json["suggested_mu"] = f.suggested_mu ? Json(*f.suggested_mu) : Json(nullptr);
    report.json["suggested_s"] = f.suggested_s ? Json(*f.suggested_s) : Json(nullptr);
  }
  return report;
}

}  // namespace assay::reports
