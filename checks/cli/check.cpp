// `assay check`: the verdict on a candidate.
#include "checks/verdict/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "checks/candidate/stop_signal.hpp"
#include "checks/cli/command.hpp"
#include "checks/output/check_formats.hpp"
#include "checks/output/failure_folder.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/progress.hpp"
#include "checks/output/verdict_text.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/case/text.hpp"
#include "reference/case/validate.hpp"
#include "reference/oracle/registry.hpp"
#include "reports/validation/check_page.hpp"

namespace assay::cli {
namespace {

struct CheckFlags {
  std::vector<std::string> operations;
  std::string candidate = "cpu";
  std::string model;
  std::string case_file;
  std::string budget = "60s";
  std::uint64_t seed = 1;
  bool no_gradients = false, quick = false;
  std::string json, junit, sarif, html, failures;
  bool github = false;
  int only = 0;
  double time_limit = 60;
  int threads = 1;
};

/// A file of results may hold the inputs too; `judge` takes both from it.
Case inputs_of(const std::string& path) {
  SafetensorsFile file = read_safetensors(path);
  const auto op = file.metadata.find("assay.op");
  if (op == file.metadata.end()) {
    throw InputError(path +
                     ": has no metadata 'assay.op', so it is no case; give the inputs with "
                     "--case");
  }
  Case everything = case_from_file(file, path);
  const Operation& operation = find_operation(everything.op);
  const Schema schema = operation.schema(&everything);
  const Schema full = operation.schema(nullptr);
  Case inputs = everything;
  inputs.tensors.clear();
  for (const auto& [name, tensor] : everything.tensors) {
    const bool cotangent = name.rfind("d_", 0) == 0 && schema.find_output(name.substr(2));
    if (schema.find_input(name) || full.find_input(name) || cotangent || name == kCuSeqlens) {
      inputs.tensors[name] = tensor;
    }
  }
  if (inputs.tensors.empty()) {
    throw InputError(path + ": holds no inputs of " + everything.op + "; give them with --case");
  }
  return inputs;
}

/// A plug-in's path holds from everywhere.
std::string absolute_candidate(const std::string& spec) {
  std::error_code error;
  const std::string file = spec.substr(0, spec.rfind('@'));
  if (!std::filesystem::is_regular_file(file, error)) return spec;
  return std::filesystem::absolute(file).string() + spec.substr(file.size());
}

std::string replay_line(const CheckFlags& flags, const Verdict& verdict) {
  std::string line = "assay check ";
  if (flags.case_file.empty()) line += verdict.op + " ";
  // A function of the process that started this program has no name here.
  const bool inherited = flags.candidate.rfind("python-fd:", 0) == 0;
  line += "--candidate " +
          (inherited ? std::string("python:MODULE:FUNCTION") : shell_word(flags.candidate));
  if (!flags.model.empty()) line += " --model " + shell_word(flags.model);
  if (flags.no_gradients) line += " --no-grad";
  if (flags.quick) line += " --quick";
  if (flags.seed != 1) line += fmt::format(" --seed {}", flags.seed);
  if (!flags.case_file.empty()) return line + " --case " + shell_word(flags.case_file);
  return line + fmt::format(" --only {}", verdict.number);
}

int run_check(const CheckFlags& flags) {
  CheckRequest request;
  request.operations = flags.operations;
  request.budget_seconds = parse_duration(flags.budget);
  request.seed = flags.seed;
  request.threads = flags.threads;
  request.gradients = !flags.no_gradients;
  request.quick = flags.quick;
  request.only = flags.only;
  for (const std::string& op : flags.operations) find_operation(op);
  if (flags.only != 0 && !flags.case_file.empty()) {
    throw InputError("--only names a case of an operation's list; with --case there is one anyway");
  }
  if (flags.only != 0 && flags.operations.size() != 1) {
    throw InputError("--only names a case of one operation; give that operation");
  }

  std::optional<ValidCase> given;
  bool exact = false;
  if (!flags.case_file.empty()) {
    if (flags.candidate == "outputs:" + flags.case_file) {
      Case data = inputs_of(flags.case_file);
      const Schema schema = find_operation(data.op).schema(&data);
      given = validate(std::move(data), schema);
    } else {
      given = load_case(flags.case_file, false);
    }
    exact = says_exact(given->data);
  }
  if (!given && flags.candidate.rfind("outputs:", 0) == 0) {
    throw InputError("results computed elsewhere belong to one case; name it with --case");
  }
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
  auto candidate = open_candidate(flags.candidate, model, limits);
  bool declared = false;
  if (inferred && candidate->info().model) {
    model = *candidate->info().model;
    declared = true;
    // From the start with what it declares: the dtypes of its outputs follow from the model.
    candidate = open_candidate(flags.candidate, model, limits);
  }
  take_declared(*candidate, model);
  CheckPictures pictures;
  if (!flags.failures.empty()) {
    std::error_code error;
    std::filesystem::create_directories(flags.failures, error);
    if (error) throw InputError(flags.failures + ": cannot make the folder: " + error.message());
  }
  request.observe = [&](Verdict& verdict, const Evidence& evidence) {
    verdict.replay = replay_line(flags, verdict);
    if (!flags.html.empty()) pictures.add(verdict, evidence);
    if (flags.failures.empty() || !is_finding(verdict.kind)) return;
    const std::string folder = write_failure(flags.failures, verdict, evidence, model,
                                             absolute_candidate(flags.candidate));
    verdict.replay = "sh " + shell_word(folder + "/replay.sh");
  };
  CheckReport report;
  const StopSignal signals;
  {
    Progress progress("assay check " + flags.candidate);
    request.progress = progress.callback();
    if (given) {
      report.candidate = candidate->info().name;
      report.model = model;
      try {
        report.verdicts.push_back(
            check_case(*candidate, {std::move(*given), "case file", exact}, model, request));
      } catch (const Interrupted&) {
        report.skipped.push_back("the case: not judged before the interrupt");
      }
      report.signal = StopSignal::received();
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
  if (!flags.html.empty()) {
    write(flags.html, render::render_page(check_page(report, pictures, invocation())));
  }
  const std::string text =
      flags.json == "-" ? "" : check_text(report) + (flags.github ? check_github(report) : "");
  std::fwrite(text.data(), 1, text.size(), stdout);
  die_by(report.signal);
  if (report.failed()) return kFinding;
  return report.nothing_judged() ? kUndecided : kWell;
}

void add_formats(CLI::App& app, CheckFlags& flags) {
  app.add_option("--json", flags.json, "write JSON here (-: to the terminal)")
      ->check(writable_file());
  app.add_option("--junit", flags.junit, "write JUnit XML here")->check(writable_file());
  app.add_option("--sarif", flags.sarif, "write SARIF here")->check(writable_file());
  app.add_flag("--github", flags.github, "print GitHub annotations");
  app.add_option("--html", flags.html, "write a page with pictures here")->check(writable_file());
  app.add_option("--failures", flags.failures, "write a folder for every finding into this one");
  add_threads(app, flags.threads);
}

}  // namespace

Command add_check(CLI::App& parent) {
  auto flags = std::make_shared<CheckFlags>();
  CLI::App* app = parent.add_subcommand("check", "A verdict on a candidate kernel");
  app->add_option("op", flags->operations, "operations (default: all the candidate declares)");
  app->add_option(
         "--candidate", flags->candidate,
         "cpu, cuda, path.so, python:module:function, outputs:FILE, fault:ID or emulated:MODEL")
      ->capture_default_str();
  app->add_option("--model", flags->model, "fp32, tf32, fp16, bf16 or a JSON file");
  app->add_option("--case", flags->case_file, "judge this case file only");
  app->add_option("--budget", flags->budget, "time for everything, like 60s or 2m")
      ->capture_default_str();
  add_seed(*app, flags->seed, "seed of the cases");
  app->add_option("--time-limit", flags->time_limit, "seconds after which a call counts as hung")
      ->check([](const std::string& text) {
        const auto seconds = parse_real(text);
        return seconds && *seconds >= 0.1 && *seconds <= 86400
                   ? std::string()
                   : "a number of seconds from 0.1 to 86400 is needed";
      })
      ->capture_default_str();
  app->add_option("--only", flags->only, "run the case of this number only")
      ->check(CLI::Range(1, 1000000));
  app->add_flag("--no-grad", flags->no_gradients, "forward only");
  app->add_flag("--quick", flags->quick,
                "one call of a case: no repeated calls, strides and properties");
  add_formats(*app, *flags);
  return {app, [flags] { return run_check(*flags); }};
}

Command add_judge(CLI::App& parent) {
  auto flags = std::make_shared<CheckFlags>();
  auto file = std::make_shared<std::string>();
  CLI::App* app = parent.add_subcommand("judge", "A verdict on results computed elsewhere");
  app->add_option("file", *file, "safetensors file with outputs and gradients d_<input>")
      ->required();
  app->add_option("--case", flags->case_file, "the inputs, when they are not in the same file");
  app->add_option("--model", flags->model, "fp32, tf32, fp16, bf16 or a JSON file");
  add_seed(*app, flags->seed, "seed of the rounding noise");
  add_formats(*app, *flags);
  return {app, [flags, file] {
            flags->candidate = "outputs:" + *file;
            if (flags->case_file.empty()) flags->case_file = *file;
            return run_check(*flags);
          }};
}

}  // namespace assay::cli
