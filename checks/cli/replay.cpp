// `assay replay` and `assay shrink`: one case of a campaign again.
#include <fmt/format.h>

#include "checks/cli/command.hpp"
#include "checks/cli/subject.hpp"
#include "checks/output/failure_folder.hpp"
#include "checks/output/progress.hpp"
#include "checks/output/verdict_text.hpp"
#include "fuzz/campaign/minimal.hpp"

namespace assay::cli {
namespace {

struct ReplayFlags {
  std::string subject, candidate, model, out;
  std::int64_t steps = 1500;
  double call_seconds = 10;
};

std::string candidate_of(const Subject& subject, const ReplayFlags& flags) {
  if (!flags.candidate.empty()) return absolute_spec(flags.candidate);
  return subject.candidate.empty() ? "cpu" : absolute_spec(subject.candidate);
}

Examiner examiner_for(const Subject& subject, const ReplayFlags& flags) {
  CandidateRequest request;
  request.spec = candidate_of(subject, flags);
  request.model = flags.model.empty() ? subject.model : flags.model;
  request.call_seconds = flags.call_seconds;
  return Examiner(request);
}

int run_replay(const ReplayFlags& flags) {
  const Subject subject = load_subject(flags.subject);
  Examiner examiner = examiner_for(subject, flags);
  fmt::print("candidate: {}\n", candidate_of(subject, flags));
  const Verdict verdict = examiner.verdict(subject.given);
  fmt::print("{}", verdict_text(verdict));
  if (!subject.expected.empty()) {
    const std::string now = verdict_name(verdict.kind);
    fmt::print("{}: {} when it was found, {} now\n",
               now == subject.expected ? "reproduced" : "NOT REPRODUCED", subject.expected, now);
  }
  if (is_finding(verdict.kind)) return kFinding;
  return says_nothing(verdict.kind) ? kUndecided : kWell;
}

int run_shrink(const ReplayFlags& flags) {
  const Subject subject = load_subject(flags.subject);
  Examiner examiner = examiner_for(subject, flags);
  CaseRecord record;
  record.op = subject.given.valid.data.op;
  record.line = case_line(subject.given.valid);
  record.hash = case_hash(subject.given);
  record.outcome = examiner.examine(subject.given, Depth::thorough);
  if (!record.outcome.finding()) {
    fmt::print("nothing to shrink: {} {}\n", verdict_name(record.outcome.signature.kind),
               record.outcome.sentence);
    return says_nothing(record.outcome.signature.kind) ? kUndecided : kWell;
  }
  KeepRequest keep;
  keep.folder = flags.out;
  keep.candidate = candidate_of(subject, flags);
  keep.shrink.steps = flags.steps;
  keep.shrink.seconds = 600;
  Shrunk s;
  {
    Progress progress("assay shrink");
    keep.shrink.progress = progress.callback();
    s = keep_finding(examiner, subject.given, record, keep);
  }
  fmt::print("{} [{}]\n{}  {}/{}\n", signature_text(record), record.hash, shrunk_text(s), flags.out,
             s.folder);
  return kFinding;
}

void add_replay_options(CLI::App& app, ReplayFlags& flags) {
  app.add_option("case", flags.subject, "a failure folder, a case file, or a case line in quotes")
      ->required();
  app.add_option("--candidate", flags.candidate, "default: the one that failed, or cpu");
  app.add_option("--model", flags.model, "default: that of the folder");
  app.add_option("--time-limit", flags.call_seconds, "seconds after which a call counts as hung")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
}

}  // namespace

Command add_replay(CLI::App& parent) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* app = parent.add_subcommand("replay", "One case of a campaign again");
  add_replay_options(*app, *flags);
  return {app, [flags] { return run_replay(*flags); }};
}

Command add_shrink(CLI::App& parent) {
  auto flags = std::make_shared<ReplayFlags>();
  flags->out = "assay-shrunk";
  CLI::App* app = parent.add_subcommand("shrink", "The smallest case that still fails");
  add_replay_options(*app, *flags);
  app->add_option("--out", flags->out, "folder to write into")
      ->check(named_folder())
      ->capture_default_str();
  app->add_option("--steps", flags->steps, "calls of the candidate at most")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  return {app, [flags] { return run_shrink(*flags); }};
}

}  // namespace assay::cli
