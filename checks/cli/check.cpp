// `assay check`: the verdict on a candidate.
#include "checks/verdict/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "checks/cli/command.hpp"
#include "checks/output/check_formats.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/progress.hpp"
#include "checks/output/verdict_text.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/text.hpp"

namespace assay::cli {
namespace {

struct CheckFlags {
  std::vector<std::string> operations;
  std::string candidate = "cpu";
  std::string model;
  std::string case_file;
  std::string budget = "60s";
  std::uint64_t seed = 1;
  bool no_gradients = false;
  std::string json, junit, sarif;
  bool github = false;
  double time_limit = 60;
  int threads = 1;
};

/// "60s", "90", "2m" in seconds.
double parse_budget(const std::string& text) {
  std::string digits = text;
  double unit = 1;
  if (!digits.empty() && (digits.back() == 's' || digits.back() == 'm' || digits.back() == 'h')) {
    unit = digits.back() == 'm' ? 60 : digits.back() == 'h' ? 3600 : 1;
    digits.pop_back();
  }
  const std::optional<double> value = parse_real(digits);
  if (!value || !(*value > 0) || !(*value < 1e7)) {
    throw InputError("budget '" + text + "': a time like 60s, 2m or 1h");
  }
  return *value * unit;
}

int run_check(const CheckFlags& flags) {
  CheckRequest request;
  request.operations = flags.operations;
  request.budget_seconds = parse_budget(flags.budget);
  request.seed = flags.seed;
  request.threads = flags.threads;
  request.gradients = !flags.no_gradients;
  for (const std::string& op : flags.operations) find_operation(op);

  std::optional<ValidCase> given;
  if (!flags.case_file.empty()) given = load_case(flags.case_file, false);
  if (given && !flags.operations.empty() && flags.operations != std::vector{given->data.op}) {
    throw InputError(flags.case_file + ": is a case of '" + given->data.op + "', not of '" +
                     join(flags.operations, ", ") + "'");
  }
  const bool inferred = flags.model.empty();
  PrecisionModel model = !inferred ? load_model(flags.model)
                         : given   ? infer_model(given->data)
                                   : preset_model("fp32");
  RunLimits limits;
  limits.seconds = flags.time_limit;
  const auto candidate = open_candidate(flags.candidate, model, limits);
  bool declared = false;
  if (inferred && candidate->info().model) {
    model = *candidate->info().model;
    declared = true;
  }
  CheckReport report;
  {
    Progress progress("assay check " + flags.candidate);
    request.progress = progress.callback();
    if (given) {
      report.candidate = candidate->info().name;
      report.model = model;
      report.verdicts.push_back(
          check_case(*candidate, {std::move(*given), "case file", false}, model, request));
      report.verdicts.back().replay =
          fmt::format("assay check --candidate {} --case {}", flags.candidate, flags.case_file);
    } else {
      report = check(*candidate, model, request);
    }
  }
  report.model_inferred = inferred && !declared;
  const auto write = [](const std::string& path, const std::string& text) {
    if (path == "-") {
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else if (!path.empty()) {
      const Uninterrupted guard;
      write_file_atomic(path, text);
    }
  };
  write(flags.json, check_json(report).dump() + "\n");
  write(flags.junit, check_junit(report));
  write(flags.sarif, check_sarif(report).dump(1) + "\n");
  const std::string text =
      flags.json == "-" ? "" : check_text(report) + (flags.github ? check_github(report) : "");
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (report.failed()) return kFinding;
  return report.nothing_ran() ? kUndecided : kWell;
}

}  // namespace

Command add_check(CLI::App& parent) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App* app = parent.add_subcommand("check", "A verdict on a candidate kernel");
  app->add_option("op", flags->operations, "operations (default: all the candidate declares)");
  app->add_option("--candidate", flags->candidate,
                  "cpu, cuda, path.so, python:module:function, fault:ID or outputs:FILE")
      ->capture_default_str();
  app->add_option("--model", flags->model, "fp32, tf32, fp16, bf16 or a JSON file");
  app->add_option("--case", flags->case_file, "judge this case file only");
  app->add_option("--budget", flags->budget, "time for everything, like 60s or 2m")
      ->capture_default_str();
  app->add_option("--seed", flags->seed, "seed of the cases")->capture_default_str();
  app->add_option("--time-limit", flags->time_limit, "seconds after which a call counts as hung")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app->add_option("--json", flags->json, "write JSON here (-: to the terminal)");
  app->add_option("--junit", flags->junit, "write JUnit XML here");
  app->add_option("--sarif", flags->sarif, "write SARIF here");
  app->add_flag("--github", flags->github, "print GitHub annotations");
  app->add_flag("--no-grad", flags->no_gradients, "forward only");
  add_threads(*app, flags->threads);
  return {app, [flags] { return run_check(*flags); }};
}

}  // namespace assay::cli
