// The program `assay`.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "checks/cli/command.hpp"
#include "checks/faults/candidate.hpp"
#include "checks/output/failure_folder.hpp"
#include "checks/output/interrupt.hpp"
#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

namespace {

using namespace assay::cli;

int complain(std::string text, int code) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  // A name out of a hostile file must not steer the terminal.
  const std::string line = fmt::format("assay: {}\n", assay::printable(text, std::string::npos));
  std::fputs(line.c_str(), stderr);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("Finds out whether a recurrence kernel really computes its recurrence.", "assay");
  app.set_version_flag("--version", "assay " ASSAY_VERSION);
  app.require_subcommand(0, 1);
  app.footer(
      "Exit: 0 all well, 1 a finding, 2 bad usage or input, 3 could not decide or nothing could "
      "run.");
  const std::vector<Command> commands = {
      add_list(app),  add_gen(app),    add_eval(app),   add_gradcheck(app),   add_check(app),
      add_judge(app), add_report(app), add_prove(app),  add_verify_cert(app), add_verify(app),
      add_fuzz(app),  add_replay(app), add_shrink(app), add_merge(app),       add_corpus(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return complain(error.what(), kBadInput);
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return complain("no command given; assay --help lists them", kBadInput);
}

}  // namespace

int main(int argc, char** argv) {
  assay::catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an error of the write
  assay::register_emulated_candidates();
  int code = kUndecided;
  invocation() = "assay";
  for (int i = 1; i < argc; ++i) invocation() += " " + assay::shell_word(argv[i]);
  try {
    code = run(argc, argv);
  } catch (const assay::InputError& error) {
    return complain(error.what(), kBadInput);
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kBadInput);
  } catch (const std::exception& error) {
    return complain(error.what(), kUndecided);
  } catch (...) {
    return complain("unknown error", kUndecided);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    return complain("cannot write to standard output", kUndecided);
  }
  return code;
}
