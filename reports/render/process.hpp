// A tool run as a child process: input and output in memory, a time limit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay::render {

struct ProcessResult {
  bool started = false;  // false: no such program
  bool timed_out = false;
  int exit_code = -1;  // -1: ended by a signal
  std::string output, errors;
};

/// Runs `arguments` (the first is looked up in PATH) with `input` as standard input. The child is
/// killed after `seconds`. Throws std::runtime_error when the system has no process or memory file
/// to give.
ProcessResult run_process(const std::vector<std::string>& arguments, std::string_view input,
                          double seconds);

}  // namespace assay::render
