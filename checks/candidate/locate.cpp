#include "checks/candidate/locate.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "reference/case/tensor.hpp"
#include "reference/case/text.hpp"

namespace fs = std::filesystem;

namespace assay {
namespace {

fs::path program_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::string find_part(const char* environment_variable, const std::string& name) {
  if (const char* given = std::getenv(environment_variable); given != nullptr && *given != '\0') {
    if (!is_there(given)) {
      throw InputError(std::string(environment_variable) + " names " + quote_name(given) +
                       ", which does not exist");
    }
    return fs::absolute(given).string();
  }
  const fs::path here = program_folder();
  for (const fs::path& folder : {here, here.parent_path(), here.parent_path() / "libexec/assay",
                                 here.parent_path() / "lib/assay"}) {
    if (is_there(folder / name)) return (folder / name).string();
  }
  return "";
}

std::string worker_package_folder() {
  const fs::path here = program_folder();
  for (const fs::path& folder : {here / "python", here.parent_path() / "share/assay/python",
                                 fs::path(ASSAY_WORKER_FOLDER)}) {
    if (is_there(folder / "assay_worker")) return folder.string();
  }
  return "";
}

std::string find_program(const std::string& name) {
  const auto runs = [](const fs::path& path) {
    return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path);
  };
  if (name.find('/') != std::string::npos) return runs(name) ? name : "";
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (runs(candidate)) return candidate.string();
  }
  return "";
}

}  // namespace assay
