// `assay prove` and `assay verify-cert`.
#include "proofs/engine/prove.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checks/cli/command.hpp"
#include "checks/output/json_output.hpp"
#include "checks/output/progress.hpp"
#include "proofs/checker/check.hpp"
#include "reference/case/safetensors.hpp"

namespace assay::cli {
namespace {

namespace fs = std::filesystem;
using proofs::Outcome;

struct ProveFlags {
  std::vector<std::string> patterns;
  std::string json, certificates, cases, readme;
  bool search = false, siblings = false;
  int threads = 1;
};

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw InputError(fmt::format("cannot write {}", path.string()));
}

fs::path folder(const std::string& name) {
  std::error_code error;
  fs::create_directories(name, error);
  if (error) throw InputError(fmt::format("cannot make the folder {}: {}", name, error.message()));
  return name;
}

void print_outcome(const Outcome& outcome, bool siblings) {
  fmt::print("{:<19} {:<36} {:>7}  {}\n", outcome.answer, outcome.claim->id,
             duration_text(outcome.seconds), outcome.method);
  if (!outcome.as_stated) fmt::print("    {}\n", outcome.detail);
  for (std::size_t i = 0; siblings && i < outcome.siblings.size(); ++i) {
    fmt::print("    sibling {}: {}\n", outcome.siblings[i].refused ? "refused" : "NOT REFUSED",
               outcome.siblings[i].how);
  }
  std::fflush(stdout);
}

Json outcome_json(const Outcome& outcome) {
  Json json = {{"id", outcome.claim->id},         {"answer", outcome.answer},
               {"as_stated", outcome.as_stated},  {"method", outcome.method},
               {"detail", outcome.detail},        {"seconds", outcome.seconds},
               {"source", outcome.claim->source}, {"statement", outcome.claim->says},
               {"domain", outcome.claim->domain}};
  json["siblings"] = Json::array();
  for (const auto& sibling : outcome.siblings) {
    json["siblings"].push_back({{"refused", sibling.refused}, {"how", sibling.how}});
  }
  return json;
}

void write_files(const std::vector<Outcome>& outcomes, const ProveFlags& flags) {
  const std::string cases = flags.cases.empty() ? flags.certificates : flags.cases;
  for (const Outcome& outcome : outcomes) {
    const std::string stem = proofs::file_stem(outcome.claim->id);
    if (!flags.certificates.empty() && outcome.as_stated) {
      const fs::path to = folder(flags.certificates);
      write_text(to / (stem + ".json"), outcome.certificate.dump(1) + "\n");
      for (std::size_t i = 0; i < outcome.parts.size(); ++i) {
        if (outcome.parts[i].smt.empty()) continue;
        write_text(to / fmt::format("{}_{}.smt2", stem, i + 1),
                   "; Part " + std::to_string(i + 1) + " of " + outcome.claim->id +
                       ", negated: unsat when the claim holds.\n" + outcome.parts[i].smt);
      }
    }
    if (cases.empty()) continue;
    for (const proofs::ExportedCase& exported : proofs::counterexamples(outcome)) {
      write_case((folder(cases) / (exported.name + ".safetensors")).string(), exported.data);
    }
  }
}

int run_prove(const ProveFlags& flags) {
  const std::vector<const proofs::Claim*> claims = proofs::select_claims(flags.patterns);
  if (!flags.readme.empty() && !flags.patterns.empty()) {
    throw InputError("--readme needs all claims, not a choice of them");
  }
  const bool to_stdout = flags.json == "-";
  Progress progress("assay prove", ::isatty(STDERR_FILENO) != 0);
  double seconds = 0;
  std::size_t failed = 0, undecided = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto done = [&](const Outcome& outcome, std::size_t count) {
    progress.clear();
    if (!to_stdout) print_outcome(outcome, flags.siblings);
    seconds += outcome.seconds;
    undecided += outcome.undecided;
    failed += !outcome.as_stated && !outcome.undecided;
    progress.update(static_cast<double>(count) / static_cast<double>(claims.size()),
                    outcome.claim->id);
  };
  const std::vector<Outcome> outcomes =
      proofs::prove_all(claims, flags.threads, flags.search, done);
  progress.clear();
  write_files(outcomes, flags);
  if (!flags.readme.empty()) write_text(flags.readme, proofs::readme_text(outcomes));
  if (!flags.json.empty()) {
    Json document = json_document();
    document["claims"] = Json::array();
    for (const Outcome& outcome : outcomes) document["claims"].push_back(outcome_json(outcome));
    if (to_stdout) {
      print_json(document);
    } else {
      write_text(flags.json, document.dump(1) + "\n");
    }
  }
  if (!to_stdout) {
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("\nassay prove: {} of {} claims as stated, {} failed, {} undecided in {}\n",
               claims.size() - failed - undecided, claims.size(), failed, undecided,
               duration_text(wall));
  }
  if (failed != 0) return kFinding;
  return undecided != 0 ? kUndecided : kWell;
}

struct VerifyCertFlags {
  std::vector<std::string> files;
  bool json = false, quiet = false;
};

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("cannot read {}", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The claim's own words for what was checked; throws Rejected when a part of the claim is missing
/// or one proves something that the claim does not state.
std::string claim_match(const checker::Checked& checked) {
  for (const proofs::Claim& claim : proofs::all_claims()) {
    if (claim.id != checked.claim) continue;
    if (claim.parts.size() != checked.parts.size()) {
      throw checker::Rejected("the claim has " + std::to_string(claim.parts.size()) + " parts");
    }
    for (std::size_t i = 0; i < claim.parts.size(); ++i) {
      if (claim.parts[i].statement.dump() != checked.parts[i].statement ||
          claim.parts[i].holds != checked.parts[i].holds) {
        throw checker::Rejected("part " + std::to_string(i + 1) + " is not what " + claim.id +
                                " states");
      }
    }
    return claim.says;
  }
  return "";
}

int run_verify_cert(const VerifyCertFlags& flags) {
  std::vector<std::string> files;
  for (const std::string& name : flags.files) {
    if (!fs::is_directory(name)) {
      files.push_back(name);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(name)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    }
    std::sort(files.begin() + static_cast<long>(before), files.end());
    if (files.size() == before) throw InputError(fmt::format("{} holds no *.json", name));
  }
  Json list = Json::array();
  int rejected = 0;
  for (const std::string& name : files) {
    const std::string text = read_text(name);
    Json entry = {{"file", name}};
    try {
      const checker::Checked checked = checker::check_certificate(text);
      const std::string says = claim_match(checked);
      entry["valid"] = true;
      entry["claim"] = checked.claim;
      entry["answer"] = checked.answer;
      entry["parts"] = Json::array();
      for (const auto& part : checked.parts) {
        entry["parts"].push_back(
            {{"statement", Json::parse(part.statement)}, {"holds", part.holds}, {"how", part.how}});
      }
      if (!flags.json) {
        fmt::print("valid     {:<36} {}, {} part{}\n", checked.claim, checked.answer,
                   checked.parts.size(), checked.parts.size() == 1 ? "" : "s");
        if (!says.empty() && !flags.quiet) fmt::print("    {}\n", says);
        for (const auto& part : checked.parts) {
          if (says.empty()) fmt::print("    {}\n", part.statement);
          if (!flags.quiet) {
            fmt::print("    {}: {}\n", part.holds ? "holds" : "refuted", part.how);
          }
        }
      }
    } catch (const checker::Rejected& error) {
      ++rejected;
      entry["valid"] = false;
      entry["reason"] = error.what();
      if (!flags.json) fmt::print("REJECTED  {}: {}\n", name, error.what());
    }
    list.push_back(std::move(entry));
  }
  if (flags.json) {
    Json document = json_document();
    document["certificates"] = std::move(list);
    print_json(document);
  } else {
    fmt::print("\nassay verify-cert: {} of {} valid\n", files.size() - rejected, files.size());
  }
  return rejected == 0 ? kWell : kFinding;
}

}  // namespace

Command add_prove(CLI::App& parent) {
  auto flags = std::make_shared<ProveFlags>();
  CLI::App* app = parent.add_subcommand("prove", "Proves or refutes the claims, with certificates");
  app->add_option("claims", flags->patterns, "ids or globs, all when none is given");
  app->add_option("--json", flags->json, "write the outcomes to this file, - for standard output")
      ->check(writable_file());
  app->add_option("--certificates", flags->certificates,
                  "folder for certificates, SMT-LIB questions and counterexamples");
  app->add_option("--cases", flags->cases, "folder for counterexamples as case files");
  app->add_option("--readme", flags->readme, "write the list of all claims to this file");
  app->add_flag("--siblings", flags->siblings, "say how each false sibling was refused");
  app->add_flag("--search", flags->search,
                "find anew what is recorded because finding it takes minutes");
  add_threads(*app, flags->threads);
  return {app, [flags] { return run_prove(*flags); }};
}

Command add_verify_cert(CLI::App& parent) {
  auto flags = std::make_shared<VerifyCertFlags>();
  CLI::App* app = parent.add_subcommand(
      "verify-cert", "Checks certificates with code that shares nothing with the finder");
  app->add_option("files", flags->files, "certificates, or folders of them")->required();
  app->add_flag("--json", flags->json, "print JSON");
  app->add_flag("--quiet", flags->quiet, "one line a certificate");
  return {app, [flags] { return run_verify_cert(*flags); }};
}

}  // namespace assay::cli
