#include "fuzz/campaign/minimal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checks/candidate/stop_signal.hpp"
#include "checks/output/failure_folder.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/verdict/statistics.hpp"
#include "reference/case/file_io.hpp"

namespace assay {
namespace {

/// The full verdict; its evidence written as a folder below `folder` when it is a finding.
Verdict judged_into(const std::string& folder, Examiner& examiner, const CheckCase& c,
                    const std::string& candidate, std::string& written, std::int64_t& first_bad) {
  return examiner.verdict(c, [&](Verdict& verdict, const Evidence& evidence) {
    first_bad = first_bad_step(verdict, evidence);
    const Uninterrupted guard;
    written = write_failure(folder, verdict, evidence, examiner.model(), candidate);
  });
}

}  // namespace

std::int64_t first_bad_step(const Verdict& verdict, const Evidence& evidence) {
  std::int64_t first = -1;
  for (const TensorVerdict& t : verdict.tensors) {
    const auto found = evidence.expectation.find(t.name);
    if (found == evidence.expectation.end() || t.stats.z.size() != found->second.truth.size()) {
      continue;
    }
    const ExpectedTensor& e = found->second;
    const std::size_t axis = e.axes.find('T');
    if (axis == std::string::npos || axis >= e.shape.size()) continue;
    std::int64_t stride = 1;
    for (std::size_t a = axis + 1; a < e.shape.size(); ++a) stride *= e.shape[a];
    for (std::size_t i = 0; i < t.stats.z.size(); ++i) {
      if (std::fabs(t.stats.z[i]) <= kMaxZ) continue;
      const std::int64_t step = static_cast<std::int64_t>(i) / stride % e.shape[axis];
      if (first < 0 || step < first) first = step;
    }
  }
  return first;
}

Shrunk keep_finding(Examiner& examiner, const CheckCase& c, const CaseRecord& record,
                    const KeepRequest& request) {
  Shrunk s;
  std::int64_t ignored = -1;
  const Verdict original =
      judged_into(request.folder + "/failures", examiner, c, request.candidate, s.folder, ignored);
  s.cause = original.cause;
  const auto shows = [&](const CheckCase& smaller) {
    try {
      return examiner.shows(smaller, record.outcome.signature);
    } catch (const Interrupted&) {
      return false;
    }
  };
  const ShrinkResult small = shrink(c, shows, request.shrink);
  std::string minimal;
  const Verdict verdict = judged_into(s.folder + "/minimal", examiner, small.minimal,
                                      request.candidate, minimal, s.first_bad_t);
  s.hash = case_hash(small.minimal);
  s.line = case_line(small.minimal.valid);
  s.kind = verdict_name(verdict.kind);
  s.steps = small.steps;
  s.capped = small.capped;
  if (s.cause.empty()) s.cause = verdict.cause;
  s.t_mod_chunk = s.first_bad_t < 0 ? -1 : s.first_bad_t % examiner.model().chunk;
  s.edge = tile_edges(small.minimal.valid, examiner.model().chunk);
  for (const auto& [letter, length] : small.minimal.valid.sizes.by_letter) {
    s.sizes[std::string(1, letter)] = length;
  }
  // Relative, so that the campaign's folder can be moved.
  s.folder = s.folder.substr(request.folder.size() + 1);
  Json finding = json_document();
  finding["candidate"] = request.candidate;
  finding["record"] = record_json(record);
  finding["shrunk"] = shrunk_json(s);
  const Uninterrupted guard;
  write_file_atomic(request.folder + "/" + s.folder + "/finding.json", finding.dump(1) + "\n");
  return s;
}

std::string shrunk_text(const Shrunk& s) {
  std::string text = fmt::format("  minimal: {} [{}] {}, {} steps{}\n", s.line, s.hash, s.kind,
                                 s.steps, s.capped ? " (the cap: may be smaller still)" : "");
  if (s.first_bad_t >= 0) {
    text += fmt::format("  first bad t = {}, t mod chunk = {}; {}\n", s.first_bad_t, s.t_mod_chunk,
                        s.edge.empty() ? "not at a tile edge" : s.edge);
  } else {
    text += fmt::format("  no first bad t; {}\n", s.edge.empty() ? "not at a tile edge" : s.edge);
  }
  if (!s.cause.empty()) text += "  " + s.cause + "\n";
  return text;
}

}  // namespace assay
