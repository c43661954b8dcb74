// `assay verify`: the main job. Every adjoint, every sample, one summary.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "checks/cli/command.hpp"
#include "checks/gradcheck/gradcheck.hpp"
#include "checks/output/decimal.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "checks/verdict/check.hpp"
#include "proofs/engine/prove.hpp"
#include "reference/case/file_io.hpp"
#include "reference/oracle/certify.hpp"
#include "reference/oracle/registry.hpp"
#include "reports/validation/check_page.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kSampleDigits = 50;
// The second engine confirms this many of them: enough to exclude a common cause, cheap to have.
constexpr int kConfirmedDigits = 30;

struct VerifyFlags {
  std::string samples;
  std::uint64_t seed = 1;
  std::string html = "assay-verify.html";
  bool json = false;
  int threads = 1;
};

constexpr double kSecondsPerOperation = 1;

struct Line {
  std::string what;
  bool failed = false;
  bool nothing = false;  // could not say anything
  std::string detail;
  double seconds = 0;
  std::vector<std::string> more = {};
};

fs::path samples_folder(const std::string& given) {
  if (!given.empty()) {
    if (!fs::is_directory(given)) throw InputError(given + ": no such folder (--samples)");
    return given;
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path places[] = {fs::path(ASSAY_SOURCE_DIR) / "checks/samples",
                             program.parent_path().parent_path() / ASSAY_DATA_DIR / "samples",
                             program.parent_path() / "samples"};
  for (const fs::path& place : places) {
    if (fs::is_directory(place, error)) return place;
  }
  throw InputError("no samples found; give their folder with --samples");
}

std::vector<fs::path> sample_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Told the share of one line's work that is done, and what is being done.
using Report = std::function<void(double, const std::string&)>;

Line gradcheck_line(const Operation& operation, const VerifyFlags& flags, const Report& report_to) {
  Line line;
  const Schema schema = operation.schema(nullptr);
  line.what = "gradcheck " + schema.op;
  if (std::all_of(schema.outputs.begin(), schema.outputs.end(),
                  [](const OutputSpec& output) { return output.integer; })) {
    line.detail = "integer outputs only, there is no adjoint";
    return line;
  }
  GradcheckRequest request;
  request.seed = flags.seed;
  request.threads = flags.threads;
  int passed = 0, skipped = 0;
  const std::vector<ValidCase> cases = gradcheck_cases(operation, flags.seed);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    request.progress = [&](double share, const std::string&) {
      report_to((static_cast<double>(i) + share) / static_cast<double>(cases.size()), line.what);
    };
    const GradcheckReport report = gradcheck(cases[i], request);
    for (const CheckOutcome& outcome : report.outcomes) {
      passed += outcome.status == CheckOutcome::Status::passed;
      skipped += outcome.status == CheckOutcome::Status::skipped;
      if (outcome.status != CheckOutcome::Status::failed) continue;
      line.failed = true;
      line.more.push_back(fmt::format("case {} {}: {}; worst {}{}", i + 1, outcome.check,
                                      outcome.detail, outcome.worst_tensor, outcome.worst_index));
      line.more.insert(line.more.end(), outcome.lines.begin(), outcome.lines.end());
    }
  }
  line.nothing = passed == 0 && !line.failed;
  line.detail = fmt::format("{} cases, {} checks passed{}", cases.size(), passed,
                            skipped == 0 ? "" : fmt::format(", {} do not apply", skipped));
  return line;
}

Line sample_line(const fs::path& file, const VerifyFlags& flags, const Report& report_to) {
  Line line;
  line.what = "sample " + file.stem().string();
  const ValidCase c = load_case(file.string(), false);
  EvalRequest request;
  request.gradients = true;
  request.threads = flags.threads;
  double done = 0;
  request.progress = [&](double share, const std::string& what) {
    report_to(done + share / 2, line.what + ", " + what);
  };
  request.digits = kSampleDigits;
  const Evaluation ball = evaluate_certified(c, request);
  done = 0.5;
  request.digits = kConfirmedDigits;
  request.engine = EngineKind::mpfr;
  const Evaluation mpfr = evaluate_certified(c, request);

  std::size_t values = 0;
  for (const auto* tensors : {&ball.outputs, &ball.gradients}) {
    for (const auto& [name, tensor] : *tensors) values += tensor.values.size();
  }
  line.detail = fmt::format("{} values to {} digits, {} confirmed by the second engine", values,
                            kSampleDigits, kConfirmedDigits);
  if (const auto found = first_disagreement(ball, mpfr)) {
    line.failed = true;
    line.more.push_back("the engines disagree at " + *found);
  }
  for (const DomainNote& note : c.notes) line.more.push_back("note: " + domain_note_text(note));
  return line;
}

/// A built-in plug-in under one precision model: one line per operation, pictures for the page.
class KernelCheck {
 public:
  KernelCheck(const std::string& spec, const std::string& model, const VerifyFlags& flags)
      : spec_(spec), model_(preset_model(model)), flags_(flags) {
    RunLimits limits;
    candidate_ = open_candidate(spec, model_, limits);
    take_declared(*candidate_, model_);
    report_.candidate = candidate_->info().name;
    report_.model = model_;
  }

