// What the files of this folder share: one subcommand each, exit codes, loading of cases.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "reference/case/schema.hpp"

namespace assay::cli {

enum ExitCode {
  kWell = 0,       // all well
  kFinding = 1,    // something is wrong with what was checked
  kBadInput = 2,   // bad usage or input
  kUndecided = 3,  // could not decide, or nothing could run
};

/// A subcommand: CLI11's part, and what runs once it was parsed. `run` returns an ExitCode and
/// throws InputError for bad input.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

Command add_list(CLI::App& parent);
Command add_gen(CLI::App& parent);
Command add_eval(CLI::App& parent);
Command add_gradcheck(CLI::App& parent);
Command add_check(CLI::App& parent);
Command add_judge(CLI::App& parent);
Command add_report(CLI::App& parent);
Command add_validation(CLI::App& report);  // below `report`
Command add_prove(CLI::App& parent);
Command add_verify_cert(CLI::App& parent);
Command add_verify(CLI::App& parent);
Command add_fuzz(CLI::App& parent);
Command add_replay(CLI::App& parent);
Command add_shrink(CLI::App& parent);
Command add_merge(CLI::App& parent);
Command add_corpus(CLI::App& parent);

/// The command line as it was typed, for reports.
std::string& invocation();

/// "60s", "90", "2m" or "1h" in seconds; throws InputError.
double parse_duration(const std::string& text);

/// Adds --threads, by default all cores.
void add_threads(CLI::App& app, int& threads);

/// Adds --seed, a whole number from 0 on, with the value given as its default.
void add_seed(CLI::App& app, std::uint64_t& seed, const std::string& doc);

/// Refuses "", which an unset variable of a script makes of an option: it would be the root folder.
CLI::Validator named_folder();

/// Refuses a file that could not be written, before the work and not after it; takes - and "".
CLI::Validator writable_file();

/// Is this a case file rather than the name of an operation?
bool looks_like_file(const std::string& text);

/// Reads and validates a case file. `adjust` may change the case before it is validated. Domain
/// notes are printed to stderr, or are an InputError when `strict`.
ValidCase load_case(const std::string& path, bool strict,
                    const std::function<void(Case&)>& adjust = {});

}  // namespace assay::cli
