// `assay fuzz`, `replay`, `shrink`, `corpus`, `merge`: campaigns and what they leave.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "checks/cli/command.hpp"
#include "checks/output/failure_folder.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/progress.hpp"
#include "checks/output/verdict_text.hpp"
#include "fuzz/campaign/campaign.hpp"
#include "fuzz/campaign/fault_table.hpp"
#include "fuzz/campaign/minimal.hpp"
#include "fuzz/campaign/shrink.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;

struct FuzzFlags {
  FuzzRequest request;
  std::string budget = "60s", shard, phases, target = "z", json, corpus;
  bool no_corpus = false, no_grad = false;
  bool every_fault = false;
  std::vector<std::string> faults;
  std::string markdown, pin;
};

/// A plug-in's path holds from everywhere.
std::string absolute_spec(const std::string& spec) {
  std::error_code error;
  const std::string file = spec.substr(0, spec.rfind('@'));
  if (!fs::is_regular_file(file, error)) return spec;
  return fs::absolute(file).string() + spec.substr(file.size());
}

std::string default_corpus() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {fs::path(ASSAY_SOURCE_DIR) / "fuzz/corpus",
                                program / "../" ASSAY_DATA_DIR "/corpus", program / "corpus"}) {
    if (fs::is_directory(place, error)) return place.string();
  }
  return "";
}

/// "2/8", from 0; and what test runners say in the environment.
void take_shard(const std::string& text, FuzzRequest& request) {
  std::string index, total;
  std::string source = "--shard " + quote_name(text);
  if (!text.empty()) {
    const std::size_t slash = text.find('/');
    index = text.substr(0, slash);
    if (slash != std::string::npos) total = text.substr(slash + 1);
  } else {
    const char* i = std::getenv("GTEST_SHARD_INDEX");
    const char* n = std::getenv("GTEST_TOTAL_SHARDS");
    if (i == nullptr && n == nullptr) return;
    index = i ? i : "";
    total = n ? n : "";
    source = "GTEST_SHARD_INDEX and GTEST_TOTAL_SHARDS";
  }
  const auto i = parse_integer(index), n = parse_integer(total);
  if (!i || !n || *n < 1 || *n > 1'000'000 || *i < 0 || *i >= *n) {
    throw InputError(source + ": must be i/n with 0 <= i < n");
  }
  request.shard = *i;
  request.shards = *n;
}

int finish(const FuzzReport& report, const std::string& out, const std::string& json) {
  const Json document = fuzz_json(report);
  {
    const Uninterrupted guard;
    write_file_atomic(out + "/result.json", document.dump(1) + "\n");
    if (!json.empty() && json != "-") write_file_atomic(json, document.dump(1) + "\n");
  }
  if (json == "-") {
    print_json(document);
  } else {
    fmt::print("{}  {}/result.json\n", fuzz_text(report), out);
  }
  if (report.tally.findings > 0) return kFinding;
  return report.tally.cases > 0 ? kWell : kUndecided;
}

int run_every_fault(const FuzzFlags& flags, const FuzzRequest& fuzz) {
  FaultTableRequest request;
  request.fuzz = fuzz;
  request.out = fuzz.out;
  request.faults = flags.faults;
  std::error_code error;
  if (fs::exists(request.out, error) && !fs::is_empty(request.out, error)) {
    throw InputError(request.out + ": is not empty; every fault needs a fresh folder");
  }
  std::vector<FaultRow> rows;
  {
    Progress progress("assay fuzz --every-fault");
    request.progress = progress.callback();
    rows = fault_table(request);
  }
  const Uninterrupted guard;
  const std::string table = fault_table_markdown(rows);
  write_file_atomic(request.out + "/faults.json", fault_table_json(rows).dump(1) + "\n");
  if (!flags.json.empty() && flags.json != "-") {
    write_file_atomic(flags.json, fault_table_json(rows).dump(1) + "\n");
  }
  if (!flags.markdown.empty()) write_file_atomic(flags.markdown, table);
  std::int64_t missed = 0;
  for (const FaultRow& row : rows) {
    missed += !row.found;
    if (!row.found || flags.pin.empty()) continue;
    std::string name = row.fault;
    std::replace(name.begin(), name.end(), '*', '_');
    std::replace(name.begin(), name.end(), ':', '_');
    PinnedCase pinned{name, row.minimal, {row.fault}, row.title};
    write_file_atomic(flags.pin + "/" + name + ".safetensors", pinned_bytes(pinned));
  }
  if (flags.json == "-") {
    print_json(fault_table_json(rows));
  } else {
    fmt::print("{}{} of {} faults found\n", table, rows.size() - missed, rows.size());
  }
  return missed > 0 ? kFinding : kWell;
}

