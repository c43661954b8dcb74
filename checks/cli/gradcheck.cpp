// `assay gradcheck`: verifies the hand-derived adjoint of an operation, on its own cases or on one.
#include "checks/gradcheck/gradcheck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "checks/cli/command.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::cli {
namespace {

struct GradcheckFlags {
  std::string target;
  std::vector<std::string> checks;
  std::uint64_t seed = 1;
  double budget = 0;
  bool json = false;
  bool strict = false;
  int threads = 1;
};

std::vector<std::string> known_checks(std::vector<std::string> names) {
  static const std::vector<std::string> known = {"G1", "G2", "G3", "G4"};
  for (std::string& name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(fmt::format("--checks: '{}' is none of G1, G2, G3, G4", name));
    }
  }
  return names;
}

void print_report(const GradcheckReport& report, const std::string& label) {
  for (const CheckOutcome& outcome : report.outcomes) {
    const std::string worst = outcome.worst_tensor + outcome.worst_index;
    fmt::print("{:<24} {} {:<8} {}{}\n", label, outcome.check, status_name(outcome.status),
               outcome.detail, worst.empty() ? "" : "; worst " + worst);
    for (const std::string& line : outcome.lines) fmt::print("    {}\n", line);
  }
}

int run_gradcheck(const GradcheckFlags& flags) {
  GradcheckRequest request;
  request.checks = known_checks(flags.checks);
  request.seed = flags.seed;
  request.threads = flags.threads;
  request.budget_seconds = flags.budget;

  std::vector<ValidCase> cases;
  if (looks_like_file(flags.target)) {
    cases.push_back(load_case(flags.target, flags.strict));
  } else {
    cases = gradcheck_cases(find_operation(flags.target), flags.seed);
  }
  Progress progress("assay gradcheck " + flags.target);
  bool failed = false, anything = false;
  Json reports = Json::array();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const double count = static_cast<double>(cases.size());
    request.progress = [&, i](double share, const std::string& what) {
      progress.update((static_cast<double>(i) + share) / count, what);
    };
    const GradcheckReport report = gradcheck(cases[i], request);
    failed = failed || report.failed();
    for (const CheckOutcome& outcome : report.outcomes) {
      anything = anything || outcome.status != CheckOutcome::Status::skipped;
    }
    progress.clear();
    if (flags.json) {
      reports.push_back(to_json(report));
    } else {
      print_report(report,
                   cases.size() == 1 ? report.op : fmt::format("{} case {}", report.op, i + 1));
    }
  }
  if (flags.json) {
    Json document = json_document();
    document["seed"] = flags.seed;
    document["reports"] = std::move(reports);
    print_json(document);
  }
  if (failed) return kFinding;
  return anything ? kWell : kUndecided;
}

}  // namespace

Command add_gradcheck(CLI::App& parent) {
  auto flags = std::make_shared<GradcheckFlags>();
  CLI::App* app = parent.add_subcommand("gradcheck", "Verifies the adjoint itself");
  app->add_option("target", flags->target, "operation or case file")->required();
  app->add_option("--checks", flags->checks, "G1,G2,G3,G4; all when not given")->delimiter(',');
  add_seed(*app, flags->seed, "seed of directions and cases");
  app->add_option("--budget", flags->budget, "seconds a case may take, 0: any")
      ->check(CLI::NonNegativeNumber);
  app->add_flag("--json", flags->json, "print JSON");
  app->add_flag("--strict", flags->strict, "values outside their domain are an error");
  add_threads(*app, flags->threads);
  return {app, [flags] { return run_gradcheck(*flags); }};
}

}  // namespace assay::cli
