// `assay report validation`: the program measured on planted faults and correct kernels.
#include <fmt/format.h>

#include "checks/candidate/stop_signal.hpp"
#include "checks/cli/command.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"
#include "reports/validation/campaign.hpp"

namespace assay::cli {
namespace {

struct ValidationFlags {
  CampaignRequest request;
  std::string out, models, parts, operations;
  bool json = false;
};

std::vector<std::string> chosen(const std::string& text, const std::vector<std::string>& known,
                                const std::string& what) {
  if (text.empty()) return known;
  const std::vector<std::string> names = split(text, ',');
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw InputError(what + " " + quote_name(name) + ": known are " + join(known, ", "));
    }
  }
  return names;
}

int run_validation(ValidationFlags& flags) {
  flags.request.models = chosen(flags.models, flags.request.models, "model");
  flags.request.parts = chosen(flags.parts, flags.request.parts, "part");
  flags.request.operations = split(flags.operations, ',');
  for (const std::string& op : flags.request.operations) find_operation(op);
  const StopSignal signals;
  Progress progress("assay report validation");
  flags.request.progress = progress.callback();
  const CampaignReport campaign = run_campaign(flags.request);
  progress.clear();
  render::Report report = campaign_report(campaign);
  report.page.provenance = {{"program", "assay " ASSAY_VERSION}, {"command", invocation()}};
  {
    const Uninterrupted guard;
    render::write_report(report, flags.out, {});
    write_file_atomic(flags.out + "/validation.md", campaign_markdown(campaign));
  }
  if (flags.json) {
    print_json(render::report_json(report));
  } else {
    fmt::print("{}\n{}: {}\n  {}/validation.html\n", campaign_markdown(campaign),
               report.page.verdict.word, report.page.verdict.sentence, flags.out);
  }
  die_by(campaign.signal);
  return static_cast<int>(report.outcome);
}

}  // namespace

Command add_validation(CLI::App& report) {
  auto flags = std::make_shared<ValidationFlags>();
  CLI::App* app = report.add_subcommand(
      "validation", "How far the verdict can be trusted: planted faults, correct kernels");
  app->add_option("--out", flags->out, "folder to write into")->check(named_folder())->required();
  app->add_option("--models", flags->models, "precision models, separated by commas (all)");
  app->add_option("--parts", flags->parts, "kills, alarms, sensitivity (all)");
  app->add_option("--ops", flags->operations,
                  "operations for the planted faults and scaled gates (all)");
  app->add_option("--cases", flags->request.alarm_cases, "cases of correct kernels per model")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->capture_default_str();
  add_seed(*app, flags->request.seed, "seed of the cases");
  app->add_flag("--json", flags->json, "print JSON");
  add_threads(*app, flags->request.threads);
  return {app, [flags] { return run_validation(*flags); }};
}

}  // namespace assay::cli
