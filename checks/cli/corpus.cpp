// `assay corpus`: pinned cases.
#include "fuzz/corpus/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "checks/cli/command.hpp"
#include "checks/cli/subject.hpp"
#include "checks/faults/fault.hpp"
#include "checks/output/failure_folder.hpp"
#include "checks/output/interrupt.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "fuzz/campaign/examine.hpp"
#include "fuzz/generators/recipe.hpp"
#include "reference/case/file_io.hpp"
#include "reference/case/text.hpp"

namespace assay::cli {
namespace {

struct CorpusFlags {
  std::string folder, candidate = "cpu", model, name, why, list, subject, json;
  std::vector<std::string> catches;
  bool faults = false;
};

std::string folder_of(const CorpusFlags& flags) {
  const std::string folder = flags.folder.empty() ? default_corpus() : flags.folder;
  if (folder.empty()) throw InputError("there is no folder of pinned cases; --corpus names one");
  return folder;
}

bool caught(const std::string& fault, const CheckCase& c) {
  CandidateRequest request;
  request.spec = "fault:" + fault;
  request.model = infer_model(c.valid.data).name;
  return Examiner(request).examine(c, Depth::quick).finding();
}

/// All faults that the case shows, by their ids.
std::vector<std::string> caught_by(const CheckCase& c) {
  std::vector<std::string> ids;
  for (const Fault* fault : faults()) {
    if (fault->applies(c.valid) && caught(fault->info().id, c)) ids.push_back(fault->info().id);
  }
  return ids;
}

void check_name(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= 80 &&
                     name.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-.+") == std::string::npos &&
                     name[0] != '.';
  if (!plain)
    throw InputError("name " + quote_name(name) + ": letters, digits, _, -, + and . only");
}

void pin(const std::string& folder, PinnedCase c, bool search) {
  check_name(c.name);
  for (const std::string& id : c.catches) {
    if (!find_fault(id).applies(c.given.valid) || !caught(id, c.given)) {
      throw InputError(c.name + ": the case does not show " + id);
    }
  }
  if (search) c.catches = caught_by(c.given);
  const Uninterrupted guard;
  write_file_atomic(folder + "/" + c.name + ".safetensors", pinned_bytes(c));
  fmt::print("{:<32} [{}] {}\n  catches {}\n", c.name, case_hash(c.given), case_line(c.given.valid),
             c.catches.empty() ? "no fault of the dictionary" : join(c.catches, ", "));
}

/// Rows of "name | why | case line"; empty ones and those with # are none.
void pin_list(const std::string& folder, const std::string& path) {
  std::size_t number = 0;
  for (const std::string& row : split(read_file_bytes(path, 1 << 20), '\n')) {
    ++number;
    if (row.empty() || row[0] == '#') continue;
    const std::vector<std::string> parts = split(row, '|');
    if (parts.size() != 3) {
      throw InputError(fmt::format("{} line {}: must be name | why | case line", path, number));
    }
    const auto trimmed = [](const std::string& text) {
      const std::size_t first = text.find_first_not_of(' ');
      if (first == std::string::npos) return std::string();
      return text.substr(first, text.find_last_not_of(' ') + 1 - first);
    };
    const CheckCase given{build_case(parse_recipe(trimmed(parts[2]))), "pinned", false};
    pin(folder, {trimmed(parts[0]), given, {}, trimmed(parts[1])}, true);
  }
}

int run_add(const CorpusFlags& flags) {
  const std::string folder = folder_of(flags);
  if (flags.list.empty() == flags.subject.empty()) {
    throw InputError("corpus add needs either a case or --list");
  }
  if (!flags.list.empty()) {
    pin_list(folder, flags.list);
    return kWell;
  }
  const Subject subject = load_subject(flags.subject);
  const std::string name = flags.name.empty()
                               ? subject.given.valid.data.op + "-" + case_hash(subject.given)
                               : flags.name;
  pin(folder, {name, subject.given, flags.catches, flags.why}, flags.catches.empty());
  return kWell;
}

int run_list(const CorpusFlags& flags) {
  const std::vector<PinnedCase> all = load_corpus(folder_of(flags));
  Json json = json_document();
  json["cases"] = Json::array();
  for (const PinnedCase& c : all) {
    json["cases"].push_back({{"name", c.name},
                             {"op", c.given.valid.data.op},
                             {"line", case_line(c.given.valid)},
                             {"hash", case_hash(c.given)},
                             {"why", c.why},
                             {"catches", c.catches}});
    if (flags.json == "-") continue;
    fmt::print("{:<36} {}\n{:36} {}\n{:36} catches {}\n", c.name, case_line(c.given.valid), "",
               c.why, "", c.catches.empty() ? "nothing of the dictionary" : join(c.catches, ", "));
  }
  if (flags.json == "-") print_json(json);
  return kWell;
}

int run_corpus(const CorpusFlags& flags) {
  const std::vector<PinnedCase> all = load_corpus(folder_of(flags));
  // Without a model: by the format that a case is stored in, as `check` does.
  std::map<std::string, std::unique_ptr<Examiner>> examiners;
  const auto examiner_for = [&](const PinnedCase& c) -> Examiner& {
    const std::string stored = infer_model(c.given.valid.data).name;
    std::string model = flags.model;
    if (model.empty() && stored != "fp32") model = stored;
    std::unique_ptr<Examiner>& examiner = examiners[model];
    if (!examiner) {
      CandidateRequest request;
      request.spec = absolute_spec(flags.candidate);
      request.model = model;
      examiner = std::make_unique<Examiner>(request);
    }
    return *examiner;
  };
  std::int64_t findings = 0, passed = 0, missed = 0, caught_faults = 0;
  Progress progress("assay corpus run");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PinnedCase& c = all[i];
    progress.update(static_cast<double>(i) / static_cast<double>(all.size()), c.name);
    const Outcome o = examiner_for(c).examine(c.given, Depth::thorough);
    if (o.finding()) {
      ++findings;
      progress.clear();
      fmt::print("{} {}: {}\n", verdict_name(o.signature.kind), c.name, o.sentence);
    } else if (!says_nothing(o.signature.kind)) {
      ++passed;
    }
    if (!flags.faults) continue;
    for (const std::string& id : c.catches) {
      if (caught(id, c.given)) {
        ++caught_faults;
        continue;
      }
      ++missed;
      progress.clear();
      fmt::print("NOT CAUGHT {}: {}\n", c.name, id);
    }
  }
  progress.clear();
  fmt::print("assay corpus run: {} of {} pinned cases passed, {} findings", passed, all.size(),
             findings);
  if (flags.faults) fmt::print("; {} faults caught, {} missed", caught_faults, missed);
  fmt::print("\n");
  if (findings + missed > 0) return kFinding;
  return passed > 0 ? kWell : kUndecided;
}

}  // namespace