  const std::vector<std::string>& operations() const { return candidate_->info().operations; }

  std::string name(const std::string& op) const {
    return fmt::format("{} {} {}", spec_, model_.name, op);
  }

  Line line(const std::string& op, const Report& report_to) {
    CheckRequest request;
    request.operations = {op};
    request.budget_seconds = kSecondsPerOperation;
    request.seed = flags_.seed;
    request.threads = flags_.threads;
    request.observe = [&](Verdict& verdict, const Evidence& evidence) {
      verdict.replay = fmt::format("assay check {} --candidate {} --model {} --seed {} --only {}",
                                   op, spec_, model_.name, flags_.seed, verdict.number);
      pictures_.add(verdict, evidence);
    };
    request.progress = report_to;
    const CheckReport one = check(*candidate_, model_, request);
    Line line;
    line.what = name(op);
    std::map<VerdictKind, int> counts;
    double z = 0;
    for (const Verdict& v : one.verdicts) {
      ++counts[v.kind];
      for (const TensorVerdict& t : v.tensors) z = std::max(z, t.stats.max_z);
      if (!is_finding(v.kind) || line.failed) continue;
      line.failed = true;
      line.more.push_back(v.case_line + ": " + v.sentence);
      line.more.push_back("replay: " + v.replay);
    }
    line.nothing = counts[VerdictKind::pass] == 0 && !line.failed;
    line.detail = fmt::format("largest z {:.3g};", z);
    for (const auto& [kind, count] : counts) {
      if (count > 0) line.detail += fmt::format(" {} {}", count, verdict_name(kind));
    }
    report_.verdicts.insert(report_.verdicts.end(), one.verdicts.begin(), one.verdicts.end());
    return line;
  }

  std::vector<render::Section> sections() const {
    std::vector<render::Section> all = check_sections(report_, pictures_);
    for (render::Section& section : all) section.title = name(section.title);
    return all;
  }

 private:
  std::string spec_;
  PrecisionModel model_;
  const VerifyFlags& flags_;
  std::unique_ptr<Candidate> candidate_;
  CheckReport report_;
  CheckPictures pictures_;
};

/// The plug-ins that this program brings along and that this machine can run; why not, otherwise.
std::vector<std::unique_ptr<KernelCheck>> built_in_kernels(const VerifyFlags& flags,
                                                           std::vector<std::string>& missing) {
  std::vector<std::unique_ptr<KernelCheck>> all;
  for (const char* spec : {"cpu", "cuda"}) {
    for (const char* model : {"fp32", "bf16"}) {
      try {
        all.push_back(std::make_unique<KernelCheck>(spec, model, flags));
      } catch (const InputError& error) {
        missing.push_back(fmt::format("{} kernels were not checked: {}", spec, error.what()));
        break;
      }
    }
  }
  return all;
}

std::string line_status(const Line& line);

render::Page verify_page(const std::vector<Line>& lines,
                         const std::vector<std::unique_ptr<KernelCheck>>& kernels,
                         const std::vector<std::string>& missing) {
  render::Page page;
  page.title = "assay verify";
  page.subtitle = "every adjoint, every built-in kernel that runs here, every sample";
  render::Table table{
      "Everything that was done", {{"status"}, {"what"}, {"seconds", true}, {"result"}}, {}};
  int failed = 0;
  for (const Line& line : lines) {
    failed += line.failed;
    const render::Tone tone = line.failed    ? render::Tone::bad
                              : line.nothing ? render::Tone::warn
                                             : render::Tone::good;
    table.rows.push_back({render::Cell(line_status(line), tone), line.what,
                          fmt::format("{:.1f}", line.seconds), line.detail});
  }
  page.verdict = failed != 0
                     ? render::Headline{render::Tone::bad, "FAILED",
                                        fmt::format("{} of {} failed.", failed, lines.size())}
                     : render::Headline{render::Tone::good, "PASS",
                                        fmt::format("All {} are well.", lines.size())};
  page.sections = {{"Summary", {table}}};
  if (!missing.empty()) page.sections[0].blocks.push_back(render::Notes{missing});
  std::vector<std::string> more;
  for (const Line& line : lines) {
    for (const std::string& text : line.more) more.push_back(line.what + ": " + text);
  }
  if (!more.empty()) page.sections[0].blocks.push_back(render::Notes{more});
  for (const auto& kernel : kernels) {
    for (render::Section& section : kernel->sections()) {
      // Closed at first: there are many.
      render::Details details{"pictures and cases", std::move(section.blocks)};
      page.sections.push_back({section.title, {std::move(details)}});
    }
  }
  page.provenance = {{"program", "assay " ASSAY_VERSION}, {"command", invocation()}};
  return page;
}

template <class Work>
Line timed(const std::string& what, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  Line line;
  try {
    line = work();
  } catch (const InputError& error) {
    line.what = what;
    line.failed = true;
    line.detail = error.what();
  }
  line.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return line;
}

