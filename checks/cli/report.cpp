// `assay report`: pages about a trace or a gate box.
#include <fmt/format.h>

#include <optional>

#include "checks/cli/command.hpp"
#include "checks/cli/report_box.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "checks/verdict/check.hpp"
#include "reports/conditioning/conditioning.hpp"
#include "reports/conditioning/gate_map.hpp"
#include "reports/render/sha256.hpp"
#include "reports/spectrum/spectrum.hpp"
#include "reports/stability/stability.hpp"

namespace assay::cli {
namespace {

namespace render = assay::render;

struct ReportFlags {
  std::string trace;
  std::vector<std::string> boxes;
  bool paper = false;
  std::string out;
  bool png = false, pdf = false, json = false;
  int threads = 1;
  int points = 100000;
  int enclose = 0;
  std::int64_t steps = 0;
  std::int64_t chunks = 64;
  std::string op, candidate, model, errors;  // of a map over the gates
  reports::GateMapRequest map;
  std::string keys = "any";
  double budget = 20;
  bool suggest = false;
};

/// The three panels of [MDN v1, Fig. 2]: one real eigenvalue, the disc, the right half of it.
const std::vector<std::string> kPaperBoxes = {"gdn:alpha=0:1,beta=0:1",
                                              "mdn:alpha=0:1,beta=0:1,mu=0:1,eta=0:2",
                                              "mdn:coupled,s=1,log_mu=-1:0"};

void check_source(const ReportFlags& flags) {
  const bool boxes = !flags.boxes.empty() || flags.paper;
  if (flags.trace.empty() == !boxes) {
    throw InputError("one of --trace and --box must be given" +
                     std::string(boxes ? ", not both" : ""));
  }
}

/// Provenance, files, one line or JSON; the exit code.
int deliver(render::Report report, const ReportFlags& flags) {
  auto& provenance = report.page.provenance;
  provenance.emplace_back("program", "assay " ASSAY_VERSION);
  provenance.emplace_back("command", invocation());
  if (!flags.trace.empty()) {
    provenance.emplace_back("input", flags.trace);
    provenance.emplace_back("sha256", render::sha256_of_file(flags.trace));
  }
  std::vector<std::string> written;
  if (!flags.out.empty()) {
    const Uninterrupted guard;
    written = render::write_report(report, flags.out, {flags.png, flags.pdf});
  }
  if (flags.json) {
    print_json(render::report_json(report));
  } else {
    fmt::print("{}: {}\n", report.page.verdict.word, report.page.verdict.sentence);
    for (const std::string& file : written) fmt::print("  {}/{}\n", flags.out, file);
  }
  return static_cast<int>(report.outcome);
}

int run_spectrum(ReportFlags& flags) {
  check_source(flags);
  Progress progress("assay report spectrum");
  if (!flags.trace.empty()) {
    const reports::Trace trace(flags.trace);
    reports::SpectrumOptions options;
    options.threads = flags.threads;
    options.most_steps = flags.steps;
    options.enclose = flags.enclose;
    options.progress = progress.callback();
    const auto units = reports::trace_spectrum(trace, options);
    render::Report report = reports::spectrum_report(trace, units, options);
    progress.clear();
    return deliver(std::move(report), flags);
  }
  std::vector<std::string> texts = flags.boxes;
  if (flags.paper) texts.insert(texts.end(), kPaperBoxes.begin(), kPaperBoxes.end());
  std::vector<reports::GateBox> boxes;
  std::vector<reports::UnitSpectrum> results;
  for (const std::string& text : texts) boxes.push_back(reports::parse_box(text));
  for (const reports::GateBox& box : boxes) {
    results.push_back(reports::box_spectrum(box, flags.points, 8));
  }
  render::Report report = reports::box_spectrum_report(boxes, results);
  progress.clear();
  return deliver(std::move(report), flags);
}

int run_stability(const ReportFlags& flags) {
  check_source(flags);
  if (!flags.boxes.empty()) {
    if (flags.boxes.size() > 1) throw InputError("--box: one box at a time");
    const reports::BoxFinding finding =
        decide_box({flags.boxes.front(), flags.keys, flags.budget, flags.suggest, flags.out});
    render::Report report = reports::box_stability_report(finding);
    const int code = deliver(report, flags);
    if (flags.suggest && !flags.json) {
      fmt::print("suggested mu: {}\n", finding.suggested_mu.value_or("none certified"));
      if (finding.suggested_s) fmt::print("suggested s: {}\n", *finding.suggested_s);
    }
    return code;
  }
  Progress progress("assay report stability");
  const reports::Trace trace(flags.trace);
  const auto units = reports::trace_stability(trace, {flags.threads, progress.callback()});
  render::Report report = reports::stability_report(trace, units);
  progress.clear();
  return deliver(std::move(report), flags);
}

/// What a candidate loses over constant gates, measured now or read from a file.
int run_gate_map(ReportFlags& flags) {
  if (!flags.trace.empty() || !flags.boxes.empty() ||
      flags.candidate.empty() == flags.errors.empty()) {
    throw InputError("one of --trace, --box, --candidate and --errors must be given");
  }
  if (!flags.errors.empty()) {
    return deliver(reports::gate_map_report(reports::read_gate_map(flags.errors)), flags);
  }
  if (!flags.op.empty() && flags.op != "mdn") {
    throw InputError("a map over alpha and mu is for mdn, not for " + flags.op);
  }
  Progress progress("assay report conditioning");
  reports::GateMapRequest& map = flags.map;
  map.candidate = flags.candidate;
  map.model = flags.model.empty() ? preset_model("fp32") : load_model(flags.model);
  if (flags.model.empty()) {
    const auto& own = open_candidate(flags.candidate, map.model, {})->info().model;
    if (own) map.model = *own;
  }
  map.threads = flags.threads;
  map.progress = progress.callback();
  render::Report report = reports::gate_map_report(reports::measure_gate_map(map));
  progress.clear();
  return deliver(std::move(report), flags);
}

int run_conditioning(ReportFlags& flags) {
  if (!flags.candidate.empty() || !flags.errors.empty()) return run_gate_map(flags);
  check_source(flags);
  Progress progress("assay report conditioning");
  std::vector<reports::UnitConditioning> units;
  std::vector<std::string> notes;
  bool delta = false;
  std::string title = "gate boxes", subtitle;
  if (!flags.trace.empty()) {
    const reports::Trace trace(flags.trace);
    units = reports::trace_conditioning(trace, {flags.threads, flags.chunks, progress.callback()});
    notes = trace.notes();
    notes.push_back(
        fmt::format("At most {} chunks per head and length, evenly spread.", flags.chunks));
    delta = trace.unit_op() != "mdn";
    title = trace.op();
    subtitle = trace.path();
  } else {
    notes = {
        "Constant gates at the corners of the box, then gates that change at every step; one "
        "key throughout, the worst case. A sample, not a proof."};
    for (const std::string& text : flags.boxes) {
      const reports::GateBox box = reports::parse_box(text);
      delta = delta || box.op != "mdn";
      subtitle += (subtitle.empty() ? "" : "; ") + text;
      units.push_back(reports::box_conditioning(box, static_cast<int>(flags.chunks)));
    }
  }
  render::Report report = reports::conditioning_report("Conditioning of the chunk form of " + title,
                                                       subtitle, units, notes, delta);
  progress.clear();
  return deliver(std::move(report), flags);
}

constexpr const char* kBoxHelp =
    "gates without a model: mdn:alpha=0.9:1,beta=0:0.1,mu=0:0.7,eta=0:2, "
    "mdn:coupled,s=0.5,mu=0:0.7 "
    "(alpha <= 1/(1+s²eta²), beta <= the rest) or mdn:decoupled,... (beta <= 1-alpha)";

void add_common(CLI::App& app, ReportFlags& flags) {
  app.add_option("--trace", flags.trace, "case file (safetensors) of any length");
  app.add_option("--out", flags.out, "folder for the page, SVG, CSV and JSON")
      ->check(named_folder());
  app.add_flag("--png", flags.png, "the figures as PNG too");
  app.add_flag("--pdf", flags.pdf, "the figures as PDF too");
  app.add_flag("--json", flags.json, "print the data as JSON");
  add_threads(app, flags.threads);
}

}  // namespace

Command add_report(CLI::App& parent) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* app = parent.add_subcommand("report", "Pages about a trace or a gate box");
  app->require_subcommand(1);
  CLI::App* spectrum =
      app->add_subcommand("spectrum", "Where the frozen eigenvalues lie, and what they hide");
  add_common(*spectrum, *flags);
  spectrum->add_option("--box", flags->boxes, kBoxHelp);
  spectrum->add_flag("--paper", flags->paper, "the three boxes of the MDN paper's figure 2");
  spectrum->add_option("--points", flags->points, "points per box")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  spectrum->add_option("--steps", flags->steps, "at most that many steps per head (0: all)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  spectrum
      ->add_option("--enclose", flags->enclose,
                   "that many steps per head with certain bounds (Arb)")
      ->check(CLI::Range(0, 1000000));
  CLI::App* stability =
      app->add_subcommand("stability", "Whether products of steps grow, forward and backward");
  add_common(*stability, *flags);
  stability->add_option("--box", flags->boxes, kBoxHelp);
  stability->add_option("--keys", flags->keys, "keys of the box: fixed, basis or any")
      ->check(CLI::IsMember({"fixed", "basis", "any"}))
      ->capture_default_str();
  stability->add_option("--budget", flags->budget, "seconds for the decision about the box")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  stability->add_flag("--suggest", flags->suggest,
                      "the largest mu bound (and smallest s) certified");
  CLI::App* conditioning =
      app->add_subcommand("conditioning", "What the chunk form loses, by form, format and length");
  add_common(*conditioning, *flags);
  conditioning->add_option("--box", flags->boxes, kBoxHelp);
  conditioning->add_option("--chunks", flags->chunks, "chunks per head and length")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  conditioning->add_option("op", flags->op, "mdn: with --candidate");
  conditioning->add_option("--candidate", flags->candidate,
                           "a map of this kernel's errors over alpha and mu, beside that of the "
                           "published formula; as for `assay check`");
  conditioning->add_option("--model", flags->model,
                           "its precision: fp32, tf32, fp16, bf16 or a file");
  conditioning->add_option("--points", flags->map.points, "of alpha, and of mu")
      ->check(CLI::Range(2, 200))
      ->capture_default_str();
  conditioning->add_option("--shape", flags->map.shape, "of a head")->capture_default_str();
  add_seed(*conditioning, flags->map.seed, "of the rows");
  conditioning->add_option("--errors", flags->errors,
                           "draw the map that --candidate --json printed, here or elsewhere");
  const Command validation = add_validation(*app);
  return {app, [=] {
            if (validation.app->parsed()) return validation.run();
            if (flags->out.empty() && !flags->json) {
              throw InputError("say where the report goes: --out FOLDER (or --json)");
            }
            if (spectrum->parsed()) return run_spectrum(*flags);
            if (stability->parsed()) return run_stability(*flags);
            if (conditioning->parsed()) return run_conditioning(*flags);
            return static_cast<int>(kBadInput);
          }};
}

}  // namespace assay::cli