int run_fuzz_command(FuzzFlags& flags) {
  FuzzRequest request = flags.request;
  for (const std::string& op : request.operations) find_operation(op);
  request.candidate.spec = absolute_spec(request.candidate.spec);
  request.candidate.gradients = !flags.no_grad;
  request.budget_seconds = flags.budget == "0" ? 0 : parse_duration(flags.budget);
  request.target = parse_target(flags.target);
  take_shard(flags.shard, request);
  if (!flags.phases.empty()) {
    request.phases.clear();
    for (const std::string& name : split(flags.phases, ',')) {
      request.phases.push_back(parse_phase(name));
    }
  }
  if (!flags.no_corpus) request.corpus = flags.corpus.empty() ? default_corpus() : flags.corpus;
  if (request.budget_seconds == 0 && request.cases == 0 && request.stop_after == 0) {
    throw InputError("--budget 0 needs --cases or --stop-after, or it would never end");
  }
  if (flags.every_fault) return run_every_fault(flags, request);
  const std::unique_ptr<Cluster> cluster = join_cluster();
  if (cluster && request.shards > 1) {
    throw InputError("ranks share the cases among themselves; --shard is for runs that do not");
  }
  const bool leads = !cluster || cluster->rank() == 0;
  FuzzReport report;
  {
    Progress progress("assay fuzz " + request.candidate.spec, leads);
    request.progress = progress.callback();
    if (leads && flags.json != "-") {
      request.say = [&](const std::string& text) {
        progress.clear();
        fmt::print("{}", text);
        std::fflush(stdout);
      };
    }
    report = run_fuzz(request, cluster.get());
  }
  if (!leads) return kWell;
  const int code = finish(report, request.out, flags.json);
  if (report.signal != 0 && !cluster) {
    std::fflush(stdout);
    std::signal(report.signal, SIG_DFL);
    std::raise(report.signal);
  }
  return code;
}

/// What `replay` and `shrink` are given: a failure folder, a case file or a case line.
struct Subject {
  CheckCase given;
  std::string candidate, model;  // of the folder, if it says so
  std::string expected;          // its verdict
};

Subject load_subject(const std::string& text) {
  std::error_code error;
  Subject s;
  if (fs::is_directory(text, error)) {
    s.given = load_pinned(text + "/case.safetensors", text).given;
    if (fs::exists(text + "/model.json", error)) s.model = text + "/model.json";
    for (const std::string& place : {text + "/finding.json", text + "/../../finding.json"}) {
      if (!fs::exists(place, error)) continue;
      const Json finding = Json::parse(read_file_bytes(place, 64 << 20), nullptr, false);
      if (!finding.is_object()) throw InputError(place + ": is no JSON object");
      s.candidate = finding.value("candidate", "");
      break;
    }
    if (fs::exists(text + "/verdict.json", error)) {
      const Json verdict =
          Json::parse(read_file_bytes(text + "/verdict.json", 64 << 20), nullptr, false);
      if (verdict.is_object() && verdict.contains("verdict") && verdict["verdict"].is_string()) {
        s.expected = verdict["verdict"];
      }
    }
    return s;
  }
  if (text.find(' ') == std::string::npos && looks_like_file(text)) {
    s.given = load_pinned(text, text).given;
    return s;
  }
  s.given = {build_case(parse_recipe(text)), "case line", false};
  return s;
}

struct ReplayFlags {
  std::string subject, candidate, model, out;
  std::int64_t steps = 1500;
  double call_seconds = 10;
};

Examiner examiner_for(const Subject& subject, const ReplayFlags& flags) {
  CandidateRequest request;
  request.spec = !flags.candidate.empty() ? flags.candidate
                 : subject.candidate.empty() ? "cpu"
                                             : subject.candidate;
  request.spec = absolute_spec(request.spec);
  request.model = flags.model.empty() ? subject.model : flags.model;
  request.call_seconds = flags.call_seconds;
  return Examiner(request);
}