std::string line_status(const Line& line) {
  if (line.failed) return "FAILED";
  return line.nothing ? "nothing" : "ok";
}

void print_line(const Line& line) {
  fmt::print("{:<7} {:<32} {:>8}  {}\n", line_status(line), line.what, duration_text(line.seconds),
             line.detail);
  for (const std::string& text : line.more) fmt::print("        {}\n", text);
  std::fflush(stdout);
}

int finish(const std::vector<Line>& lines, const VerifyFlags& flags) {
  int failed = 0, nothing = 0;
  double seconds = 0;
  Json list = Json::array();
  for (const Line& line : lines) {
    failed += line.failed;
    nothing += line.nothing;
    seconds += line.seconds;
    list.push_back({{"what", line.what},
                    {"status", line_status(line)},
                    {"detail", line.detail},
                    {"seconds", line.seconds},
                    {"lines", line.more}});
  }
  if (flags.json) {
    Json document = json_document();
    document["seed"] = flags.seed;
    document["failed"] = failed;
    document["results"] = std::move(list);
    print_json(document);
  } else {
    fmt::print("\nassay verify: {} of {} well, {} failed{} in {}\n",
               static_cast<int>(lines.size()) - failed - nothing, lines.size(), failed,
               nothing == 0 ? "" : fmt::format(", {} said nothing", nothing),
               duration_text(seconds));
  }
  if (failed != 0) return kFinding;
  return lines.empty() || nothing != 0 ? kUndecided : kWell;
}

int run_verify(const VerifyFlags& flags) {
  const std::vector<fs::path> files = sample_files(samples_folder(flags.samples));
  if (files.empty()) throw InputError("the folder of samples holds no *.safetensors");
  std::vector<Line> lines;
  std::vector<std::string> missing;
  const auto kernels = built_in_kernels(flags, missing);
  Progress progress("assay verify");
  std::size_t count = operations().size() + files.size() + 1;
  for (const auto& kernel : kernels) count += kernel->operations().size();
  const double total = static_cast<double>(count);
  const Report report_to = [&](double share, const std::string& what) {
    progress.update((static_cast<double>(lines.size()) + share) / total, what);
  };
  const auto add = [&](Line line) {
    progress.clear();
    if (!flags.json) print_line(line);
    lines.push_back(std::move(line));
  };
  for (const Operation* operation : operations()) {
    add(timed("gradcheck " + operation->schema(nullptr).op,
              [&] { return gradcheck_line(*operation, flags, report_to); }));
  }
  for (const fs::path& file : files) {
    add(timed("sample " + file.stem().string(),
              [&] { return sample_line(file, flags, report_to); }));
  }
  const auto claims = proofs::select_claims({});
  {
    std::size_t proved = 0;
    add(timed("proofs", [&] {
      Line all;
      all.what = "proofs";
      const auto outcomes = proofs::prove_all(
          claims, flags.threads, false, [&](const proofs::Outcome& outcome, std::size_t) {
            report_to(static_cast<double>(++proved) / static_cast<double>(claims.size()),
                      "proof of " + outcome.claim->id);
          });
      int well = 0;
      for (const proofs::Outcome& outcome : outcomes) {
        well += outcome.as_stated;
        all.failed = all.failed || (!outcome.as_stated && !outcome.undecided);
        all.nothing = all.nothing || outcome.undecided;
        if (!outcome.as_stated) all.more.push_back(outcome.claim->id + ": " + outcome.detail);
      }
      all.detail = fmt::format("{} of {} claims come out as stated, with accepted certificates",
                               well, outcomes.size());
      return all;
    }));
  }
  for (const auto& kernel : kernels) {
    for (const std::string& op : kernel->operations()) {
      add(timed(kernel->name(op), [&] { return kernel->line(op, report_to); }));
    }
  }
  progress.clear();
  if (!flags.json) {
    for (const std::string& text : missing) fmt::print("note    {}\n", text);
  }
  std::string report;
  if (!flags.html.empty()) {
    try {
      const Uninterrupted guard;
      write_file_atomic(flags.html, render::render_page(verify_page(lines, kernels, missing)));
      report = flags.html;
    } catch (const render::RenderError& error) {
      fmt::print(stderr, "assay: no report was written: {}\n", error.what());
    }
  }
  const int code = finish(lines, flags);
  if (!flags.json && !report.empty()) fmt::print("report: {}\n", fs::absolute(report).string());
  return code;
}

}  // namespace

Command add_verify(CLI::App& parent) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* app = parent.add_subcommand(
      "verify", "The main job: every adjoint, every built-in kernel, every sample, one report");
  app->add_option("--samples", flags->samples, "folder of sample cases");
  add_seed(*app, flags->seed, "seed of the gradient checks");
  app->add_option("--html", flags->html, "the page to write; empty: none")
      ->check(writable_file())
      ->capture_default_str();
  app->add_flag("--json", flags->json, "print JSON");
  add_threads(*app, flags->threads);
  return {app, [flags] { return run_verify(*flags); }};
}

}  // namespace assay::cli
