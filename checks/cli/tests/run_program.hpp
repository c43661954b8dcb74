// Runs the program `assay` as a user would.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace assay::tests {

struct ProgramRun {
  int exit_code = -1;
  std::string out, err;
};

/// `arguments` as one would type them in a shell.
ProgramRun run_program(const std::string& arguments);

/// A folder that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);
std::string sample(const std::string& name);

}  // namespace assay::tests