Command add_corpus(CLI::App& parent) {
  auto flags = std::make_shared<CorpusFlags>();
  CLI::App* app = parent.add_subcommand("corpus", "Pinned cases: add, list, run");
  app->require_subcommand(1);
  app->add_option("--corpus", flags->folder, "folder of pinned cases (the built-in one)");
  app->fallthrough();  // before or after the subcommand
  CLI::App* add = app->add_subcommand("add", "Pins a case");
  add->add_option("case", flags->subject,
                  "a failure folder, a case file, or a case line in quotes");
  add->add_option("--name", flags->name, "of the file");
  add->add_option("--why", flags->why, "which kind of bug, one line");
  add->add_option("--catches", flags->catches, "faults it must show (default: all that it shows)")
      ->delimiter(',');
  add->add_option("--list", flags->list, "a file of rows: name | why | case line");
  CLI::App* list = app->add_subcommand("list", "Lists them");
  list->add_flag_callback(
      "--json", [flags] { flags->json = "-"; }, "print JSON");
  CLI::App* run = app->add_subcommand("run", "Runs them all on a candidate");
  run->add_option("--candidate", flags->candidate, "as for check")->capture_default_str();
  run->add_option("--model", flags->model, "fp32, tf32, fp16, bf16 or a JSON file");
  run->add_flag("--faults", flags->faults, "each case must also show the faults it names");
  return {app, [flags, add, list] {
            if (add->parsed()) return run_add(*flags);
            return list->parsed() ? run_list(*flags) : run_corpus(*flags);
          }};
}

}  // namespace assay::cli
