// `assay fuzz` and `merge`: campaigns.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "checks/candidate/stop_signal.hpp"
#include "checks/cli/command.hpp"
#include "checks/cli/subject.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/progress.hpp"
#include "fuzz/campaign/campaign.hpp"
#include "fuzz/campaign/fault_table.hpp"
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
  bool every_fault = false, threads_given = false;
  std::vector<std::string> faults;
  std::string markdown, pin;
};

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
  return report.tally.verdicts.count(verdict_name(VerdictKind::pass)) ? kWell : kUndecided;
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
  if (cluster && !flags.threads_given) request.threads = 1;  // ranks share the cores already
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
  if (!cluster) die_by(report.signal);
  return code;
}

}  // namespace

Command add_fuzz(CLI::App& parent) {
  auto flags = std::make_shared<FuzzFlags>();
  FuzzRequest& r = flags->request;
  CLI::App* app = parent.add_subcommand("fuzz", "A campaign of cases against a candidate kernel");
  app->add_option("op", r.operations, "operations (default: all the candidate declares)");
  app->add_option("--candidate", r.candidate.spec, "as for check")->capture_default_str();
  app->add_option("--model", r.candidate.model, "fp32, tf32, fp16, bf16 or a JSON file");
  app->add_option("--out", r.out, "folder of the campaign")
      ->check(named_folder())
      ->capture_default_str();
  app->add_flag("--resume", r.resume, "go on with the campaign in that folder");
  app->add_option("--budget", flags->budget, "time for new cases, like 60s, 2m, 8h; 0: no limit")
      ->capture_default_str();
  app->add_option("--cases", r.cases,
                  "numbers of the plan to try (default: until the time is over)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 50));
  add_seed(*app, r.seed, "seed of the cases");
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
  app->add_option("--shrink-seconds", r.shrink_seconds, "and the time for it")
      ->check(CLI::Range(1.0, 1e6))
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
  app->add_option("--json", flags->json, "write the result here too (-: to the terminal)")
      ->check(writable_file());
  add_threads(*app, r.threads);
  return {app, [flags, app] {
            flags->threads_given = app->count("--threads") > 0;
            return run_fuzz_command(*flags);
          }};
}

Command add_merge(CLI::App& parent) {
  struct Flags {
    std::vector<std::string> folders;
    std::string out, json;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* app = parent.add_subcommand("merge", "Several campaigns as one: shards, other seeds");
  app->add_option("folder", flags->folders, "folders of campaigns")->required();
  app->add_option("--out", flags->out, "folder to write into")->check(named_folder())->required();
  app->add_option("--json", flags->json, "write the result here too (-: to the terminal)")
      ->check(writable_file());
  return {
      app, [flags] {
        for (const std::string& folder : flags->folders) {
          std::error_code none;
          if (!std::filesystem::equivalent(folder, flags->out, none)) continue;
          throw InputError("--out is '" + flags->out + "', which is one of the campaigns merged");
        }
        return finish(merge_campaigns(flags->folders, flags->out), flags->out, flags->json);
      }};
}

}  // namespace assay::cli