int run_replay(const ReplayFlags& flags) {
  const Subject subject = load_subject(flags.subject);
  Examiner examiner = examiner_for(subject, flags);
  const Verdict verdict = examiner.verdict(subject.given);
  fmt::print("{}", verdict_text(verdict));
  if (!subject.expected.empty()) {
    const std::string now = verdict_name(verdict.kind);
    fmt::print("{}: {} when it was found, {} now\n",
               now == subject.expected ? "reproduced" : "NOT REPRODUCED", subject.expected, now);
  }
  if (is_finding(verdict.kind)) return kFinding;
  return verdict.kind == VerdictKind::unsupported ? kUndecided : kWell;
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
    return record.outcome.signature.kind == VerdictKind::unsupported ? kUndecided : kWell;
  }
  KeepRequest keep;
  keep.folder = flags.out;
  keep.candidate = flags.candidate.empty() ? subject.candidate : absolute_spec(flags.candidate);
  if (keep.candidate.empty()) keep.candidate = "cpu";
  keep.shrink.steps = flags.steps;
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

}  // namespace

Command add_fuzz(CLI::App& parent) {
  auto flags = std::make_shared<FuzzFlags>();
  FuzzRequest& r = flags->request;
  CLI::App* app = parent.add_subcommand("fuzz", "A campaign of cases against a candidate kernel");
  app->add_option("op", r.operations, "operations (default: all the candidate declares)");
  app->add_option("--candidate", r.candidate.spec, "as for check")->capture_default_str();
  app->add_option("--model", r.candidate.model, "fp32, tf32, fp16, bf16 or a JSON file");
  app->add_option("--out", r.out, "folder of the campaign")->capture_default_str();
  app->add_flag("--resume", r.resume, "go on with the campaign in that folder");
  app->add_option("--budget", flags->budget, "time for new cases, like 60s, 2m, 8h; 0: no limit")
      ->capture_default_str();
  app->add_option("--cases", r.cases, "numbers of the plan to try (default: until the time is over)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 50));
  app->add_option("--seed", r.seed, "seed of the cases")->capture_default_str();
  app->add_option("--stop-after", r.stop_after, "end after so many findings")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 50));
  app->add_option("--phases", flags->phases, "of corpus,past,grid,random,target (all)");
  app->add_option("--target", flags->target, "what searches push up: z, hard, growth or time")
      ->capture_default_str();
  app->add_option("--shard", flags->shard, "i/n: the part i of n of all numbers, from 0");
  app->add_option("--corpus", flags->corpus, "folder of pinned cases (the built-in one)");
  app->add_flag("--no-corpus", flags->no_corpus, "no pinned cases");
  app->add_option("--past", r.past, "folders of earlier campaigns, whose failures are tried first");
  app->add_option("--tokens", r.limits.tokens, "longest random sequence")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app->add_option("--width", r.limits.width, "largest random K, V and the like")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--keep", r.keep, "findings of each kind that get a folder and are shrunk")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app->add_option("--shrink-steps", r.shrink_steps, "calls of the candidate to shrink one finding")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app->add_option("--time-limit", r.candidate.call_seconds,
                  "seconds after which a call counts as hung")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app->add_flag("--no-grad", flags->no_grad, "forward only");
  app->add_flag("--every-fault", flags->every_fault,
                "a campaign for every fault of the dictionary, until it is found and shrunk");
  app->add_option("--faults", flags->faults, "these faults only")->delimiter(',');
  app->add_option("--markdown", flags->markdown, "write the table of faults here");
  app->add_option("--pin", flags->pin, "write the minimal case of every fault into this folder");
  app->add_option("--json", flags->json, "write the result here too (-: to the terminal)");
  add_threads(*app, r.threads);
  return {app, [flags, app] {
            // Ranks share the machine already.
            if (app->count("--threads") == 0 && std::getenv("OMPI_COMM_WORLD_SIZE")) {
              flags->request.threads = 1;
            }
            return run_fuzz_command(*flags);
          }};
}

namespace {

void add_replay_options(CLI::App& app, ReplayFlags& flags) {
  app.add_option("case", flags.subject,
                 "a failure folder, a case file, or a case line in quotes")
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
  app->add_option("--out", flags->out, "folder to write into")->capture_default_str();
  app->add_option("--steps", flags->steps, "calls of the candidate at most")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  return {app, [flags] { return run_shrink(*flags); }};
}

Command add_corpus(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("corpus", "Pinned cases");
  return {app, [] { return int{kWell}; }};
}

Command add_merge(CLI::App& parent) {
  struct Flags {
    std::vector<std::string> folders;
    std::string out, json;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand("merge", "Several campaigns as one: shards, other seeds");
  app->add_option("folder", flags->folders, "folders of campaigns")->required();
  app->add_option("--out", flags->out, "folder to write into")->required();
  app->add_option("--json", flags->json, "write the result here too (-: to the terminal)");
  return {app, [flags] {
            return finish(merge_campaigns(flags->folders, flags->out), flags->out, flags->json);
          }};
}

}  // namespace assay::cli
